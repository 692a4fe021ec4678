//! Strips of rows, over one block of k: where their patches are, and what becomes of the sums.
//!
//! Between two blocks of k sums of `bf16` are kept in C; those of integers begin anew, since another block has other scales, and are added to
//! what C holds.

use super::epilogue::{self, Conversion, Finish, NO_BIAS, Place};
use super::patch::{Patch, Shape, Sums};
use super::quantize::rounding;
use super::{Format, LINE, LINES, LowpGemm, TILE, part};
use crate::epilogue::{Epilogue, Region, Store};
use crate::isa::Isa;
use crate::tuning::lowp::MAX_BF16_BLOCK;
use std::ops::Range;

impl LowpGemm {
    /// How many blocks of k there are. Between two of them C must hold the sums, so there is one where C is in low precision.
    pub(super) fn blocks(&self) -> usize {
        match self.format {
            Format::Bf16 if !matches!(self.epilogue.store, Store::F32 | Store::Streaming) => 1,
            Format::Bf16 => self.tiles().div_ceil(MAX_BF16_BLOCK),
            Format::Int8 | Format::Int4 => self.format.blocks(self.k),
        }
    }

    /// What follows these tiles: nothing before the last block of k. Past the caches goes only what begins with a line and is not read again.
    fn epilogue_behind(&self, tiles: &Range<usize>) -> Epilogue {
        if tiles.end < self.tiles() {
            return Epilogue::default();
        }
        let lines = self.c.addr().is_multiple_of(LINE) && self.c_stride.is_multiple_of(LINES);
        let epilogue = self.epilogue;
        match epilogue.store {
            Store::Streaming if epilogue.changes() || epilogue.keep.is_some() || !lines => {
                Epilogue { store: Store::F32, ..epilogue }
            }
            _ => epilogue,
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
    isa: Isa,
    /// What follows this block.
    epilogue: Epilogue,
    /// What is done to the rows of patches that are whole, and of others.
    finish: [Finish; 2],
    /// What rounds numbers to lines of `bf16`.
    round: unsafe fn(&[f32], *mut u8),
}

impl<'a> Strips<'a> {
    /// These rows in block number `block`.
    pub fn new(product: &'a LowpGemm, isa: Isa, shape: Shape, rows: Range<usize>, block: usize) -> Self {
        let steps = product.block(block);
        let conversion = match product.format {
            Format::Bf16 if steps.end < product.tiles() => Conversion::Keep,
            Format::Bf16 => Conversion::Add,
            Format::Int8 | Format::Int4 if block == 0 => Conversion::Scale,
            Format::Int8 | Format::Int4 => Conversion::ScaleOnto,
        };
        let epilogue = product.epilogue_behind(&steps);
        let general = epilogue::finish(isa, conversion, &epilogue);
        let whole = match shape {
            #[cfg(target_arch = "x86_64")]
            Shape::Square => epilogue::fused(conversion, &epilogue),
            Shape::Wide => general,
        };
        let (finish, round) = ([whole, general], rounding(isa));
        Self { product, shape, rows, steps, block, isa, epilogue, finish, round }
    }
}

impl Strips<'_> {
    /// Whether sums go on with what the block before left in C.
    #[inline(always)]
    pub fn accumulates(&self) -> bool {
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
        let LowpGemm { c, c_stride, columns, some, .. } = *product;
        let at = row * c_stride + column;
        let region = Region {
            corner: [row, column],
            rows: (self.rows.end - row).min(self.shape.height()),
            columns: some[1].min(panels.end * LINES) - column,
            c: match product.epilogue.store {
                Store::F32 | Store::Streaming | Store::Bf16Tiles(_) => c.wrapping_add(at),
                Store::ScaledBf16(_) => c.cast::<u16>().wrapping_add(at).cast(),
            },
            stride: c_stride,
        };
        Place {
            isa: self.isa,
            region,
            width: self.shape.width(),
            finish: self.finish,
            bias: product.epilogue.bias.map_or(NO_BIAS.as_ptr(), |bias| bias.wrapping_add(column)),
            scales: [
                product.row_scales(self.block).wrapping_add(row),
                product.column_scales().wrapping_add(column),
            ],
            epilogue: self.epilogue,
            across: Format::Bf16.tiles(columns),
            round: self.round,
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
            accumulates: self.accumulates(),
            steps: self.steps.len(),
            beyond: None,
            sums,
        }
    }
}
