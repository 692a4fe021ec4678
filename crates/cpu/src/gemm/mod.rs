//! The matrix product C = A·B + bias in `f32`, and what follows it number by number: what nearly all the time of a Transformer goes into.
//!
//! **One order of summation.** Every C[i, j] is one chain of fused multiply-adds over k = 0, 1, 2, …, from zero or from
//! what C held; then the bias is added. Lanes run across columns, never along k, so an element has the same bits
//! whatever the number of rows in the call, the tile that it falls into, the block of k after which it rests in memory,
//! and the thread. Batched = alone, and cached = uncached, follow from this and from nothing else. (The usual trick of
//! several partial sums per element would be no faster here: the register tile already has enough chains in flight.)
//!
//! **Three levels.** A *register tile* of up to 6 rows × 64 columns is accumulated in registers over a block of k
//! (`micro.rs`). A *tile*, the work item of a thread, is some 500 rows × 384 columns at most, worked on in bands of 132 rows: its
//! block of B stays in the L2 cache and streams from there under six rows of A at a time (`tile.rs`). A product of few
//! rows has narrower tiles and reads B once, as fast as memory gives it. B is [`Packed`] in panels beforehand; A is read where it lies, unless its
//! columns are not contiguous (Aᵀ), and then a block of it is copied to scratch. `README.md` has what was measured.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use crate::dispatch;
use crate::isa::Isa;
use crate::then::Then;
use std::ops::Range;
use tile::{Tile, run};

mod micro;
mod pack;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use micro::{prefetch, prefetch_l2};
pub use pack::{Packed, Packing};

/// Columns in a panel of packed B: one value of [`crate::lanes::Lanes`].
pub const PANEL: usize = crate::lanes::LANES;

/// The rows that a register tile has, where there are many; tiles are whole numbers of these.
const STRIP: usize = 6;
/// The most rows that go through k together: their part of C stays in L2 meanwhile. A text of 128 tokens is one band.
const BAND: usize = 22 * STRIP;
/// The most bands of a tile.
const TALLEST: usize = 4;
/// Up to this k, a tile's part of B stays in L2 for all of its bands: 1.6 MB.
const RESIDENT: usize = 1024;
/// Panels side by side in the widest register tile; tiles are whole numbers of these.
const UNIT: usize = 4;
/// The most units of a tile: 384 columns, whose `BLOCK` steps of B are 0.6 MB.
const TILE_UNITS: usize = 6;
/// Up to here a product has few rows: it is a matter of reading B once, as fast as memory gives it.
const FEW_ROWS: usize = 8;
/// Below this many tiles, smaller ones keep more threads busy.
const ENOUGH_TILES: usize = 32;
/// The most steps of k between two visits to C. Six rows of A then take 9 KB of L1, and a band of A, where it is copied,
/// 0.2 MB.
const BLOCK: usize = 384;
/// How far ahead a single strip of rows fetches B, in numbers of each panel: half a page.
const STREAM_AHEAD: usize = 512;

/// A matrix that lies anywhere: element (i, j) is at `start + i·row + j·column`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Where element (0, 0) is.
    pub start: *const f32,
    /// How far the next row is.
    pub row: usize,
    /// How far the next column is.
    pub column: usize,
}

impl Matrix {
    /// A row-major matrix whose rows begin `stride` apart.
    pub fn rows(start: *const f32, stride: usize) -> Self {
        Self { start, row: stride, column: 1 }
    }

    /// The transpose of a row-major matrix whose rows begin `stride` apart: of a weight `[out, in]`, the B that it is.
    pub fn transposed(start: *const f32, stride: usize) -> Self {
        Self { start, row: 1, column: stride }
    }
}

/// What the chains of a product begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Zero: C is only written.
    Zero,
    /// What C holds: the product is added to it.
    Existing,
}

/// C = A·B + bias, described; [`Product::run_tile`] computes it, tile by tile, on any threads in any order.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// The rows of A and C.
    pub rows: usize,
    /// The columns of A and the rows of B.
    pub k: usize,
    /// The columns of B and C.
    pub columns: usize,
    /// A, `[rows, k]`.
    pub a: Matrix,
    /// B, `[k, columns]`, as [`Packing`] writes it.
    pub b: *const f32,
    /// C, `[rows, columns]`, its columns contiguous.
    pub c: *mut f32,
    /// How far apart the rows of C begin.
    pub c_stride: usize,
    /// One number per column, added at the end.
    pub bias: Option<*const f32>,
    /// What the sums begin with.
    pub begin: Begin,
    /// What is done to C at last.
    pub then: Then,
}

// SAFETY: a description holds addresses and reads none; whoever calls `run_tile` answers for them.
unsafe impl Send for Product {}
// SAFETY: as above.
unsafe impl Sync for Product {}

/// How a product is cut; a function of its shape alone.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Tiles from top to bottom.
    down: usize,
    /// Tiles from left to right.
    across: usize,
    /// Which tile comes after which.
    order: Order,
}

/// Which tiles are next to each other in time, on two threads or on one.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Those with other columns. A tile is tall, and its part of B stays in L2 from band to band. Two threads that
    /// fetched the same lines of B at the same moment would lose 10 % by it.
    Across,
    /// Those with the same columns, because their part of B is too long for L2, and each band reads it from L3.
    Down,
}

impl Product {
    /// How many `f32` of scratch [`Product::run_tile`] needs, for any product.
    pub const SCRATCH: usize = BAND * BLOCK;

    /// The number of independent work items. Together they are the whole product, in any order.
    pub fn tiles(&self) -> usize {
        let Cut { down, across, .. } = self.cut();
        down * across
    }

    fn cut(&self) -> Cut {
        let units = self.columns.div_ceil(UNIT * PANEL);
        let bands = self.rows.div_ceil(BAND);
        let wide = units.div_ceil(TILE_UNITS);
        if wide == 0 || bands == 0 {
            return Cut { down: 0, across: 0, order: Order::Across };
        }
        let (down, order) = if self.k <= RESIDENT {
            (ENOUGH_TILES.div_ceil(wide).clamp(bands.div_ceil(TALLEST), bands), Order::Across)
        } else {
            (bands, Order::Down)
        };
        Cut { down, across: wide.max(ENOUGH_TILES.div_ceil(down).min(units)), order }
    }

    /// Computes tile number `tile` on `isa`, with at least [`Product::SCRATCH`] numbers of scratch, whose contents do
    /// not matter.
    ///
    /// # Safety
    /// The machine has `isa`; `tile < self.tiles()`. A, B, the bias and what `then` names are valid for reads and C for writes, at the
    /// sizes and strides that `self` says; C overlaps none of them; nobody else writes any of them, or reads C, at the
    /// same time, except other tiles of this product.
    ///
    /// # Panics
    /// If the scratch is too small.
    pub unsafe fn run_tile(&self, isa: Isa, tile: usize, scratch: &mut [f32]) {
        assert!(scratch.len() >= Self::SCRATCH, "a tile needs {} numbers of scratch", Self::SCRATCH);
        let Cut { down, across, order } = self.cut();
        let (i, j) = match order {
            Order::Across => (tile / across, tile % across),
            Order::Down => (tile % down, tile / down),
        };
        let strips = part(self.rows.div_ceil(STRIP), down, i);
        let units = part(self.columns.div_ceil(UNIT * PANEL), across, j);
        let panel_end = self.columns.div_ceil(PANEL).min(units.end * UNIT);
        let bands = (strips.len() * STRIP).div_ceil(BAND);
        for band in 0..bands {
            let band = part(strips.len(), bands, band);
            let tile = Tile {
                row: (strips.start + band.start) * STRIP,
                row_end: self.rows.min((strips.start + band.end) * STRIP),
                panel: units.start * UNIT,
                panel_end,
                scratch: scratch.as_mut_ptr(),
            };
            // SAFETY: the caller's promise; the tile lies inside the product.
            unsafe { dispatch!(isa, run(self, &tile)) }
        }
    }
}

/// Part `index` of `0..len` cut into `count` parts, whose sizes differ by one at most.
#[inline(always)]
pub(crate) fn part(len: usize, count: usize, index: usize) -> Range<usize> {
    len * index / count..len * (index + 1) / count
}
