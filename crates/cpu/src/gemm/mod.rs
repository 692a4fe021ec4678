//! The matrix product C = A·B in `f32`, with an epilogue. Nearly all the time of a Transformer goes into products.
//!
//! **One order of summation.** Every C[i, j] is one chain of fused multiply-adds over k = 0, 1, 2, …, from zero or from
//! what C held; then the bias is added. Lanes run across columns, never along k, so an element has the same bits
//! whatever the number of rows in the call, the tile that it falls into, the block of k after which it rests in memory,
//! and the thread. Batched = alone, and cached = uncached, follow from this and from nothing else. (The usual trick of
//! several partial sums per element would be no faster here: the register tile already has enough chains in flight.)
//!
//! **Three levels.** A *register tile* of 8 rows × 48 columns is accumulated in registers over a block of k (`micro.rs`). Its 48 columns are a
//! *sliver* of B, which is [`Packed`] in this order. A block of the sliver stays in L1 while a *row block* of A, 128 rows at most, passes in
//! strips of eight rows, packed, from L2 (`strips.rs`, `tile.rs`). A row block and some slivers are a *tile*, the work item of a thread. A
//! product of up to eight rows reads B once, as fast as memory gives it, and A where it lies.
//! `bench/notebook` has what was measured.

use crate::dispatch;
use crate::epilogue::Epilogue;
use crate::isa::Isa;
use crate::team::Worker;
use crate::tuning::gemm::{
    FEW_ROWS, MAX_BLOCK, MAX_DEPTH, MIN_TILE_ROWS, MIN_TILE_SLIVERS, ROW_BLOCK, STRIP_PADDING,
    TILES_PER_WORKER,
};
use std::ops::Range;
use tile::{Tile, run};

mod micro;
mod pack;
mod strips;
#[cfg(test)]
mod tests;
mod tile;

pub use pack::{Packed, Packing};

/// Columns in a panel of packed B: one value of [`crate::lanes::Lanes`].
pub const PANEL: usize = crate::lanes::LANES;

/// Panels side by side in a sliver of packed B.
const SLIVER: usize = 3;
/// The most numbers that a step of all strips of a row block takes: eight for each six rows.
const PACKED_ROWS: usize = ROW_BLOCK.div_ceil(6) * 8;
/// Rows, or columns, that are transposed together, and not split.
const EIGHT: usize = 8;

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

/// C = A·B + bias, described; [`Gemm::run`] computes it, tile by tile, on any threads in any order.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
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
    /// What the sums begin with.
    pub begin: Begin,
    /// What becomes of A·B.
    pub epilogue: Epilogue,
}

// SAFETY: a description holds addresses and reads none; whoever calls `run` answers for them.
unsafe impl Send for Gemm {}
// SAFETY: as above.
unsafe impl Sync for Gemm {}

/// How a product is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Items from top to bottom.
    pub down: usize,
    /// Items from left to right, which are next to each other in time.
    pub across: usize,
}

impl Cut {
    /// How many items there are.
    pub fn items(self) -> usize {
        self.down * self.across
    }
}

impl Gemm {
    /// How many `f32` a worker packs A into, for any product.
    pub const SCRATCH: usize =
        PACKED_ROWS * MAX_DEPTH + MAX_DEPTH.div_ceil(MAX_BLOCK) * ROW_BLOCK / 2 * STRIP_PADDING;

    /// The number of independent work items for so many workers. Together they are the whole product, in any order.
    fn tiles(&self, workers: usize) -> usize {
        self.cut(workers).items()
    }

    fn cut(&self, workers: usize) -> Cut {
        let slivers = self.columns.div_ceil(SLIVER * PANEL);
        if slivers == 0 || self.rows == 0 {
            return Cut { down: 0, across: 0 };
        }
        let enough = TILES_PER_WORKER * workers;
        if self.rows <= FEW_ROWS {
            return Cut { down: 1, across: slivers.min(enough) };
        }
        let row_blocks = self.rows.div_ceil(ROW_BLOCK);
        let fewest = match (self.k <= MAX_DEPTH, self.a.column == 1) {
            (true, _) => MIN_TILE_SLIVERS[0],
            (false, true) => MIN_TILE_SLIVERS[1],
            (false, false) => MIN_TILE_SLIVERS[2],
        };
        let across = if workers == 1 { 1 } else { enough.div_ceil(row_blocks).min(slivers.div_ceil(fewest)) };
        let lowest = self.rows.div_ceil(MIN_TILE_ROWS);
        let down = row_blocks.max(workers.div_ceil(across).min(lowest));
        // A few tiles are as many for each worker, if their rows can be.
        let is_even = down * across >= enough || across.is_multiple_of(workers);
        Cut { down: if is_even { down } else { down.next_multiple_of(workers).min(lowest) }, across }
    }

    /// Computes it together with all workers of a run: each has tiles of its own, of which the next one often has the same rows, and takes those
    /// behind them that another has not come to. There is no barrier at its end.
    ///
    /// # Safety
    /// The machine has `isa`. A, B and what the epilogue names are valid for reads and C for writes, at the sizes and strides that
    /// `self` says; C overlaps none of them; nobody else writes any of them, or reads C, at the same time. Every worker comes here.
    ///
    /// # Panics
    /// If the scratch, a worker's own, has less than [`Gemm::SCRATCH`] numbers.
    pub unsafe fn run(&self, isa: Isa, worker: &Worker<'_>, scratch: &mut [f32]) {
        let (workers, tiles) = (worker.count, self.tiles(worker.count));
        let each = tiles.div_ceil(workers);
        let mut scratch = TileScratch::new(scratch);
        worker.share_by_owner(each, |owner, item| {
            let tile = owner * each + item;
            if tile < tiles {
                // SAFETY: the caller's promise; one worker has this tile.
                unsafe { self.run_tile(isa, tile, workers, &mut scratch) };
            }
        });
    }

    /// Computes tile number `tile` of those for so many workers on `isa`.
    ///
    /// # Safety
    /// As for [`Gemm::run`], where other tiles may be computed at the same time; `tile < self.tiles(workers)`, and the scratch has served this
    /// product alone.
    unsafe fn run_tile(&self, isa: Isa, tile: usize, workers: usize, scratch: &mut TileScratch<'_>) {
        let Cut { down, across } = self.cut(workers);
        let rows = part(self.rows.div_ceil(EIGHT), down, tile / across);
        let rows = rows.start * EIGHT..self.rows.min(rows.end * EIGHT);
        let slivers = part(self.columns.div_ceil(SLIVER * PANEL), across, tile % across);
        debug_assert!(rows.len() <= ROW_BLOCK, "{} rows are more than a row block", rows.len());
        let tile = Tile { rows, slivers };
        // SAFETY: the caller's promise; the tile lies inside the product, and its rows fit onto the scratch.
        unsafe { dispatch!(isa, run(self, &tile, scratch)) }
    }
}

/// Where a worker packs the A of one product. What was packed for one tile serves the next, if that has the same rows.
struct TileScratch<'a> {
    numbers: &'a mut [f32],
    /// The rows whose whole k is packed.
    packed: Option<Range<usize>>,
}

impl<'a> TileScratch<'a> {
    /// With at least [`Gemm::SCRATCH`] numbers, whose contents do not matter.
    ///
    /// # Panics
    /// If there are less.
    fn new(numbers: &'a mut [f32]) -> Self {
        assert!(numbers.len() >= Gemm::SCRATCH, "a tile needs {} numbers", Gemm::SCRATCH);
        Self { numbers, packed: None }
    }
}

/// Part `index` of `0..len` cut into `count` parts, whose sizes differ by one at most.
#[inline(always)]
pub(crate) fn part(len: usize, count: usize, index: usize) -> Range<usize> {
    len * index / count..len * (index + 1) / count
}
