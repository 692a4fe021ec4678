//! B is prefetched while something else of the same product is multiplied.

use super::{Format, LINE, LINES, LowpGemm, UNIT, part};
use crate::lanes::prefetch_l2;
use crate::tuning::lowp::MAX_BF16_BLOCK;
use std::ops::Range;

/// Panels of a unit.
pub(super) const PANELS: usize = UNIT / LINES;

/// Some units of a B, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    format: Format,
    k: usize,
    b: *const f32,
    first: usize,
    count: usize,
}

impl Units {
    pub const NONE: Self = Self { format: Format::Bf16, k: 0, b: std::ptr::null(), first: 0, count: 0 };

    /// These units of a product's B.
    pub fn of(product: &LowpGemm, units: &Range<usize>) -> Self {
        Self { format: product.format, k: product.k, b: product.b, first: units.start, count: units.len() }
    }

    /// The first of them, so many, or as many as there are.
    pub fn first(self, count: usize) -> Self {
        Self { count: count.min(self.count), ..self }
    }

    /// What is read behind a unit, in an item with these units of `product`: its next one, or the first of these.
    pub fn behind(self, product: &LowpGemm, units: &Range<usize>, unit: usize) -> Self {
        let next = unit + 1;
        if next < units.end { Self::of(product, &(next..next + 1)) } else { self.first(1) }
    }

    /// Bytes of a panel.
    fn panel(&self) -> usize {
        self.format.panel(self.k)
    }

    /// Where the first panel begins.
    pub fn start(&self) -> *const u8 {
        self.b.cast::<u8>().wrapping_add(self.first * PANELS * self.panel())
    }

    /// Tiles along k.
    fn tiles(&self) -> usize {
        self.format.tiles(self.k)
    }

    /// Those that are multiplied first.
    pub fn first_block(&self) -> Range<usize> {
        let tiles = self.tiles();
        match self.format {
            Format::Bf16 => part(tiles, tiles.div_ceil(MAX_BF16_BLOCK), 0),
            Format::Int8 | Format::Int4 => self.format.tiles_of(self.k, 0),
        }
    }

    /// The lines of a panel that hold some of its tiles.
    fn lines(&self, tiles: &Range<usize>) -> Range<usize> {
        let (lines, all) = (self.panel() / LINE, self.tiles());
        lines * tiles.start / all..lines * tiles.end / all
    }
}

/// What is prefetched of B while a block is multiplied, little by little. The four panels of a unit are prefetched side by side: memory gives
/// lines of several pages faster than those of one.
pub(super) struct Prefetcher {
    /// The next line of the first panel.
    next: *const u8,
    /// Lines that are left of each panel of this unit.
    left: usize,
    /// Lines of each panel.
    lines: usize,
    /// Bytes from a panel to the next.
    panel: usize,
    /// Units that are left, with this one.
    units: usize,
    /// Lines of each panel at a time.
    each: usize,
    /// The beginning of what comes behind them.
    behind: Option<Beginning>,
}

/// The first lines of four panels.
struct Beginning {
    start: *const u8,
    /// Bytes from a panel to the next.
    panel: usize,
    /// Lines of each.
    lines: usize,
}

/// Prefetches a little, whenever there is time for it.
pub(super) trait Prefetch {
    fn some(&mut self);
}

/// Never prefetches.
pub(super) struct Nothing;

impl Prefetch for Nothing {
    #[inline(always)]
    fn some(&mut self) {}
}

impl Prefetcher {
    pub const NOTHING: Self =
        Self { next: std::ptr::null(), left: 0, lines: 0, panel: 0, units: 0, each: 0, behind: None };

    /// These tiles of some units, in so many times.
    pub fn of(units: &Units, tiles: &Range<usize>, times: usize) -> Self {
        let lines = units.lines(tiles);
        let next = units.start().wrapping_add(lines.start * LINE);
        let (lines, units, panel) = (lines.len(), units.count, units.panel());
        let each = (units * lines).div_ceil(times.max(1));
        Self { next, left: lines, lines, panel, units, each, behind: None }
    }

    /// The tiles of a unit and of what comes behind it, always some steps before they are read, where so many come before
    /// those that are multiplied now.
    #[cfg(target_arch = "x86_64")] // AMX alone
    pub fn along(unit: &Units, behind: &Units, before: usize) -> Self {
        const DISTANCE: usize = crate::tuning::lowp::AMX_PREFETCH_DISTANCE;
        let tiles = unit.tiles();
        let (start, panel) = (behind.start(), behind.panel());
        let lines = behind.lines(&(0..DISTANCE.min(behind.tiles()))).len();
        Self {
            each: (unit.panel() / LINE).div_ceil(tiles),
            behind: (behind.count > 0).then_some(Beginning { start, panel, lines }),
            ..Self::of(unit, &((before + DISTANCE).min(tiles)..tiles), 1)
        }
    }

    /// Whether there is something to prefetch.
    #[cfg(target_arch = "x86_64")]
    pub fn is_there(&self) -> bool {
        self.left > 0
    }
}

impl Prefetch for Prefetcher {
    #[inline(always)]
    fn some(&mut self) {
        let some = self.each.min(self.left);
        for line in 0..some {
            for panel in 0..PANELS {
                prefetch_l2(self.next.wrapping_add(panel * self.panel + line * LINE).cast());
            }
        }
        self.next = self.next.wrapping_add(some * LINE);
        self.left -= some;
        if self.left > 0 {
            return;
        }
        if self.units > 1 {
            self.next = self.next.wrapping_add(PANELS * self.panel).wrapping_sub(self.lines * LINE);
            self.left = self.lines;
            self.units -= 1;
        } else if let Some(Beginning { start, panel, lines }) = self.behind.take() {
            (self.next, self.panel, self.left) = (start, panel, lines);
        }
    }
}
