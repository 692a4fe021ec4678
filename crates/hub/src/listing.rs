//! What files a model has at a commit. A server says so, and is not believed before it was checked.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Hash;
use crate::name::{check_path, leads_out};

/// No model of a hub has so many files.
const MOST_FILES: usize = 100_000;

/// No file of a hub has so many bytes: 16 TiB.
const MOST_BYTES: u64 = 1 << 44;

/// The files of a model at a commit.
#[derive(Clone, Debug)]
pub struct Listing {
    pub commit: String,
    pub files: Vec<Entry>,
}

/// A file, as far as the hub tells.
#[derive(Clone, Debug)]
pub struct Entry {
    pub path: String,
    pub size: Option<u64>,
    pub hash: Option<Hash>,
}

/// What `/api/models/NAME/revision/REVISION?blobs=true` answers, and what is kept of it in the cache.
#[derive(Serialize, Deserialize)]
struct Answer {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lfs: Option<Lfs>,
}

#[derive(Serialize, Deserialize)]
struct Lfs {
    sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

impl Listing {
    /// Reads what a hub answers.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let answer: Answer =
            serde_json::from_slice(bytes).map_err(|error| format!("it is no listing: {error}"))?;
        if !is_commit(&answer.sha) {
            return Err(format!("{:?} is no commit", clip(&answer.sha)));
        }
        if answer.siblings.len() > MOST_FILES {
            return Err(format!("it lists {} files", answer.siblings.len()));
        }
        let mut seen = BTreeSet::new();
        let mut files = Vec::with_capacity(answer.siblings.len());
        for sibling in answer.siblings {
            if leads_out(&sibling.rfilename) {
                return Err(format!(
                    "it lists a file {:?}, which leads out of its folder",
                    clip(&sibling.rfilename)
                ));
            }
            // Such names occur, of pictures for example. They mean something else on some systems, and no model needs them.
            if check_path(&sibling.rfilename).is_err() {
                continue;
            }
            if !seen.insert(sibling.rfilename.clone()) {
                return Err(format!("it lists {} twice", sibling.rfilename));
            }
            files.push(entry(sibling)?);
        }
        Ok(Self { commit: answer.sha, files })
    }

    /// The same as text, for [`Listing::parse`].
    pub fn write(&self) -> String {
        let sibling = |entry: &Entry| {
            let (blob_id, lfs) = match &entry.hash {
                None => (None, None),
                Some(Hash::Git(hash)) => (Some(hash.clone()), None),
                Some(Hash::Sha256(hash)) => (None, Some(Lfs { sha256: hash.clone(), size: entry.size })),
            };
            Sibling { rfilename: entry.path.clone(), size: entry.size, blob_id, lfs }
        };
        let answer = Answer { sha: self.commit.clone(), siblings: self.files.iter().map(sibling).collect() };
        serde_json::to_string(&answer).unwrap_or_default()
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.files.iter().find(|entry| entry.path == path)
    }
}

fn entry(sibling: Sibling) -> Result<Entry, String> {
    let path = sibling.rfilename;
    let hash = |text: &str| Hash::parse(text).ok_or_else(|| format!("{:?} is no hash of {path}", clip(text)));
    let (size, hash) = match (&sibling.lfs, &sibling.blob_id) {
        (Some(lfs), _) => (lfs.size.or(sibling.size), Some(hash(&lfs.sha256)?)),
        (None, Some(blob)) => (sibling.size, Some(hash(blob)?)),
        (None, None) => (sibling.size, None),
    };
    if let Some(size) = size.filter(|size| *size > MOST_BYTES) {
        return Err(format!("{path} has {size} bytes"));
    }
    Ok(Entry { path, size, hash })
}

/// Whether `text` is a whole commit, which never means anything else.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

/// As much of a text as a message has room for.
pub fn clip(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &str) -> Result<Listing, String> {
        Listing::parse(format!(r#"{{"sha":"{}","siblings":[{files}]}}"#, "a".repeat(40)).as_bytes())
    }

    #[test]
    fn sizes_and_hashes_are_read_and_written_again() {
        let (git, sha) = ("b".repeat(40), "c".repeat(64));
        let files = format!(
            r#"{{"rfilename":"config.json","size":12,"blobId":"{git}"}},
               {{"rfilename":"m.safetensors","size":99,"blobId":"{git}","lfs":{{"sha256":"{sha}","size":99,"pointerSize":134}}}},
               {{"rfilename":"plain"}}"#
        );
        let read = listing(&files).unwrap();
        let again = Listing::parse(read.write().as_bytes()).unwrap();
        for listing in [read, again] {
            let get = |path: &str| listing.get(path).map(|entry| (entry.size, entry.hash.clone()));
            assert_eq!(get("config.json"), Some((Some(12), Hash::parse(&git))));
            assert_eq!(get("m.safetensors"), Some((Some(99), Hash::parse(&sha))));
            assert_eq!(get("plain"), Some((None, None)));
        }
    }

    #[test]
    fn listings_that_are_not_safe_are_refused() {
        for path in ["../x", "a/../../x", "/etc/passwd", "a//b", "./a", ""] {
            let error = listing(&format!(r#"{{"rfilename":"{path}"}}"#)).unwrap_err();
            assert!(error.contains("leads out"), "{path}: {error}");
        }
        for path in ["a\\\\..\\\\b", "C:x", "a\\u0000b"] {
            assert!(listing(&format!(r#"{{"rfilename":"{path}"}}"#)).unwrap().files.is_empty(), "{path}");
        }
        let wrong = [
            r#"{"rfilename":"a","size":-1}"#,
            r#"{"rfilename":"a","size":18446744073709551615}"#,
            r#"{"rfilename":"a","size":1e300}"#,
            r#"{"rfilename":"a","blobId":"../../x"}"#,
            r#"{"rfilename":"a","lfs":{"sha256":"short"}}"#,
            r#"{"rfilename":"a"},{"rfilename":"a"}"#,
            r#"{"rfilename":7}"#,
        ];
        for files in wrong {
            assert!(listing(files).is_err(), "{files}");
        }
        for whole in ["", "[]", "<html>", r#"{"sha":"main","siblings":[]}"#, r#"{"sha":"../../../x"}"#] {
            assert!(Listing::parse(whole.as_bytes()).is_err(), "{whole}");
        }
    }
}
