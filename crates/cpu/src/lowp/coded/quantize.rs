//! A, row by row: integers with a scale for each 32, and the sums of its groups.

use super::{LINE, LINES};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;
use crate::lowp::quantize::{quantize, scale};

/// How rows are quantized: [`GroupQuantizer::run_row`] quantizes one of them, on any thread.
///
/// A row is its integers, with zeros to the end of the last 64; then the scales of each 32 of them, their sums, and the sums of
/// each 16.
#[derive(Clone, Copy, Debug)]
pub struct GroupQuantizer {
    /// How many there are.
    pub rows: usize,
    /// Numbers of a row.
    pub k: usize,
    /// The first row.
    pub from: *const f32,
    /// How far apart rows begin.
    pub stride: usize,
    /// [`GroupQuantizer::len`] numbers, aligned to 64 bytes.
    pub to: *mut f32,
}

/// Numbers of A that share a scale. One for a whole row would be coarse where a few of its numbers are large.
const GROUP: usize = 32;

/// Where the parts of a row of `k` numbers lie, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// The scales of 32; the integers come first.
    pub scales: usize,
    /// The sums of 32, as `i32`.
    pub by_32: usize,
    /// The sums of 16.
    pub by_16: usize,
    /// All of it. An odd number of lines, so that rows do not evict each other from the cache.
    pub bytes: usize,
}

impl Parts {
    pub const fn of(k: usize) -> Self {
        let padded = if k == 0 { LINE } else { k.next_multiple_of(LINE) };
        let scales = padded;
        let by_32 = scales + padded / 32 * 4;
        let by_16 = by_32 + padded / 32 * 4;
        let end = by_16 + padded / 16 * 4;
        Self { scales, by_32, by_16, bytes: (end.div_ceil(LINE) | 1) * LINE }
    }
}

impl GroupQuantizer {
    /// How many `f32` so many quantized rows take.
    pub const fn len(rows: usize, k: usize) -> usize {
        rows * (Parts::of(k).bytes / size_of::<f32>())
    }

    /// Quantizes row number `row` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `row < self.rows`. The rows are valid for reads and `to` for [`GroupQuantizer::len`] writes; they do not
    /// overlap, and nobody else uses `to`, or writes the rows, at the same time, except other rows of this quantizer.
    pub unsafe fn run_row(&self, isa: Isa, row: usize) {
        // SAFETY: the caller's promise; each row has its own place.
        unsafe {
            let numbers = std::slice::from_raw_parts(self.from.add(row * self.stride), self.k);
            let to = self.to.cast::<u8>().add(row * Parts::of(self.k).bytes);
            dispatch!(isa, quantize_row(numbers, to));
        }
    }
}

/// # Safety
/// `to` has room for the parts of a row of so many numbers.
#[inline(always)]
unsafe fn quantize_row<L: Lanes>(numbers: &[f32], to: *mut u8) {
    let parts = Parts::of(numbers.len());
    let (whole, rest) = numbers.as_chunks::<GROUP>();
    // SAFETY: the caller's promise; there are as many groups as integers, scales and sums have places.
    unsafe {
        let integers = to.cast::<[i8; GROUP]>();
        let scales = to.add(parts.scales).cast::<f32>();
        let by_32 = to.add(parts.by_32).cast::<i32>();
        let by_16 = to.add(parts.by_16).cast::<[i32; 2]>();
        let put = |at: usize, numbers: &[f32; GROUP]| {
            let (scale, inverse) = scale(numbers);
            let mut line = [0_i8; GROUP];
            let mut sums = [0; 2];
            for i in 0..GROUP {
                line[i] = quantize(numbers[i], inverse);
                sums[i / LINES] += i32::from(line[i]);
            }
            *integers.add(at) = line;
            *scales.add(at) = scale;
            *by_32.add(at) = sums[0] + sums[1];
            *by_16.add(at) = sums;
        };
        for (at, numbers) in whole.iter().enumerate() {
            put(at, numbers);
        }
        for at in whole.len()..parts.scales / GROUP {
            let mut numbers = [0.0; GROUP];
            if at == whole.len() {
                numbers[..rest.len()].copy_from_slice(rest);
            }
            put(at, &numbers);
        }
    }
}
