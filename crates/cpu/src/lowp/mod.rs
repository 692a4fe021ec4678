//! The matrix product C = A·B + bias with low-precision numbers: `bf16`, or integers of eight or four bits. A half to an eighth of the bytes, and
//! on machines with AMX sixteen and thirty-two times the multiplications of `f32`.
//!
//! **Three formats.** [`Format::Bf16`] rounds weights and activations to the upper half of an `f32` and sums in `f32`.
//! [`Format::Int8`] has a scale for each column of B (an output of the layer), and for each row of A one for each block of at
//! most 1,024 numbers, which is found when they are seen; rows of 2,049 to 4,096 numbers are rounded to `bf16` before. The sum over a
//! block is one of integers, so it is exact; C[i, j] is the bias and then, block by block, sum · (scale of the block in row i · scale of
//! column j). [`Format::Int4`] is the same with a B that takes half the memory (`int4.rs`).
//!
//! **One layout for all machines.** Everything is cut into *tiles* of sixteen lines of 64 bytes, as AMX wants it. A line
//! of A is one row's next 32 `bf16` or 64 integers; a line of B is sixteen columns, each with its next two or four
//! numbers, which is also what one step of `vdpbf16ps` or `vpdpbusd` takes. A is quantized once ([`RowQuantizer`]) for all
//! products that read it, B when a model is prepared ([`Weight`]). What goes beyond the edges is zero in B.
//!
//! **What has the same bits.** Every C[i, j] is one sum over k in one order, whatever the rows in the call, the cut and
//! the thread. With integers it is also the same on every machine. In `bf16` it depends on the instructions ([`Dot`]):
//! AMX adds even and odd k apart within a tile, `vdpbf16ps` adds pairs, the others multiply and add one by one.

use glassformer_plan::Type;

use crate::epilogue::{Epilogue, Store};
use crate::gemm::{Cut, part};
use crate::tuning::lowp::{
    AMX_ITEM_UNITS, ENOUGH_ITEMS, FEW_INT4_ROWS, FEW_INT8_ROWS, MAX_INTEGER_BLOCK, MAX_ITEM_PAIRS,
    MAX_ITEM_UNITS, MIN_ITEM_WORK, STREAMING_ABOVE,
};
use prefetch::Units;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
mod amx;
pub mod coded;
mod dot;
mod epilogue;
mod int4;
#[cfg(target_arch = "x86_64")]
mod item_amx;
mod item_vector;
#[cfg(target_arch = "aarch64")]
mod neon;
mod operand;
mod patch;
mod prefetch;
mod quantize;
mod row_format;
mod strips;
mod table;
#[cfg(test)]
mod tests;
mod vector;
mod weight;

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{Tiles, apart};
pub use dot::Dot;
pub use operand::{Operand, OperandPacker, OperandSource};
pub use quantize::{RowQuantizer, RowSource, RowSum};
pub use row_format::{RowFormat, RowsToQuantize};
pub use table::Table;
pub(crate) use vector::alone;
pub use weight::Weight;

/// Bytes of a line: a cache line, and a row of an AMX tile.
const LINE: usize = 64;
/// Lines of a tile, and the rows or columns that it stands for.
const LINES: usize = 16;
/// Bytes of a tile.
const TILE: usize = LINE * LINES;
/// The same in `f32`, in which buffers are counted.
const TILE_FLOATS: usize = TILE / 4;
/// Columns that are always worked on together, or filled up with zeros: four tiles side by side.
const UNIT: usize = 4 * LINES;

/// How low-precision numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The upper half of an `f32`: eight bits of precision, the same range.
    Bf16,
    /// Integers from -127 to 127, times a scale.
    Int8,
    /// The same for A; those of B are made of four bits and a step for each sixteen.
    Int4,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bf16, Self::Int8, Self::Int4];

    /// Of weights that are held in this, where they are multiplied in low precision and not coded.
    pub const fn of(held: Type) -> Option<Self> {
        match held {
            Type::Bf16 => Some(Self::Bf16),
            Type::Int8 => Some(Self::Int8),
            Type::Int4 => Some(Self::Int4),
            Type::F32 | Type::Coded(_) => None,
        }
    }

    /// What A is quantized to.
    #[must_use]
    pub const fn of_rows(self) -> Self {
        match self {
            Self::Bf16 => Self::Bf16,
            Self::Int8 | Self::Int4 => Self::Int8,
        }
    }

    /// Whether numbers are integers with scales.
    pub(crate) const fn is_integers(self) -> bool {
        matches!(self.of_rows(), Self::Int8)
    }

    /// Bytes of a panel of B.
    const fn panel(self, k: usize) -> usize {
        match self {
            Self::Bf16 | Self::Int8 => self.tiles(k) * TILE,
            Self::Int4 => int4::panel(self.tiles(k)),
        }
    }

    /// `f32` that all panels of B take.
    const fn floats(self, k: usize, columns: usize) -> usize {
        padded(columns) / LINES * self.panel(k) / 4
    }

    /// Numbers in a line of A: the steps of k that a tile is deep.
    const fn depth(self) -> usize {
        match self {
            Self::Bf16 => LINE / 2,
            Self::Int8 | Self::Int4 => LINE,
        }
    }

    /// Tiles along a `k` of this length; one of zeros where there is nothing to add up.
    const fn tiles(self, k: usize) -> usize {
        if k == 0 { 1 } else { k.div_ceil(self.depth()) }
    }

    /// How many blocks there are along a `k` of this length, each with a scale of its own in a row of A; with `bf16`, one.
    pub const fn blocks(self, k: usize) -> usize {
        match self {
            Self::Bf16 => 1,
            Self::Int8 | Self::Int4 => self.tiles(k).div_ceil(MAX_INTEGER_BLOCK),
        }
    }

    /// The tiles of block `index`.
    fn tiles_of(self, k: usize, index: usize) -> Range<usize> {
        part(self.tiles(k), self.blocks(k), index)
    }

    /// The numbers of block `index`.
    pub fn block(self, k: usize, index: usize) -> Range<usize> {
        let tiles = self.tiles_of(k, index);
        tiles.start * self.depth()..k.min(tiles.end * self.depth())
    }
}

/// C = A·B + bias, described; [`LowpGemm::run_item`] computes it, item by item, on any threads in any order.
#[derive(Clone, Copy, Debug)]
pub struct LowpGemm {
    /// What A and B are written in.
    pub format: Format,
    /// The rows of A and C.
    pub rows: usize,
    /// The columns of A and the rows of B.
    pub k: usize,
    /// The columns of B and C.
    pub columns: usize,
    /// Which of them are computed, from the first to before the second: a multiple of 64, and another one or the end.
    pub some: [usize; 2],
    /// A, `[rows, k]`, as [`RowQuantizer`] writes it.
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

impl Store {
    /// What is right for so many numbers in `f32`.
    pub fn of(numbers: usize) -> Self {
        if numbers > STREAMING_ABOVE { Self::Streaming } else { Self::F32 }
    }
}

// SAFETY: a description holds addresses and reads none; whoever calls `run_item` answers for them.
unsafe impl Send for LowpGemm {}
// SAFETY: as above.
unsafe impl Sync for LowpGemm {}

impl LowpGemm {
    /// The number of independent work items for so many workers. Together they are the whole product, in any order.
    pub fn items(&self, dot: Dot, workers: usize) -> usize {
        self.cut(dot, workers).items()
    }

    /// Into what items it is cut: as large as may be for one worker, else as many as keep all busy.
    fn cut(&self, dot: Dot, workers: usize) -> Cut {
        let pairs = self.rows.div_ceil(2 * LINES);
        let units = self.units().len();
        let down = pairs.div_ceil(MAX_ITEM_PAIRS);
        if down == 0 || units == 0 {
            return Cut { down: 0, across: 0 };
        }
        let widest = match self.format {
            Format::Bf16 | Format::Int8 => MAX_ITEM_UNITS,
            Format::Int4 => AMX_ITEM_UNITS,
        };
        if workers == 1 {
            let wide = if dot == Dot::Amx { AMX_ITEM_UNITS } else { MAX_ITEM_UNITS };
            return Cut { down, across: units.div_ceil(wide) };
        }
        let work = self.rows.max(LINES) * self.k * units * UNIT / down;
        let enough = ENOUGH_ITEMS.div_ceil(down).min(units).min(work / MIN_ITEM_WORK);
        Cut { down, across: units.div_ceil(widest).max(enough) }
    }

    /// Computes item number `item` of those for so many workers by the instructions of `dot`, of one product or of several in turn, which differ
    /// in addresses and in what follows them, and in nothing else.
    ///
    /// # Safety
    /// The machine has `dot`; `item` is below their items. For each of them, A, B and what the epilogue names are valid for reads and C for
    /// writes, at the sizes that it says; C overlaps none of them; nobody else writes any of them, or reads C, at the same time, except
    /// other items. One may read what those before it wrote to the columns of this item.
    pub unsafe fn run_item(products: &[Self], dot: Dot, item: usize, workers: usize) {
        for (at, product) in products.iter().enumerate() {
            let cut = product.cut(dot, workers);
            let this = product.item(cut, item);
            let next = match products.get(at + 1) {
                Some(next) => Units::of(next, &this.units),
                None => products[0].units_of_next(&this, cut, item + workers),
            };
            // SAFETY: the caller's promise; the item lies inside the product.
            unsafe {
                match product.suited(dot) {
                    #[cfg(target_arch = "x86_64")]
                    Dot::Amx => item_amx::run(product, &this, next),
                    dot => item_vector::run(product, dot, &this, next),
                }
            }
        }
    }

    fn item(&self, cut: Cut, index: usize) -> Item {
        let Cut { down, across } = cut;
        let pairs = part(self.rows.div_ceil(2 * LINES), down, index / across);
        let (all, units) = (self.units(), part(self.units().len(), across, index % across));
        let units = all.start + units.start..all.start + units.end;
        Item { rows: pairs.start * 2 * LINES..self.rows.min(pairs.end * 2 * LINES), units }
    }

    /// What the worker of `item` multiplies by if it goes on with item number `next`: its units, if there is one and it has the same rows.
    fn units_of_next(&self, item: &Item, cut: Cut, next: usize) -> Units {
        if next >= cut.items() {
            return Units::NONE;
        }
        let next = self.item(cut, next);
        if next.rows == item.rows { Units::of(self, &next.units) } else { Units::NONE }
    }

    /// Whether workers that share it have columns of their own, instead of drawing a few at a time: then each of them knows what it
    /// multiplies by next, and prefetches it. With the rows of one tile, or as many as vectors take at once, B comes as fast as memory gives
    /// it, whoever is first.
    pub fn has_owners(&self, dot: Dot, workers: usize) -> bool {
        let least = if dot == Dot::Amx { LINES } else { LINES / 2 };
        let rows = least + 1..=MAX_ITEM_PAIRS * 2 * LINES;
        workers > 1 && rows.contains(&self.rows) && self.units().len() >= AMX_ITEM_UNITS * workers
    }

    /// One worker's columns of it.
    #[must_use]
    pub fn part_of(&self, index: usize, workers: usize) -> Self {
        let all = self.units();
        let units = part(all.len(), workers, index);
        let [first, end] = [units.start, units.end].map(|unit| (all.start + unit) * UNIT);
        Self { some: [first, end.min(self.some[1])], ..*self }
    }

    /// Whether it can become `bf16`: whole lines of them, and one block of k.
    pub fn fits_bf16(&self) -> bool {
        self.columns.is_multiple_of(LINE / 2) && self.format.blocks(self.k) == 1
    }

    /// The units of columns that are computed.
    fn units(&self) -> Range<usize> {
        self.some[0] / UNIT..self.some[1].div_ceil(UNIT)
    }

    /// What wins for this product where the machine has `dot`. Integer sums are exact, so the choice changes no bit; in
    /// `bf16` it would, and one kind of instructions does everything.
    fn suited(&self, dot: Dot) -> Dot {
        let few = match self.format {
            Format::Bf16 => 0,
            Format::Int8 => FEW_INT8_ROWS,
            Format::Int4 => FEW_INT4_ROWS,
        };
        if dot == Dot::Amx && self.rows <= few { Dot::Avx512Vnni } else { dot }
    }

    /// Tiles along k.
    #[inline(always)]
    fn tiles(&self) -> usize {
        self.format.tiles(self.k)
    }

    /// The tile of A at block `block` of sixteen rows and `step` along k.
    #[inline(always)]
    fn a_tile(&self, block: usize, step: usize) -> *const u8 {
        self.a.wrapping_add((block * self.tiles() + step) * TILE_FLOATS).cast()
    }

    /// Where panel number `panel` of B begins, sixteen columns.
    #[inline(always)]
    fn b_panel(&self, panel: usize) -> *const u8 {
        self.b.cast::<u8>().wrapping_add(panel * self.format.panel(self.k))
    }

    /// The tile of B at `panel` and `step` along k, if it is none of four bits.
    #[inline(always)]
    fn b_tile(&self, panel: usize, step: usize) -> *const u8 {
        self.b_panel(panel).wrapping_add(step * TILE)
    }

    /// One number per row for this block of k, behind the tiles of A; there only with integers.
    #[inline(always)]
    fn row_scales(&self, block: usize) -> *const f32 {
        let lines = self.rows.div_ceil(LINES);
        self.a.wrapping_add(lines * (self.tiles() * TILE_FLOATS + block * LINES))
    }

    /// One number per column, behind the tiles of B; there only with integers.
    #[inline(always)]
    fn column_scales(&self) -> *const f32 {
        self.b.wrapping_add(self.format.floats(self.k, self.columns))
    }

    /// One integer per column for this block of k, behind the scales; there only with integers.
    #[inline(always)]
    fn column_shifts(&self, block: usize) -> *const i32 {
        self.column_scales().wrapping_add((1 + block) * padded(self.columns)).cast()
    }
}

/// The columns of B with those of zeros.
const fn padded(columns: usize) -> usize {
    columns.next_multiple_of(UNIT)
}

/// A work item: these rows, and these units of columns.
struct Item {
    rows: Range<usize>,
    units: Range<usize>,
}
