//! The hub's interface over a few models: listings, small files of its own, large files elsewhere.

use sha2::Digest;

use super::server::{Reply, Request};

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A model of the hub.
#[derive(Clone)]
pub struct Site {
    pub id: &'static str,
    pub commit: String,
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// Where large files lie; here if not given.
    pub elsewhere: Option<String>,
}

/// What is as large as this lies in large file storage.
const LARGE: usize = 1000;

fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(four.into(), 16).unwrap();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The hash that the hub names a file by.
pub fn hash(bytes: &[u8]) -> String {
    if bytes.len() >= LARGE {
        return hex(&sha2::Sha256::digest(bytes));
    }
    let mut sha = sha1::Sha1::new();
    sha.update(format!("blob {}\0", bytes.len()));
    sha.update(bytes);
    hex(&sha.finalize())
}

/// Bytes that are not all the same.
pub fn weights(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * i / 7 + i) as u8).collect()
}

impl Site {
    /// A model with a configuration, a tokenizer, weights, and the same weights in formats that nobody needs.
    pub fn new() -> Self {
        let files = vec![
            ("README.md", b"# A model".to_vec()),
            ("config.json", br#"{"model_type":"llama"}"#.to_vec()),
            ("tokenizer.json", weights(5000)),
            ("model.safetensors", weights(300_000)),
            ("pytorch_model.bin", weights(300_001)),
            ("onnx/model.onnx", weights(300_002)),
        ];
        Self { id: "org/name", commit: COMMIT.to_owned(), files, elsewhere: None }
    }

    /// The same with another set of files.
    pub fn with(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self { files, ..Self::new() }
    }

    pub fn get(&self, path: &str) -> Option<&[u8]> {
        self.files.iter().find(|(known, _)| *known == path).map(|(_, bytes)| bytes.as_slice())
    }

    /// The listing, each file as it is.
    pub fn listing(&self) -> String {
        let file = |(path, bytes): &(&str, Vec<u8>)| {
            let (size, hash) = (bytes.len(), hash(bytes));
            let lfs = if size >= LARGE {
                format!(r#","lfs":{{"sha256":"{hash}","size":{size},"pointerSize":134}}"#)
            } else {
                String::new()
            };
            let blob = if size >= LARGE { "f".repeat(40) } else { hash };
            format!(r#"{{"rfilename":"{path}","size":{size},"blobId":"{blob}"{lfs}}}"#)
        };
        let files: Vec<String> = self.files.iter().map(file).collect();
        format!(r#"{{"id":"{}","sha":"{}","siblings":[{}]}}"#, self.id, self.commit, files.join(","))
    }

    /// What the hub answers.
    pub fn answer(&self, request: &Request) -> Reply {
        let path = request.path.split('?').next().unwrap();
        let missing = |code: &'static str| Reply::new(404).with("X-Error-Code", code);
        if let Some(rest) = path.strip_prefix("/api/models/") {
            let Some((id, revision)) = rest.split_once("/revision/") else { return missing("RepoNotFound") };
            if id != self.id {
                return Reply::new(401).with("X-Error-Code", "RepoNotFound");
            }
            if revision != "main" && revision != self.commit && revision != "refs%2Fpr%2F1" {
                return missing("RevisionNotFound");
            }
            return Reply::new(200).body(self.listing());
        }
        if let Some(rest) = path.strip_prefix("/cache/") {
            return Reply::bytes(request, self.get(rest).unwrap()).with("ETag", "\"not-a-hash\"");
        }
        let Some((revision, file)) =
            path.strip_prefix(&format!("/{}/resolve/", self.id)).and_then(|p| p.split_once('/'))
        else {
            return missing("RepoNotFound");
        };
        if revision != self.commit {
            return missing("RevisionNotFound");
        }
        let Some(bytes) = self.get(file) else { return missing("EntryNotFound") };
        let told = |reply: Reply| {
            reply
                .with("X-Repo-Commit", self.commit.as_str())
                .with("X-Linked-Etag", format!("\"{}\"", hash(bytes)))
                .with("X-Linked-Size", bytes.len().to_string())
        };
        match &self.elsewhere {
            Some(url) if bytes.len() >= LARGE => {
                told(Reply::new(302)).with("Location", format!("{url}/{}?Signature=secret", hash(bytes)))
            }
            // Small files go through a relative redirect.
            _ => told(Reply::new(307)).with("Location", format!("/cache/{file}")),
        }
    }

    /// What a store of large files answers: `/HASH`.
    pub fn store(&self, request: &Request) -> Reply {
        let wanted = request.path.trim_start_matches('/').split('?').next().unwrap();
        match self.files.iter().find(|(_, bytes)| hash(bytes) == wanted) {
            Some((_, bytes)) => Reply::bytes(request, bytes).with("ETag", "\"another\""),
            None => Reply::new(404),
        }
    }
}
