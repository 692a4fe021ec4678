//! Steps of integers in plain Rust.

use super::Step;
use crate::lowp::LINES;

/// Sums of integers.
#[derive(Clone, Copy)]
pub(super) struct Integers([i32; LINES]);

impl Step for Integers {
    type Left = [i8; 4];
    type Right = [[i8; 4]; LINES];

    unsafe fn left(from: *const u32) -> [i8; 4] {
        // SAFETY: the caller's promise.
        unsafe { *from }.to_ne_bytes().map(u8::cast_signed)
    }

    unsafe fn right(line: *const u8) -> [[i8; 4]; LINES] {
        // SAFETY: the caller's promise.
        unsafe { *line.cast() }
    }

    unsafe fn add(mut self, left: [i8; 4], right: [[i8; 4]; LINES]) -> Self {
        for (sum, right) in self.0.iter_mut().zip(right) {
            for (a, b) in left.into_iter().zip(right) {
                *sum += i32::from(a) * i32::from(b);
            }
        }
        self
    }
}
