//! Files mapped into memory, or there already: the only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ThreadId};

use memmap2::Mmap;

use crate::Error;

/// The bytes of a file, for reading.
pub(crate) struct Map {
    bytes: Bytes,
    /// The part that each thread was lent last, see [`Map::lend`].
    lent: Mutex<HashMap<ThreadId, Range<usize>>>,
}

enum Bytes {
    Mapped(Mmap),
    /// Part of the program, or given by it.
    Memory(Cow<'static, [u8]>),
}

impl Map {
    /// A file that is in memory.
    pub(crate) fn of(bytes: Cow<'static, [u8]>) -> Self {
        Self { bytes: Bytes::Memory(bytes), lent: Mutex::default() }
    }

    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        // Opening a pipe would wait for its writer, and a device has no size.
        if !fs::metadata(path).map_err(Error::io("open", path))?.is_file() {
            return Err(Error::io("open", path)(io::Error::other("it is not a regular file")));
        }
        let file = File::open(path).map_err(Error::io("open", path))?;
        // SAFETY: the map is read-only and private. What the compiler cannot know is that nobody else changes or
        // shortens the file meanwhile; `Weights::open` asks for that, and `save` never writes into a file in place.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        Ok(Self { bytes: Bytes::Mapped(map), lent: Mutex::default() })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Memory(bytes) => bytes,
        }
    }

    /// Notes that a thread reads a part of the file where it lies, and lets go of what it read before: whoever prepares a
    /// model reads tensor by tensor and keeps a form of its own, so that pages of the file would only be held twice.
    pub(crate) fn lend(&self, part: Range<usize>) {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lent.insert(thread::current().id(), part.clone());
        drop(lent);
        if let Some(before) = before.filter(|before| *before != part) {
            self.forget(before);
        }
    }

    /// Lets go of the pages of a part. Reading them again is allowed and fetches them again.
    pub(crate) fn forget(&self, part: Range<usize>) {
        // Only whole pages: what lies beside it may be in use.
        #[cfg(unix)]
        {
            const PAGE: usize = 1 << 16; // a multiple of every usual size
            let (start, end) = (part.start.next_multiple_of(PAGE), part.end / PAGE * PAGE);
            if let Bytes::Mapped(map) = &self.bytes
                && start < end
            {
                // SAFETY: nothing is ever written to this map, so that pages hold what the file holds, now and later.
                // That it fails changes nothing but the memory in use.
                let _ = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        #[cfg(not(unix))]
        let _ = part;
    }
}

/// Little-endian bytes seen as numbers, where this machine can: aligned, and little-endian itself.
pub(crate) fn floats(bytes: &[u8]) -> Option<&[f32]> {
    // SAFETY: every pattern of 32 bits is an `f32`.
    let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
    (cfg!(target_endian = "little") && before.is_empty() && after.is_empty()).then_some(floats)
}
