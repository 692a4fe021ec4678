//! What a file must come to. The hub names small files by git's SHA-1 and large ones by SHA-256, and so does the cache.

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The name of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hash {
    /// Of the bytes, for files in large file storage.
    Sha256(String),
    /// Of git's header and the bytes, for what git itself keeps.
    Git(String),
}

impl Hash {
    /// The hash that `text` writes in hexadecimal; nothing where it writes none. As a file's name it is safe.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        if !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        match text.len() {
            64 => Some(Self::Sha256(text)),
            40 => Some(Self::Git(text)),
            _ => None,
        }
    }

    /// The hash as the cache spells it.
    pub fn text(&self) -> &str {
        match self {
            Self::Sha256(text) | Self::Git(text) => text,
        }
    }

    /// How to compute such a hash of `size` bytes.
    pub fn digest(&self, size: u64) -> Digest {
        match self {
            Self::Sha256(_) => Digest::Sha256(Sha256::new()),
            Self::Git(_) => {
                let mut sha = Sha1::new();
                sha.update(format!("blob {size}\0"));
                Digest::Git(sha)
            }
        }
    }
}

/// A hash in the making.
pub enum Digest {
    /// See [`Hash::Sha256`].
    Sha256(Sha256),
    /// See [`Hash::Git`].
    Git(Sha1),
}

impl Digest {
    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sha) => sha.update(bytes),
            Self::Git(sha) => sha.update(bytes),
        }
    }

    /// The hash of all that was taken in.
    pub fn finish(self) -> Hash {
        fn hex(bytes: &[u8]) -> String {
            let digit = |four: u8| char::from_digit(four.into(), 16).unwrap_or('0');
            bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
        }
        match self {
            Self::Sha256(sha) => Hash::Sha256(hex(&sha.finalize())),
            Self::Git(sha) => Hash::Git(hex(&sha.finalize())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, bytes: &[u8]) -> String {
        let mut digest = Hash::parse(kind).unwrap().digest(bytes.len() as u64);
        bytes.chunks(3).for_each(|chunk| digest.update(chunk));
        digest.finish().text().to_owned()
    }

    #[test]
    fn hashes_are_those_of_git_and_sha256sum() {
        let git = "ce013625030ba8dba906f756967f9e9ca394464a"; // echo hello | git hash-object --stdin
        let sha = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"; // echo hello | sha256sum
        assert_eq!(of(git, b"hello\n"), git);
        assert_eq!(of(sha, b"hello\n"), sha);
    }

    #[test]
    fn what_is_no_hash_names_no_file() {
        for text in ["", "..", "../../x", "ce01", &"g".repeat(40), &"a".repeat(41)] {
            assert_eq!(Hash::parse(text), None, "{text}");
        }
    }
}
