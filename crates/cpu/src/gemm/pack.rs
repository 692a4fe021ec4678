//! B in slivers: three panels of sixteen columns side by side for k = 0, then for k = 1, and so on; the slivers one after the other.
//!
//! The layout is the same for every instruction set, so packed weights never depend on the machine. The last sliver has as many panels
//! as are left, and the last panel is filled up with zeros, which are multiplied and never stored.

use super::{EIGHT, Matrix, PANEL, SLIVER};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes};
use crate::tuning::gemm::PACKED_STEPS;
use glassformer_tensor::Buffer;
use std::ops::Range;
use std::ptr::copy_nonoverlapping;

/// B packed once, for weights that do not change.
#[derive(Clone, Debug)]
pub struct Packed {
    data: Buffer,
    k: usize,
    columns: usize,
}

impl Packed {
    /// How many `f32` a packed B of `k` rows and `columns` columns takes.
    pub const fn len(k: usize, columns: usize) -> usize {
        columns.div_ceil(PANEL) * PANEL * k
    }

    /// From a weight `[out, in]`, row-major: B is its transpose, with `in` rows and `out` columns.
    ///
    /// # Panics
    /// If the weight has not `inputs · outputs` numbers.
    pub fn from_weight(weight: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(weight.len(), outputs * inputs, "a weight [{outputs}, {inputs}]");
        // SAFETY: the slice has that many rows and columns.
        unsafe { Self::new(inputs, outputs, Matrix::transposed(weight.as_ptr(), inputs)) }
    }

    /// From B itself, `[k, columns]`, row-major.
    ///
    /// # Panics
    /// If B has not `k · columns` numbers.
    pub fn from_rows(b: &[f32], k: usize, columns: usize) -> Self {
        assert_eq!(b.len(), k * columns, "a matrix [{k}, {columns}]");
        // SAFETY: the slice has that many rows and columns.
        unsafe { Self::new(k, columns, Matrix::rows(b.as_ptr(), columns)) }
    }

    /// # Safety
    /// `b` is valid for reads, at `k` rows and `columns` columns.
    unsafe fn new(k: usize, columns: usize, b: Matrix) -> Self {
        let mut data = Buffer::to_write(Self::len(k, columns));
        let packing = Packing { k, columns, b, to: data.as_mut_ptr() };
        for part in 0..packing.parts() {
            // SAFETY: the best set is available; the buffer has the length that a packed B has.
            unsafe { packing.run_part(Isa::best(), part) };
        }
        Self { data, k, columns }
    }

    /// Its slivers: what [`super::Gemm`] takes as B.
    pub fn as_ptr(&self) -> *const f32 {
        self.data.as_ptr()
    }

    /// The rows of B.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The columns of B.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// The packing of B, described, for weights that change at every step: [`Packing::run_part`] packs some of it, on any
/// thread, into memory that is already there.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// The rows of B.
    pub k: usize,
    /// The columns of B.
    pub columns: usize,
    /// B, `[k, columns]`; one of its strides is 1, or it is slow.
    pub b: Matrix,
    /// [`Packed::len`] numbers, best aligned to 64 bytes.
    pub to: *mut f32,
}

impl Packing {
    /// The number of independent work items: of a B in rows some steps of k, else a sliver.
    pub fn parts(&self) -> usize {
        if self.b.column == 1 { self.k.div_ceil(PACKED_STEPS) } else { self.columns.div_ceil(SLIVER * PANEL) }
    }

    /// Packs part number `part` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `part < self.parts()`. B is valid for reads and `to` for [`Packed::len`] writes; they do
    /// not overlap, and nobody else uses `to`, or writes B, at the same time, except other parts of this packing.
    pub unsafe fn run_part(&self, isa: Isa, part: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.b.column == 1 {
                dispatch!(isa, pack_steps(self, part * PACKED_STEPS..self.k.min((part + 1) * PACKED_STEPS)));
            } else {
                dispatch!(isa, pack_sliver(self, part));
            }
        }
    }

    /// Where a sliver lies, and its columns.
    #[inline(always)]
    fn sliver(&self, sliver: usize) -> (*mut f32, Range<usize>) {
        let first = sliver * SLIVER * PANEL;
        (self.to.wrapping_add(first * self.k), first..self.columns.min(first + SLIVER * PANEL))
    }
}

/// Some steps of all slivers, where the columns of B are contiguous.
///
/// # Safety
/// As for [`Packing::run_part`].
#[inline(always)]
unsafe fn pack_steps<L: Lanes>(packing: &Packing, steps: Range<usize>) {
    for sliver in 0..packing.columns.div_ceil(SLIVER * PANEL) {
        let (to, columns) = packing.sliver(sliver);
        let width = columns.len().next_multiple_of(PANEL);
        for step in steps.clone() {
            // SAFETY: the caller's promise; a step of the sliver has one to 48 columns, and room for whole panels.
            unsafe {
                let from = packing.b.start.add(step * packing.b.row + columns.start);
                let to = to.add(step * width);
                for at in (0..columns.len()).step_by(PANEL) {
                    L::load_first(from.add(at), (columns.len() - at).min(PANEL)).store(to.add(at));
                }
            }
        }
    }
}

/// One sliver, wherever the columns of B are.
///
/// # Safety
/// As for [`Packing::run_part`].
#[inline(always)]
unsafe fn pack_sliver<L: Lanes>(packing: &Packing, sliver: usize) {
    let Packing { k, b, .. } = *packing;
    let (to, columns) = packing.sliver(sliver);
    let (width, whole) = (columns.len(), columns.len().next_multiple_of(PANEL));
    // Eight columns at a time: 48, a multiple of some pages apart, would not stay in L1 together.
    for at in (0..whole).step_by(EIGHT) {
        let some = width.saturating_sub(at).min(EIGHT);
        // SAFETY: the caller's promise; a step of the sliver has room for whole panels, and sixteen steps are read where there are as many.
        unsafe {
            let from = b.start.wrapping_add((columns.start + at) * b.column);
            let mut step = 0;
            while b.row == 1 && some == EIGHT && step + LANES <= k {
                let mut numbers = [L::zero(); EIGHT];
                for (column, numbers) in numbers.iter_mut().enumerate() {
                    *numbers = L::load(from.add(column * b.column + step));
                }
                for (pair, two) in L::transpose_eight(numbers).into_iter().enumerate() {
                    let two = two.to_array();
                    let to = to.add((step + 2 * pair) * whole + at);
                    copy_nonoverlapping(two.as_ptr(), to, EIGHT);
                    copy_nonoverlapping(two.as_ptr().add(EIGHT), to.add(whole), EIGHT);
                }
                step += LANES;
            }
            while step < k {
                for column in 0..EIGHT {
                    let number =
                        if column < some { *from.add(column * b.column + step * b.row) } else { 0.0 };
                    *to.add(step * whole + at + column) = number;
                }
                step += 1;
            }
        }
    }
}
