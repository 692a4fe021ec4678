//! Bytes read from front to back, none of them twice and none that are not there.

use std::ops::Range;
use std::path::Path;

use crate::Error;
use crate::error::clip;

/// A position in the bytes of a file, and what to call the file when they end too early.
pub(crate) struct Reader<'a> {
    path: &'a Path,
    format: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(path: &'a Path, format: &'static str, bytes: &'a [u8]) -> Self {
        Self { path, format, bytes, at: 0 }
    }

    /// Goes to a position; one behind the end is found out by the next read.
    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }

    /// The bytes from here to the end.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// How many bytes there are from here to the end.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// The next `count` bytes, which hold `what`.
    pub(crate) fn take(&mut self, count: u64, what: &str) -> Result<&'a [u8], Error> {
        let range = self.range(count, what)?;
        Ok(&self.bytes[range])
    }

    /// The range of the next `count` bytes, which hold `what`.
    pub(crate) fn range(&mut self, count: u64, what: &str) -> Result<Range<usize>, Error> {
        let left = self.left();
        match usize::try_from(count) {
            Ok(count) if count <= left => {
                let start = self.at;
                self.at += count;
                Ok(start..self.at)
            }
            _ => {
                let at = self.at;
                Err(self.damaged(format!("{what} at byte {at} needs {count} bytes, and {left} are left")))
            }
        }
    }

    fn array<const SIZE: usize>(&mut self, what: &str) -> Result<[u8; SIZE], Error> {
        let bytes = self.take(SIZE as u64, what)?;
        Ok(*bytes.first_chunk().unwrap_or_else(|| unreachable!("as many were taken")))
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Error> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// The next `count` bytes as text.
    pub(crate) fn text(&mut self, count: u64, what: &str) -> Result<&'a str, Error> {
        let at = self.at;
        let bytes = self.take(count, what)?;
        str::from_utf8(bytes).map_err(|_| self.damaged(format!("{what} at byte {at} is not UTF-8")))
    }

    /// A number of things to follow, each of at least `least` bytes: more than the rest of the file can hold are refused
    /// before anything is made of them.
    pub(crate) fn count(&self, count: u64, least: usize, what: &str) -> Result<usize, Error> {
        match usize::try_from(count) {
            Ok(count) if count <= self.left() / least.max(1) => Ok(count),
            _ => {
                Err(self
                    .damaged(format!("{count} {what} do not fit the {} bytes that are left", self.left())))
            }
        }
    }

    /// That the file contradicts itself.
    pub(crate) fn damaged(&self, reason: impl AsRef<str>) -> Error {
        Error::Damaged { path: self.path.into(), format: self.format, reason: clip(reason.as_ref()) }
    }

    /// That the file is good for others, not for us.
    pub(crate) fn unsupported(&self, reason: impl AsRef<str>, hint: &'static str) -> Error {
        Error::Unsupported { path: self.path.into(), reason: clip(reason.as_ref()), hint }
    }
}
