//! A fixed block of `f32` that starts on a cache line.

use std::ops::{Deref, DerefMut};

/// How far apart, in bytes, the starts of buffers may be: one cache line, one AVX-512 register.
const ALIGNMENT: usize = 64;

/// A block of `f32`, zero at first, whose first element is aligned to 64 bytes.
///
/// It allocates a little too much and begins at the first aligned element: no `unsafe`, unlike a custom layout.
/// The length never changes, so the data never moves.
pub struct Buffer {
    data: Vec<f32>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let spare = ALIGNMENT / size_of::<f32>();
        let data = vec![0.0_f32; len + spare];
        let start = data.as_ptr().align_offset(ALIGNMENT).min(spare);
        Self { data, start, len }
    }
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
        &self.data[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} f32)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_starts_on_a_cache_line() {
        for len in [0, 1, 7, 16, 1000] {
            let buffer = Buffer::zeros(len);
            assert_eq!(buffer.len(), len);
            assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT));
            assert!(buffer.clone().iter().all(|&x| x == 0.0));
        }
    }
}
