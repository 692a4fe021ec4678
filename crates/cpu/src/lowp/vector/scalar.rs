//! Steps in plain Rust.

use super::Step;
use crate::lowp::LINES;

/// Sums of `bf16`, converted to `f32`: one product after the other, each rounded, and each sum.
#[derive(Clone, Copy)]
pub(super) struct Widened([f32; LINES]);

/// The numbers of a pair of `bf16`: the first is in the lower 16 bits.
fn unpack(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

impl Step for Widened {
    type Left = [f32; 2];
    type Right = [u32; LINES];

    unsafe fn left(from: *const u32) -> [f32; 2] {
        // SAFETY: the caller's promise.
        unpack(unsafe { *from })
    }

    unsafe fn right(line: *const u8) -> [u32; LINES] {
        // SAFETY: the caller's promise.
        unsafe { *line.cast() }
    }

    unsafe fn add(mut self, left: [f32; 2], right: [u32; LINES]) -> Self {
        for (sum, pair) in self.0.iter_mut().zip(right) {
            let right = unpack(pair);
            *sum += left[0] * right[0];
            *sum += left[1] * right[1];
        }
        self
    }
}

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
