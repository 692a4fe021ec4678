//! The matrix product C = A·B + bias in `f32`: what nearly all the time of a Transformer goes into.
//!
//! **One order of summation.** Every C[i, j] is one chain of fused multiply-adds over k = 0, 1, 2, …, from zero or from
//! what C held; then the bias is added. Lanes run across columns, never along k, so an element has the same bits
//! whatever the number of rows in the call, the tile that it falls into, the block of k after which it rests in memory,
//! and the thread. Batched = alone, and cached = uncached, follow from this and from nothing else. (The usual trick of
//! several partial sums per element would be no faster here: the register tile already has enough chains in flight.)
//!
//! **Three levels.** A *register tile* of up to 6 rows × 64 columns is accumulated in registers over a block of k
//! ([`micro`]). A *tile*, the work item of a thread, is about 120 rows × 384 columns: its block of B stays in the L2
//! cache and streams from there under six rows of A, which stay in L1. A product of few rows has narrower tiles and
//! reads B once, as fast as memory gives it. B is [`Packed`] in panels beforehand; A is read where it lies, unless its
//! columns are not contiguous (Aᵀ), and then a block of it is copied to scratch. `README.md` has what was measured.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use crate::dispatch;
use crate::isa::Isa;
use tile::{Tile, run};

mod micro;
mod pack;
#[cfg(test)]
mod tests;
mod tile;

pub use pack::{Packed, Packing};

/// Columns in a panel of packed B: one value of [`crate::lanes::Lanes`].
pub const PANEL: usize = crate::lanes::LANES;

/// The rows that a register tile has, where there are many; tiles are whole numbers of these.
const STRIP: usize = 6;
/// The most rows of a tile. More would read B less often from beyond L2, but leave fewer tiles for the threads.
const TILE_ROWS: usize = 21 * STRIP;
/// Panels side by side in the widest register tile; tiles are whole numbers of these.
const UNIT: usize = 4;
/// The most units of a tile: 384 columns, whose `BLOCK` steps of B are 0.6 MB.
const TILE_UNITS: usize = 6;
/// Up to here a product has few rows: it is a matter of reading B.
const FEW_ROWS: usize = 16;
/// Below this many tiles, narrower ones keep more threads busy.
const ENOUGH_TILES: usize = 32;
/// The most steps of k between two visits to C: six rows of A take 18 KB of L1.
const BLOCK: usize = 384;
/// The same where A is copied, so that a tile's rows of it take half of that in L2.
const BLOCK_COPIED: usize = 384;

/// The same for few rows: what the next visit needs of B is fetched during this one, and must not be long.
const BLOCK_FEW: usize = 256;
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
}

impl Product {
    /// How many `f32` of scratch [`Product::run_tile`] needs, for any product.
    pub const SCRATCH: usize = TILE_ROWS * BLOCK_COPIED;

    /// The number of independent work items. Consecutive ones share columns of B.
    pub fn tiles(&self) -> usize {
        let Cut { down, across } = self.cut();
        down * across
    }

    fn cut(&self) -> Cut {
        let down = self.rows.div_ceil(TILE_ROWS);
        let units = self.columns.div_ceil(UNIT * PANEL);
        let across = if down == 0 {
            0
        } else {
            units.div_ceil(TILE_UNITS).max(ENOUGH_TILES.div_ceil(down).min(units))
        };
        Cut { down, across }
    }

    /// Computes tile number `tile` on `isa`, with at least [`Product::SCRATCH`] numbers of scratch, whose contents do
    /// not matter.
    ///
    /// # Safety
    /// The machine has `isa`; `tile < self.tiles()`. A, B and the bias are valid for reads and C for writes, at the
    /// sizes and strides that `self` says; C overlaps none of them; nobody else writes any of them, or reads C, at the
    /// same time, except other tiles of this product.
    ///
    /// # Panics
    /// If the scratch is too small.
    pub unsafe fn run_tile(&self, isa: Isa, tile: usize, scratch: &mut [f32]) {
        assert!(scratch.len() >= Self::SCRATCH, "a tile needs {} numbers of scratch", Self::SCRATCH);
        let Cut { down, across } = self.cut();
        let (strip, strip_end) = part(self.rows.div_ceil(STRIP), down, tile % down);
        let (row, row_end) = (strip * STRIP, self.rows.min(strip_end * STRIP));
        let panels = self.columns.div_ceil(PANEL);
        let (unit, unit_end) = part(panels.div_ceil(UNIT), across, tile / down);
        let (panel, panel_end) = (unit * UNIT, panels.min(unit_end * UNIT));
        let tile = Tile { row, row_end, panel, panel_end, scratch: scratch.as_mut_ptr() };
        // SAFETY: the caller's promise; the tile lies inside the product.
        unsafe { dispatch!(isa, run(self, &tile)) }
    }
}

/// Part `index` of `0..len` cut into `count` parts, whose sizes differ by one at most.
#[inline(always)]
fn part(len: usize, count: usize, index: usize) -> (usize, usize) {
    (len * index / count, len * (index + 1) / count)
}
