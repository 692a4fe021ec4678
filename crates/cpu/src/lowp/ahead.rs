//! What comes next of B, asked for while something else is multiplied.
#![allow(clippy::cast_ptr_alignment)] // lines are aligned to 64 bytes

use super::LINE;
use super::coming::{Coming, PANELS};
use crate::lanes::prefetch_l2;
use std::ops::Range;

/// How many steps ahead few rows ask for B: by itself, the machine begins anew with each page.
#[cfg(target_arch = "x86_64")] // AMX alone
const EARLY: usize = 12;

/// What is asked for of B while a block is multiplied, little by little. The four panels of a unit are asked for side by side: memory gives
/// lines of several pages faster than those of one.
pub(super) struct Ahead {
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
    /// The beginning of what comes behind them: the first of four panels, how far they are apart, and lines of each.
    then: Option<(*const u8, usize, usize)>,
}

/// Asks for something, whenever there is time for it.
pub(super) trait Ask {
    fn ask(&mut self);
}

/// Never.
pub(super) struct Nothing;

impl Ask for Nothing {
    #[inline(always)]
    fn ask(&mut self) {}
}

impl Ahead {
    pub const NOTHING: Self =
        Self { next: std::ptr::null(), left: 0, lines: 0, panel: 0, units: 0, each: 0, then: None };

    /// These lines of what comes, in so many times.
    pub fn of(coming: &Coming, lines: &Range<usize>, times: usize) -> Self {
        let (count, units) = (lines.len(), coming.units());
        let next = coming.start().wrapping_add(lines.start * LINE);
        let each = (units * count).div_ceil(times.max(1));
        Self { next, left: count, lines: count, panel: coming.panel(), units, each, then: None }
    }

    /// The tiles of a unit and of what comes behind it, always some steps ahead, where so many come before those that are multiplied now.
    #[cfg(target_arch = "x86_64")] // AMX alone
    pub fn along(unit: &Coming, behind: &Coming, before: usize) -> Self {
        let tiles = unit.tiles();
        let lines = unit.lines(&((before + EARLY).min(tiles)..tiles));
        let first = behind.lines(&(0..EARLY.min(behind.tiles())));
        Self {
            each: (unit.panel() / LINE).div_ceil(tiles),
            then: (behind.units() > 0).then(|| (behind.start(), behind.panel(), first.len())),
            ..Self::of(unit, &lines, 1)
        }
    }

    /// Whether there is something to ask for.
    #[cfg(target_arch = "x86_64")]
    pub fn is_there(&self) -> bool {
        self.left > 0
    }
}

impl Ask for Ahead {
    #[inline(always)]
    fn ask(&mut self) {
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
        } else if let Some((next, panel, lines)) = self.then.take() {
            (self.next, self.panel, self.left) = (next, panel, lines);
        }
    }
}
