//! A in strips: a few rows side by side for every step of k, in the order in which a register tile reads them.

use super::micro::Registers;
use super::{EIGHT, Matrix};
use crate::lanes::{LANES, prefetch_l2};
use crate::tuning::gemm::STRIP_PADDING;
use std::ops::Range;
use std::ptr::copy_nonoverlapping;

/// Some rows of A over some steps of k, in strips one behind the other.
pub(super) struct Strips {
    /// How many.
    pub count: usize,
    /// The rows of a strip; the last one may have less.
    pub height: usize,
    pub steps: usize,
    pub start: *mut f32,
}

impl Strips {
    /// The rows of a strip, of `rows` in all.
    #[inline(always)]
    pub fn rows(&self, strip: usize, rows: usize) -> Range<usize> {
        strip * self.height..rows.min((strip + 1) * self.height)
    }

    /// Where a strip begins, with columns that are `stride` apart.
    #[inline(always)]
    pub fn at(&self, strip: usize, stride: usize) -> *mut f32 {
        self.start.wrapping_add(strip * (self.steps * stride + STRIP_PADDING))
    }
}

/// Packs the first `rows` rows of A.
///
/// # Safety
/// The machine has `L`'s instructions; A is valid for reads of so many rows and steps, and there is room for the strips.
#[inline(always)]
pub(super) unsafe fn pack<L: Registers>(a: Matrix, rows: usize, strips: &Strips) {
    // SAFETY: the caller's promise. Functions of their own: inlined, they had no registers left, and counted in memory.
    unsafe {
        if a.column == 1 {
            L::enter(
                #[inline(always)]
                || transpose::<L>(a, rows, strips),
            );
        } else {
            L::enter(
                #[inline(always)]
                || gather::<L>(a, rows, strips),
            );
        }
    }
}

/// The strips of a matrix in rows, one by one, while the next one is prefetched.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn transpose<L: Registers>(a: Matrix, rows: usize, strips: &Strips) {
    for strip in 0..strips.count {
        let rows = strips.rows(strip, rows);
        // SAFETY: the caller's promise; sixteen steps of eight rows are read and written where there are as many.
        unsafe {
            let from = a.start.add(rows.start * a.row);
            let to = strips.at(strip, L::STRIDE);
            let mut step = 0;
            while L::STRIDE == EIGHT && step + LANES <= strips.steps {
                let from = from.add(step);
                // Eight is nearly always the number, and known to the compiler here.
                let numbers = match rows.len() {
                    EIGHT => load_rows::<L>(from, a.row, EIGHT),
                    some => load_rows::<L>(from, a.row, some),
                };
                for (pair, columns) in L::transpose_eight(numbers).into_iter().enumerate() {
                    columns.store(to.add(step * EIGHT + pair * LANES));
                }
                step += LANES;
            }
            one_by_one::<L>(Matrix { start: from, ..a }, rows.len(), step..strips.steps, to);
        }
    }
}

/// Sixteen numbers of each of `some` rows, and zeros for the others, while the next rows are prefetched.
///
/// # Safety
/// The machine has `L`'s instructions, and the rows are valid for so many reads.
#[inline(always)]
unsafe fn load_rows<L: Registers>(from: *const f32, stride: usize, some: usize) -> [L; EIGHT] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut numbers = [L::zero(); EIGHT];
        for (row, numbers) in numbers.iter_mut().enumerate() {
            if row < some {
                *numbers = L::load(from.add(row * stride));
                prefetch_l2(from.wrapping_add((row + some) * stride));
            }
        }
        numbers
    }
}

/// The strips of any other matrix, sixteen steps at a time, while the next sixteen are prefetched: each is on another page.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn gather<L: Registers>(a: Matrix, rows: usize, strips: &Strips) {
    let steps = strips.steps;
    let mut first = 0;
    while first < steps {
        let end = steps.min(first + LANES);
        for strip in 0..strips.count {
            let some = strips.rows(strip, rows);
            // SAFETY: the caller's promise; eight rows are read where there are as many, and a strip has places for eight.
            unsafe {
                let from = a.start.add(some.start * a.row);
                let to = strips.at(strip, L::STRIDE);
                if L::STRIDE == EIGHT && a.row == 1 && some.start + EIGHT <= rows {
                    for step in first..end {
                        prefetch_l2(from.wrapping_add((step + LANES) * a.column));
                        copy_nonoverlapping(from.add(step * a.column), to.add(step * EIGHT), EIGHT);
                    }
                } else {
                    one_by_one::<L>(Matrix { start: from, ..a }, some.len(), first..end, to);
                }
            }
        }
        first = end;
    }
}

/// Some steps of a strip.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn one_by_one<L: Registers>(a: Matrix, rows: usize, steps: Range<usize>, to: *mut f32) {
    for step in steps {
        for row in 0..rows {
            // SAFETY: the caller's promise.
            unsafe { *to.add(step * L::STRIDE + row) = *a.start.add(row * a.row + step * a.column) };
        }
    }
}
