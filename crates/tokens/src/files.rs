//! Reading small files that are not trusted.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::Error;

/// The most that is read of one file. The largest published tokenizer.json has 34 MB.
pub(crate) const LARGEST: u64 = 256 << 20;

/// A folder of a model, in which files may or may not be.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a>(pub &'a Path);

impl Folder<'_> {
    /// The path of a file where there is one.
    pub fn has(self, name: &str) -> Option<PathBuf> {
        let path = self.0.join(name);
        path.is_file().then_some(path)
    }

    /// The value in a JSON file, or `None` where there is none.
    pub fn json<T: DeserializeOwned>(self, name: &str) -> Result<Option<T>, Error> {
        let Some(path) = self.has(name) else { return Ok(None) };
        json(&path).map(Some)
    }

    /// The first file whose name ends so, in alphabetical order: what `read_dir` gives is not an order.
    pub fn first(self, ending: &str) -> Result<Option<PathBuf>, Error> {
        let entries = fs::read_dir(self.0).map_err(Error::io("list", self.0))?;
        let mut names: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending))
            .collect();
        names.sort();
        Ok(names.into_iter().next())
    }
}

/// The whole of a file that is not larger than any honest one.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let size = file.metadata().map_err(Error::io("read", path))?.len();
    if size > LARGEST {
        return Err(Error::Large { path: path.to_path_buf(), size, limit: LARGEST });
    }
    // The size may change, or be nought for a pipe: what is read is limited too.
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    let size = bytes.len() as u64;
    if size > LARGEST {
        return Err(Error::Large { path: path.to_path_buf(), size, limit: LARGEST });
    }
    Ok(bytes)
}

/// The value in a JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    serde_json::from_slice(&read(path)?).map_err(|error| Error::broken(path.display(), error))
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|error| Error::broken(path.display(), error))
}
