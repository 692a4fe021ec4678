//! The matrix product C = A·B + bias where B is in few bits: 4, 6 or 8 for each number, with a scale for each group of 16 or
//! 32 along k ([`Coding`]). For few rows memory has to give B, so fewer bits are more speed.
//!
//! **A** is quantized row by row to integers from -127 to 127 with a scale for each 32 ([`GroupQuantizer`]). The sum over a group is then one
//! of integers, and exact; the sums of the groups are added up in `f32`, in the order of k. So
//! C[i, j] = Σ (scale of B's group · scale of A's · Σ a·(code - offset), or … - minimum · (Σ a · scale of A's)) + bias.
//!
//! **B** is laid out in panels of sixteen columns. A panel is a run of *blocks* of 64 or 256 steps of k, which hold
//! everything that these steps need: codes first, then scales, then minima. So a thread reads each panel from front to
//! back, and nothing else. Within a block, codes of sixteen steps lie together: with 4 bits, a line has four steps of each of
//! sixteen columns in its low halves of bytes, and the next four in the high ones; with 6 bits a third line has the two upper
//! bits; with 8 bits there are four lines.
//!
//! **What has the same bits.** Every C[i, j] is one chain over the groups, whatever the rows in the call, the cut and the
//! thread, and whatever the instructions, except that those without fused multiply-add round twice.

use crate::tuning::coded::MAX_ITEM_ROWS;
use glassformer_tensor::{Base, Bits, Coding, SUPER, Scales};

use super::{Dot, LINE, LINES, UNIT, part};
use crate::epilogue::{Epilogue, Region};
use crate::isa::Isa;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "aarch64")]
mod neon;
mod quantize;
mod scalar;
mod strip;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod weight;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use quantize::GroupQuantizer;
pub use weight::Weight;

/// Where things lie in a block of a coding.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Steps of k.
    steps: usize,
    /// Groups of them.
    groups: usize,
    /// Bytes of the codes of sixteen steps.
    sixteen: usize,
    /// The first byte of scales: `f16`, or steps of scales.
    scales: usize,
    /// The first byte of minima, in the same form.
    minima: usize,
    /// The first byte of what steps are multiplied by: sixteen `f32` of scales, then of minima.
    upper: usize,
    /// Bytes of the block.
    bytes: usize,
}

impl Layout {
    const fn of(coding: Coding) -> Self {
        let (steps, scale) = match coding.scales {
            Scales::Steps => (SUPER, size_of::<i8>()),
            Scales::Row | Scales::RowSteps | Scales::Halves => (LINE, size_of::<u16>()),
        };
        let sixteen = match coding.bits {
            Bits::Four => 2 * LINE,
            Bits::Six => 3 * LINE,
            Bits::Eight => 4 * LINE,
        };
        let groups = steps / coding.group;
        let scales = steps / LINES * sixteen;
        let minima = scales + groups * LINES * scale;
        let kinds = match coding.base {
            Base::Offset(_) => 1,
            Base::Minimum => 2,
        };
        let upper = scales + kinds * (minima - scales);
        let bytes = match coding.scales {
            Scales::Steps => upper + kinds * LINE,
            Scales::Row | Scales::RowSteps | Scales::Halves => upper,
        };
        Self { steps, groups, sixteen, scales, minima, upper, bytes }
    }

    /// Blocks along a `k` of this length.
    const fn blocks(self, k: usize) -> usize {
        k.div_ceil(self.steps)
    }

    /// Bytes of a panel.
    const fn panel(self, k: usize) -> usize {
        self.blocks(k) * self.bytes
    }
}

/// C = A·B + bias, described; [`CodedGemm::run_item`] computes it, item by item, on any threads in any order.
#[derive(Clone, Copy, Debug)]
pub struct CodedGemm {
    /// What B is written in.
    pub coding: Coding,
    /// The rows of A and C.
    pub rows: usize,
    /// The columns of A and the rows of B.
    pub k: usize,
    /// The columns of B and C.
    pub columns: usize,
    /// A, `[rows, k]`, as [`GroupQuantizer`] writes it.
    pub a: *const f32,
    /// B, `[k, columns]`, as [`Weight`] holds it.
    pub b: *const f32,
    /// C, `[rows, columns]`, its columns contiguous.
    pub c: *mut f32,
    /// How far apart the rows of C begin.
    pub c_stride: usize,
    /// What becomes of A·B.
    pub epilogue: Epilogue,
}

/// A work item: these rows, and the four panels of this unit of columns.
struct Item<'a> {
    product: &'a CodedGemm,
    rows: std::ops::Range<usize>,
    unit: usize,
}

impl CodedGemm {
    /// The number of independent work items. Together they are the whole product, in any order.
    pub fn items(&self) -> usize {
        self.rows.div_ceil(MAX_ITEM_ROWS) * self.columns.div_ceil(UNIT)
    }

    /// Computes item number `item` by the instructions of `dot`.
    ///
    /// # Safety
    /// The machine has `dot`; `item < self.items()`. A, B, and what the epilogue names are valid for reads and C for writes,
    /// at the sizes that `self` says; C overlaps none of them; nobody else writes any of them, or reads C, at the same time, except
    /// other items of this product.
    pub unsafe fn run_item(&self, dot: Dot, item: usize) {
        let (down, across) = (self.rows.div_ceil(MAX_ITEM_ROWS), self.columns.div_ceil(UNIT));
        let item = Item { product: self, rows: part(self.rows, down, item / across), unit: item % across };
        // SAFETY: the caller's promise; the item lies inside the product.
        unsafe {
            match dot.isa() {
                Isa::Scalar => scalar::run(&item),
                #[cfg(target_arch = "aarch64")]
                Isa::Neon => neon::run(dot, &item),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 | Isa::Avx512 => x86::run(dot, &item),
                #[allow(unreachable_patterns)] // those of this machine are above
                Isa::Neon | Isa::Avx2 | Isa::Avx512 => unreachable!("this machine has no {dot}"),
            }
            finish(dot, &item);
        }
    }
}

/// Does what follows to an item of C, which is in a near cache still. Not in the loop over strips, which there are dozens of.
///
/// # Safety
/// As [`CodedGemm::run_item`] says.
unsafe fn finish(dot: Dot, item: &Item<'_>) {
    let Item { product, rows, unit } = item;
    let (row, column) = (rows.start, unit * UNIT);
    let region = Region {
        corner: [row, column],
        rows: rows.len(),
        columns: (product.columns - column).min(UNIT),
        c: product.c.wrapping_add(row * product.c_stride + column),
        stride: product.c_stride,
    };
    // SAFETY: the caller's promise.
    unsafe { product.epilogue.apply(dot.isa(), &region) };
}

/// The same function for every coding: its bits, and sixteens in a group.
macro_rules! by_coding {
    ($coding:expr, $kernel:ident($($argument:expr),*)) => {
        match ($coding.bits, $coding.group) {
            (Bits::Four, LINES) => $kernel::<4, 1>($($argument),*),
            (Bits::Four, _) => $kernel::<4, 2>($($argument),*),
            (Bits::Six, LINES) => $kernel::<6, 1>($($argument),*),
            (Bits::Six, _) => $kernel::<6, 2>($($argument),*),
            // In groups of 32 alone.
            (Bits::Eight, _) => $kernel::<8, 2>($($argument),*),
        }
    };
}
use by_coding;

/// Whether products of this coding can be done: groups of 16 or 32; codes of eight bits in groups of 32, and around 128.
pub const fn is_supported(coding: Coding) -> bool {
    let grouped = match coding.scales {
        Scales::Row | Scales::RowSteps => false,
        Scales::Halves | Scales::Steps => coding.group == LINES || coding.group == 2 * LINES,
    };
    let around = match coding.bits {
        Bits::Four | Bits::Six => true,
        Bits::Eight => matches!(coding.base, Base::Offset(128)) && coding.group == 2 * LINES,
    };
    grouped && around
}
