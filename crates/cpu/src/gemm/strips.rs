//! A in strips: a few rows side by side for every step of k, in the order in which a register tile reads them.

use super::Matrix;
use super::micro::{Registers, prefetch_l2};
use crate::lanes::LANES;
use std::ops::Range;

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
        self.start.wrapping_add(strip * (self.steps * stride + PADDING))
    }
}

/// Numbers between strips: a line, or else the same step of all of them would want the same place of the nearest cache.
pub(super) const PADDING: usize = 16;
/// How many columns ahead A is fetched where they are contiguous: the next one is on another page.
const AHEAD: usize = 16;

/// Packs the first `rows` rows of A.
///
/// # Safety
/// The machine has `L`'s instructions; A is valid for reads of so many rows and steps, and there is room for the strips.
#[inline(always)]
pub(super) unsafe fn pack<L: Registers>(a: Matrix, rows: usize, strips: &Strips) {
    // SAFETY: the caller's promise.
    unsafe {
        if a.column == 1 {
            for strip in 0..strips.count {
                turn::<L>(a, strips.rows(strip, rows), strips.steps, strips.at(strip, L::STRIDE));
            }
        } else {
            gather::<L>(a, rows, strips);
        }
    }
}

/// One strip of a matrix in rows, while the next one is fetched.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn turn<L: Registers>(a: Matrix, rows: Range<usize>, steps: usize, to: *mut f32) {
    // SAFETY: the caller's promise; sixteen steps are read and written where there are as many, and one by one elsewhere.
    unsafe {
        let from = a.start.add(rows.start * a.row);
        let mut step = 0;
        while L::STRIDE == 8 && step + LANES <= steps {
            let mut numbers = [L::zero(); 8];
            for (row, numbers) in numbers.iter_mut().enumerate() {
                if row < rows.len() {
                    *numbers = L::load(from.add(row * a.row + step));
                    prefetch_l2(from.wrapping_add((row + rows.len()) * a.row + step));
                }
            }
            let turned = L::turned(numbers);
            for (pair, numbers) in turned.into_iter().enumerate() {
                numbers.store(to.add(step * 8 + pair * LANES));
            }
            step += LANES;
        }
        while step < steps {
            for row in 0..rows.len() {
                *to.add(step * L::STRIDE + row) = *from.add(row * a.row + step);
            }
            step += 1;
        }
    }
}

/// All strips of any other matrix, step by step.
///
/// # Safety
/// As for [`pack`].
#[inline(always)]
unsafe fn gather<L: Registers>(a: Matrix, rows: usize, strips: &Strips) {
    for step in 0..strips.steps {
        let column = a.start.wrapping_add(step * a.column);
        for row in (0..rows).step_by(LANES) {
            prefetch_l2(column.wrapping_add(AHEAD * a.column + row * a.row));
        }
        for strip in 0..strips.count {
            let rows = strips.rows(strip, rows);
            let to = strips.at(strip, L::STRIDE).wrapping_add(step * L::STRIDE);
            // SAFETY: the caller's promise; a strip has no more rows than its stride is.
            unsafe {
                let from = column.add(rows.start * a.row);
                if a.row == 1 {
                    L::load_first(from, rows.len()).store_first(to, rows.len());
                } else {
                    for row in 0..rows.len() {
                        *to.add(row) = *from.add(row * a.row);
                    }
                }
            }
        }
    }
}
