//! Strips of rows, over one block of k: where their patches are, and what becomes of the sums.
//!
//! Between two blocks of k sums of `bf16` are kept in C; those of integers begin anew, since another block has other scales, and are added to
//! what C holds.

#[cfg(target_arch = "x86_64")]
use super::LINE;
use super::finish::{self, Finish, NO_BIAS, Place};
use super::patch::{Patch, Shape, Sums};
use super::{BLOCK, Format, LINES, LowpGemm, Store, TILE, part};
use crate::epilogue::{Region, Then};
use crate::isa::Isa;
use std::ops::Range;

impl LowpGemm {
    /// How many blocks of k there are. Between two of them C must hold the sums, so there is one where C is in low precision.
    pub(super) fn blocks(&self) -> usize {
        match self.format {
            Format::Bf16 if !matches!(self.target, Store::F32 | Store::Streaming) => 1,
            Format::Bf16 => self.tiles().div_ceil(BLOCK),
            Format::Int8 | Format::Int4 => self.format.blocks(self.k),
        }
    }

    /// What becomes of C behind these tiles: nothing leaves the caches before its last block, nor what does not begin with a line.
    #[cfg(target_arch = "x86_64")] // AMX alone
    fn target_of(&self, tiles: &Range<usize>) -> Store {
        let lines = self.c.addr().is_multiple_of(LINE) && self.c_stride.is_multiple_of(LINES);
        match self.target {
            Store::Streaming if tiles.end < self.tiles() || !lines => Store::F32,
            target => target,
        }
    }

    /// Block number `index`, in tiles.
    #[inline(always)]
    pub(super) fn block(&self, index: usize) -> Range<usize> {
        part(self.tiles(), self.blocks(), index)
    }
}

/// Rows of an item that are worked on in one shape, over one block of k.
pub(super) struct Strips<'a> {
    pub product: &'a LowpGemm,
    pub shape: Shape,
    pub rows: Range<usize>,
    pub steps: Range<usize>,
    /// The block's number.
    block: usize,
    /// What is done to the rows of patches that are whole, and of others.
    finish: [finish::Rows; 2],
}

impl<'a> Strips<'a> {
    /// These rows in block number `block`.
    pub fn new(product: &'a LowpGemm, isa: Isa, shape: Shape, rows: Range<usize>, block: usize) -> Self {
        let steps = product.block(block);
        let finish = match product.format {
            Format::Bf16 if steps.end < product.tiles() => Finish::Keep,
            Format::Bf16 => Finish::Add,
            Format::Int8 | Format::Int4 if block == 0 => Finish::Scale,
            Format::Int8 | Format::Int4 => Finish::ScaleOnto,
        };
        let then = if steps.end < product.tiles() { Then::Nothing } else { product.then };
        let general = finish::rows(isa, finish, then);
        let whole = match shape {
            #[cfg(target_arch = "x86_64")]
            Shape::Square => finish::square_rows(finish, then, product.target_of(&steps)),
            Shape::Wide => general,
        };
        Self { product, shape, rows, steps, block, finish: [whole, general] }
    }
}

impl Strips<'_> {
    /// Whether sums go on with what the block before left in C.
    #[inline(always)]
    pub fn goes_on(&self) -> bool {
        self.block > 0 && self.product.format == Format::Bf16
    }

    /// Whether sums are kept in C for the next block.
    #[cfg(target_arch = "x86_64")] // AMX alone
    #[inline(always)]
    pub fn keeps(&self) -> bool {
        self.steps.end < self.product.tiles() && self.product.format == Format::Bf16
    }

    /// The first row of each strip.
    pub fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        self.rows.clone().step_by(self.shape.height())
    }

    /// The panels of some units.
    pub fn panels(&self, units: &Range<usize>) -> Range<usize> {
        units.start * 4..(units.end * 4).min(self.product.some[1].div_ceil(LINES))
    }

    /// The part of C that the patches at `row` are whose panels are these, and what happens to their sums.
    #[inline(always)]
    pub fn place(&self, row: usize, panels: &Range<usize>) -> Place {
        let (product, column) = (self.product, panels.start * LINES);
        let LowpGemm { c, c_stride, columns, some, bias, then, target, .. } = *product;
        let at = row * c_stride + column;
        let part = Region {
            corner: [row, column],
            rows: (self.rows.end - row).min(self.shape.height()),
            columns: some[1].min(panels.end * LINES) - column,
            c: match target {
                Store::F32 | Store::Streaming | Store::Bf16Tiles(_) => c.wrapping_add(at),
                Store::ScaledBf16(_) => c.cast::<u16>().wrapping_add(at).cast(),
            },
            stride: c_stride,
        };
        let other = match then {
            Then::Nothing | Then::Activate(_) => (std::ptr::null(), 0),
            Then::Add(other) | Then::Gate(_, other) | Then::Slope(_, other) => {
                (other.start.wrapping_add(row * other.stride + column), other.stride)
            }
            Then::ActivateAndKeep(_, tiles) => (tiles.cast_const(), 0),
            Then::NarrowSlope(_, tiles) => (tiles, 0),
        };
        Place {
            part,
            width: self.shape.width(),
            finish: self.finish,
            bias: bias.map_or(NO_BIAS.as_ptr(), |bias| bias.wrapping_add(column)),
            scales: [
                product.row_scales(self.block).wrapping_add(row),
                product.column_scales().wrapping_add(column),
            ],
            other,
            target,
            across: Format::Bf16.tiles(columns),
        }
    }

    /// The same for the only patch at `row` and `panel`.
    #[inline(always)]
    pub fn place_of_one(&self, row: usize, panel: usize) -> Place {
        self.place(row, &(panel..panel + self.shape.across()))
    }

    /// The patch at `row` and `panel`.
    pub fn patch(&self, row: usize, panel: usize, sums: *mut Sums) -> Patch {
        let (product, step) = (self.product, self.steps.start);
        Patch {
            rows: (self.rows.end - row).min(LINES),
            a: product.a_tile(row / LINES, step),
            b: product.b_tile(panel, step),
            stride: product.tiles() * TILE,
            shift: product.column_shifts(self.block).wrapping_add(panel * LINES),
            goes_on: self.goes_on(),
            steps: self.steps.len(),
            beyond: None,
            sums,
        }
    }
}
