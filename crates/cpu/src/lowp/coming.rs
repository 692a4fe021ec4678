//! What a thread multiplies by next, most likely: it is asked for before it is read.

use super::{BLOCK, Format, LINE, LINES, LowpGemm, UNIT, part};
use std::ops::Range;

/// Panels of a unit.
pub(super) const PANELS: usize = UNIT / LINES;

/// Some units of a B, or none.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    format: Format,
    k: usize,
    b: *const f32,
    first: usize,
    units: usize,
}

impl Coming {
    /// Nobody knows.
    pub const NOTHING: Self = Self { format: Format::Bf16, k: 0, b: std::ptr::null(), first: 0, units: 0 };

    /// These columns, from a multiple of 64 on, of a B as [`Weight`](super::Weight) holds it.
    pub fn new(format: Format, k: usize, b: *const f32, columns: &Range<usize>) -> Self {
        let (first, end) = (columns.start / UNIT, columns.end.div_ceil(UNIT));
        Self { format, k, b, first, units: end.saturating_sub(first) }
    }

    /// So many of the units, or as many as there are, from behind the first ones on.
    pub(super) fn some(self, behind: usize, units: usize) -> Self {
        let behind = behind.min(self.units);
        Self { first: self.first + behind, units: units.min(self.units - behind), ..self }
    }

    /// One worker's units of these.
    #[must_use]
    pub fn part_of(self, index: usize, workers: usize) -> Self {
        let units = part(self.units, workers, index);
        self.some(units.start, units.len())
    }

    /// What is read behind a unit, in an item with these units of `product`: its next one, or the first of these.
    pub(super) fn behind(self, product: &LowpGemm, units: &Range<usize>, unit: usize) -> Self {
        let next = unit + 1;
        if next < units.end { product.units_coming(&(next..next + 1)) } else { self.some(0, 1) }
    }

    /// Bytes of a panel.
    pub(super) fn panel(&self) -> usize {
        self.format.panel(self.k)
    }

    /// Where the first panel begins.
    pub(super) fn start(&self) -> *const u8 {
        self.b.cast::<u8>().wrapping_add(self.first * PANELS * self.panel())
    }

    /// How many units.
    pub(super) fn units(&self) -> usize {
        self.units
    }

    /// Tiles along k.
    pub(super) fn tiles(&self) -> usize {
        self.format.tiles(self.k)
    }

    /// Those that are multiplied first.
    pub(super) fn first_block(&self) -> Range<usize> {
        let tiles = self.tiles();
        match self.format {
            Format::Bf16 => part(tiles, tiles.div_ceil(BLOCK), 0),
            Format::Int8 | Format::Int4 => self.format.tiles_of(self.k, 0),
        }
    }

    /// The lines of a panel that hold some of its tiles.
    pub(super) fn lines(&self, tiles: &Range<usize>) -> Range<usize> {
        let (lines, all) = (self.panel() / LINE, self.tiles());
        lines * tiles.start / all..lines * tiles.end / all
    }
}
