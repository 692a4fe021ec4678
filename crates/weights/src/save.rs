//! Writing a safetensors file so that there is always a whole one: the old or the new.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process;

use glassformer_tensor::Tensor;

use crate::error::clip;
use crate::json::LONGEST;
use crate::safetensors::{Claim, Header, METADATA, PREFIX};
use crate::{Dtype, Error};

/// Numbers converted at a time.
const CHUNK: usize = 16 * 1024;

/// Writes `tensors` and `metadata` as a safetensors file of `f32`, sorted by name: equal content gives equal bytes.
///
/// The file appears at `path` whole or not at all, and is on the disk when this returns: it is written beside `path`
/// under a temporary name, synchronised, renamed, and the folder is synchronised.
///
/// # Errors
/// If the system refuses, or a name is reserved or comes twice. What was at `path` is then still there.
pub fn save<'a>(
    path: impl AsRef<Path>,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let path = path.as_ref();
    let mut sorted = BTreeMap::new();
    for (name, tensor) in tensors {
        if sorted.insert(name, tensor).is_some() {
            let reason = "another tensor has it";
            return Err(Error::Name { path: path.into(), name: clip(name), reason });
        }
    }
    let claims: BTreeMap<&str, (Dtype, &[usize])> =
        sorted.iter().map(|(&name, tensor)| (name, (Dtype::F32, tensor.shape()))).collect();
    save_streamed(path, &claims, metadata, |name, file| {
        let mut bytes = Vec::with_capacity(CHUNK * Dtype::F32.bytes());
        for values in sorted[name].data().chunks(CHUNK) {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            file.write_all(&bytes)?;
        }
        Ok(())
    })
}

/// The same of tensors that are made when their turn comes: each has a type and a shape, and `fill` writes its bytes. They come
/// in the order of their names.
///
/// # Errors
/// If the system refuses, a name is reserved, or a tensor gets more or fewer bytes than its shape says.
pub fn save_streamed(
    path: impl AsRef<Path>,
    tensors: &BTreeMap<&str, (Dtype, &[usize])>,
    metadata: &BTreeMap<String, String>,
    mut fill: impl FnMut(&str, &mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let path = path.as_ref();
    let head = header(path, tensors, metadata)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut write = |file: &mut File| {
        let mut buffered = BufWriter::with_capacity(CHUNK * Dtype::F32.bytes(), &mut *file);
        buffered.write_all(&head)?;
        for (&name, (dtype, shape)) in tensors {
            let mut counted = Counted { inner: &mut buffered, bytes: 0 };
            fill(name, &mut counted)?;
            if counted.bytes != dtype.bytes_of(shape).unwrap_or_default() {
                let why = format!("tensor {name:?} was not filled as its shape says");
                return Err(io::Error::new(ErrorKind::InvalidData, why));
            }
        }
        buffered.flush()?;
        drop(buffered);
        // What is no file on a disk has nothing to synchronise, and says so.
        if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
    };
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        // A device or a pipe: what is there is written to, not replaced.
        let mut there = File::options().write(true).open(path).map_err(Error::io("open", path))?;
        return write(&mut there).map_err(Error::io("write", path));
    }
    let (temporary, mut file) = create_beside(path, folder)?;
    let written = write(&mut file)
        .map_err(Error::io("write", path))
        .and_then(|()| fs::rename(&temporary, path).map_err(Error::io("replace", path)));
    if written.is_err() {
        // The first error is the one to tell; a file that cannot be removed either is a lesser evil.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    synchronise(folder).map_err(Error::io("synchronise", folder))
}

/// A safetensors file of `f32` in memory, as [`save`] would write it.
///
/// # Errors
/// If a name is reserved, or comes twice.
pub fn encode<'a>(
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Error> {
    let path = Path::new("memory");
    let mut sorted = BTreeMap::new();
    for (name, tensor) in tensors {
        if sorted.insert(name, tensor).is_some() {
            let reason = "another tensor has it";
            return Err(Error::Name { path: path.into(), name: clip(name), reason });
        }
    }
    let claims: BTreeMap<&str, (Dtype, &[usize])> =
        sorted.iter().map(|(&name, tensor)| (name, (Dtype::F32, tensor.shape()))).collect();
    let mut bytes = header(path, &claims, metadata)?;
    for tensor in sorted.values() {
        bytes.extend(tensor.data().iter().flat_map(|value| value.to_le_bytes()));
    }
    Ok(bytes)
}

/// The length and the header, padded with spaces so that the data is aligned to 8 bytes.
fn header(
    path: &Path,
    tensors: &BTreeMap<&str, (Dtype, &[usize])>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>, Error> {
    let mut header = Header { metadata: metadata.clone(), tensors: BTreeMap::new() };
    let mut end = 0;
    for (&name, &(dtype, shape)) in tensors {
        if name == METADATA {
            let reason = "safetensors reserves this name";
            return Err(Error::Name { path: path.into(), name: clip(name), reason });
        }
        let start = end;
        let large = || Error::Shape { path: path.into(), name: clip(name), shape: shape.to_vec() };
        end += dtype.bytes_of(shape).ok_or_else(large)?;
        let claim =
            Claim { dtype: dtype.name().to_owned(), shape: shape.to_vec(), data_offsets: (start, end) };
        header.tensors.insert(name.to_owned(), claim);
    }
    let mut bytes = vec![0; PREFIX];
    serde_json::to_writer(&mut bytes, &header)
        .map_err(|error| Error::io("write the header of", path)(error.into()))?;
    bytes.resize(bytes.len().next_multiple_of(PREFIX), b' ');
    let length = (bytes.len() - PREFIX) as u64;
    if length > LONGEST {
        return Err(Error::LongHeader { path: path.into(), length, limit: LONGEST });
    }
    bytes[..PREFIX].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// A new file in the folder of `path`, on the same disk therefore, under a name that nobody uses.
fn create_beside(path: &Path, folder: &Path) -> Result<(PathBuf, File), Error> {
    let Some(name) = path.file_name() else {
        return Err(Error::io("write", path)(io::Error::new(
            ErrorKind::InvalidInput,
            "it does not name a file",
        )));
    };
    let mut attempt = 0_u32;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}.tmp", process::id()));
        let temporary = folder.join(hidden);
        match File::create_new(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => attempt += 1,
            Err(error) => return Err(Error::io("create", path)(error)),
        }
    }
}

/// A writer that counts.
struct Counted<W> {
    inner: W,
    bytes: usize,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Makes a rename in `folder` last. Only Unix lets a program open a folder for this.
fn synchronise(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
