//! B in slivers: three panels of sixteen columns side by side for k = 0, then for k = 1, and so on; the slivers one after the other.
//!
//! The layout is the same for every instruction set, so packed weights never depend on the machine. The last sliver has as many panels
//! as are left, and the last panel is filled up with zeros, which are multiplied and never stored.

use super::{Matrix, PANEL, SLIVER};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;
use glassformer_tensor::Buffer;

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
        let mut data = Buffer::zeros(Self::len(k, columns));
        let packing = Packing { k, columns, b, to: data.as_mut_ptr() };
        for part in 0..packing.parts() {
            // SAFETY: the best set is available; the buffer has the length that a packed B has.
            unsafe { packing.run_part(Isa::best(), part) };
        }
        Self { data, k, columns }
    }

    /// Its panels: what [`super::Product`] takes as B.
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

/// The packing of B, described, for weights that change at every step: [`Packing::run_part`] packs a sliver, on any
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

// SAFETY: a description holds addresses and reads none; whoever calls `run_part` answers for them.
unsafe impl Send for Packing {}
// SAFETY: as above.
unsafe impl Sync for Packing {}

impl Packing {
    /// The number of independent work items.
    pub fn parts(&self) -> usize {
        self.columns.div_ceil(SLIVER * PANEL)
    }

    /// Packs part number `part` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `part < self.parts()`. B is valid for reads and `to` for [`Packed::len`] writes; they do
    /// not overlap, and nobody else uses `to`, or writes B, at the same time, except other parts of this packing.
    pub unsafe fn run_part(&self, isa: Isa, part: usize) {
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, pack_part(self, part)) }
    }
}

/// # Safety
/// As for [`Packing::run_part`].
#[inline(always)]
unsafe fn pack_part<L: Lanes>(packing: &Packing, part: usize) {
    let Packing { k, columns, b, to } = *packing;
    let first = part * SLIVER * PANEL;
    let width = (columns - first).min(SLIVER * PANEL);
    let step_width = width.next_multiple_of(PANEL);
    // SAFETY: the caller's promise; a step of the sliver has one to 48 columns, and room for whole panels.
    unsafe {
        let to = to.add(first * k);
        if b.column == 1 {
            for step in 0..k {
                for at in (0..width).step_by(PANEL) {
                    let from = b.start.add(step * b.row + first + at);
                    L::load_first(from, (width - at).min(PANEL)).store(to.add(step * step_width + at));
                }
            }
        } else {
            // Panel by panel: 48 columns, a multiple of some pages apart, would not stay in L1 together.
            for at in (0..width).step_by(PANEL) {
                for step in 0..k {
                    let from = b.start.add(step * b.row + (first + at) * b.column);
                    let to = to.add(step * step_width + at);
                    for column in 0..PANEL {
                        *to.add(column) =
                            if at + column < width { *from.add(column * b.column) } else { 0.0 };
                    }
                }
            }
        }
    }
}
