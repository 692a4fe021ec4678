//! Files mapped into memory: the only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::path::Path;

use memmap2::Mmap;

use crate::Error;

/// The bytes of a file, mapped for reading.
pub(crate) struct Map(Mmap);

impl Map {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // Opening a pipe would wait for its writer, and a device has no size.
        if !fs::metadata(path).map_err(Error::io("open", path))?.is_file() {
            return Err(Error::io("open", path)(io::Error::other("it is not a regular file")));
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        // SAFETY: the map is read-only and private. What the compiler cannot know is that nobody else changes or
        // shortens the file meanwhile; `Weights::open` asks for that, and `save` never writes into a file in place.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        Ok(Self(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Little-endian bytes seen as numbers, where this machine can: aligned, and little-endian itself.
pub(crate) fn floats(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: every pattern of 32 bits is an `f32`.
    let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
    (cfg!(target_endian = "little") && before.is_empty() && after.is_empty()).then_some(floats)
}
