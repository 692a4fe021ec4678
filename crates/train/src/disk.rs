//! Writing so that a file is there whole or not at all, and knowing that it is what was written.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::Error;

/// Writes `bytes` to `path`: beside it first, synchronised, then in its place.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let put = || {
        let mut file = File::create(temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    };
    put().map_err(|error| {
        // The first error is the one to tell.
        let _ = fs::remove_file(temporary);
        Error::io("write", path)(error)
    })?;
    path.parent().map_or(Ok(()), synchronise)
}

/// Makes what happened in `folder` last. Only Unix lets a program open a folder for this.
pub(crate) fn synchronise(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let sync = || if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) };
    sync().map_err(Error::io("synchronise", folder))
}

/// The SHA-256 of a file, in hexadecimal, as `sha256sum` prints it.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let hash = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut bytes = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut bytes)?;
            if count == 0 {
                return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
            }
            hash.update(&bytes[..count]);
        }
    };
    hash().map_err(Error::io("read", path))
}
