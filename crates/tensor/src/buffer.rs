//! A fixed block of `f32` that starts on a cache line.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// How far apart, in bytes, the starts of buffers may be: one cache line, one AVX-512 register.
const ALIGNMENT: usize = 64;

/// From how many bytes on a buffer asks for large pages: a page of 2 MiB is one entry of the tables that addresses go through, where
/// pages of 4 KiB are 512, and it is there after one fault.
const LARGE: usize = 4 << 20;

/// From how many bytes on small pages are asked for together.
const SOME: usize = 128 << 10;

/// A block of `f32`, zero at first, whose first element is aligned to 64 bytes. The length never changes, so the data never moves.
pub struct Buffer(Storage);

enum Storage {
    /// A little too much, from the first aligned element: no `unsafe`, unlike a custom layout.
    Small { data: Vec<f32>, start: usize, len: usize },
    /// Pages of its own.
    Pages(MmapMut),
}

impl Buffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self::on_pages_from(LARGE, len)
    }

    /// `len` zeros, all of which will be written now. Where pages are small, the system gives them all in one call, and not in a fault
    /// for each of them. Zeros that may never be written are better asked for by [`Buffer::zeros`].
    pub fn to_write(len: usize) -> Self {
        let buffer = Self::on_pages_from(SOME, len);
        #[cfg(target_os = "linux")]
        if let Storage::Pages(pages) = &buffer.0
            && pages.len() < LARGE
        {
            let _ = pages.advise(memmap2::Advice::PopulateWrite); // older systems give them one by one
        }
        buffer
    }

    /// `len` zeros, on pages of their own from so many bytes on.
    fn on_pages_from(least: usize, len: usize) -> Self {
        if let Some(pages) = pages(least, len) {
            return Self(Storage::Pages(pages));
        }
        let spare = ALIGNMENT / size_of::<f32>();
        let data = vec![0.0_f32; len + spare];
        let start = data.as_ptr().align_offset(ALIGNMENT).min(spare);
        Self(Storage::Small { data, start, len })
    }

    /// Whether the system would give so much memory: it is asked for, and given back. What it gives may still be more than there is, where
    /// others use it, too.
    pub fn fits(len: usize) -> bool {
        let bytes = len.checked_mul(size_of::<f32>()).filter(|&bytes| isize::try_from(bytes).is_ok());
        bytes.is_some_and(|bytes| bytes < LARGE || MmapMut::map_anon(bytes).is_ok())
    }
}

/// Pages for so many zeros, large ones where they are many; `None` where they have fewer than `least` bytes, or the system has none.
fn pages(least: usize, len: usize) -> Option<MmapMut> {
    let bytes = len.checked_mul(size_of::<f32>()).filter(|&bytes| bytes >= least)?;
    let pages = MmapMut::map_anon(bytes).ok()?;
    #[cfg(target_os = "linux")]
    if bytes >= LARGE {
        let _ = pages.advise(memmap2::Advice::HugePage); // small ones do as well
    }
    Some(pages)
}

impl From<&[f32]> for Buffer {
    fn from(values: &[f32]) -> Self {
        let mut buffer = Self::zeros(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::from(&**self)
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        match &self.0 {
            Storage::Small { data, start, len } => &data[*start..start + len],
            Storage::Pages(pages) => bytemuck::cast_slice(pages),
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        match &mut self.0 {
            Storage::Small { data, start, len } => &mut data[*start..*start + *len],
            Storage::Pages(pages) => bytemuck::cast_slice_mut(pages),
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} f32)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_does_not_fit() {
        assert!(Buffer::fits(0) && Buffer::fits(1000) && Buffer::fits(LARGE));
        assert!(!Buffer::fits(1 << 58) && !Buffer::fits(usize::MAX));
    }

    #[test]
    fn every_buffer_starts_on_a_cache_line() {
        for len in [0, 1, 7, 16, 1000, LARGE / 4 - 1, LARGE / 4, LARGE / 4 + 1] {
            let buffer = Buffer::zeros(len);
            assert_eq!(buffer.len(), len);
            assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT));
            assert!(buffer.clone().iter().all(|&x| x == 0.0));
        }
    }
}
