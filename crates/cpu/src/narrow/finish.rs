//! From a patch's sums to C, and back where k goes on.

use super::patch::Sums;
use super::rows::narrow_line;
use super::{Format, LINE, LINES, TILE};
use crate::lanes::Lanes;
use crate::then::{Part, Then};
use std::ops::Range;

/// What happens to sums on their way to C.
#[derive(Clone, Copy)]
pub(super) enum Finish {
    /// Nothing: k goes on.
    Keep,
    /// The bias is added.
    Add { bias: Option<*const f32> },
    /// Integers become numbers: sum · (scale of the row · scale of the column) onto something. Every step rounds by itself, so
    /// that all machines give the same bits.
    Scale { rows: *const f32, columns: *const f32, onto: Onto, last: bool },
}

/// What the numbers of a block are added to.
#[derive(Clone, Copy)]
pub(super) enum Onto {
    /// The bias, or nothing.
    Bias(Option<*const f32>),
    /// What C holds.
    C,
}

impl Finish {
    /// Whether C is whole then.
    fn is_last(self) -> bool {
        match self {
            Self::Keep => false,
            Self::Add { .. } => true,
            Self::Scale { last, .. } => last,
        }
    }
}

/// Where a patch's numbers go, and how.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The patch's part of C. Where C is narrow, its address is not used.
    pub part: Part,
    /// Numbers in a row of the sums.
    pub width: usize,
    pub finish: Finish,
    pub then: Then,
    /// Where C is narrow: its tiles, and how many of them there are in a row.
    pub narrow: Option<(*mut f32, usize)>,
}

impl Place {
    /// Takes the sums back from C.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; the part is valid for reads, and the sums for writes.
    #[inline(always)]
    pub unsafe fn load<L: Lanes>(&self, sums: *mut Sums) {
        let Part { rows, columns, c, stride, .. } = self.part;
        for row in 0..rows {
            let mut at = 0;
            while at < columns {
                let some = LINES.min(columns - at);
                // SAFETY: the caller's promise; a row of the sums is a whole number of lanes.
                unsafe {
                    let line = L::load_first(c.add(row * stride + at), some);
                    line.store(sums.cast::<f32>().add(row * self.width + at));
                }
                at += LINES;
            }
        }
    }

    /// Gives these rows of the sums to C, and does what follows.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; the part is valid for writes, and what `finish` and `then` point at, for its rows
    /// and columns, for reads; the rows are the part's.
    #[inline(always)]
    pub unsafe fn store<L: Lanes>(&self, sums: *mut Sums, rows: Range<usize>) {
        let from = sums.cast::<f32>().wrapping_add(rows.start * self.width);
        let Part { corner: [row, column], columns, c, stride, .. } = self.part;
        let corner = [row + rows.start, column];
        // Narrow numbers are made where the sums are.
        let (c, stride) = match self.narrow {
            Some(_) => (from, self.width),
            None => (c.wrapping_add(rows.start * stride), stride),
        };
        let part = Part { corner, rows: rows.len(), columns, c, stride };
        // SAFETY: the caller's promise.
        unsafe {
            self.add::<L>(&part, from, rows.start);
            if self.finish.is_last() {
                self.then.run::<L>(&part);
                if let Some((tiles, across)) = self.narrow {
                    narrow::<L>(&part, tiles, across);
                }
            }
        }
    }

    /// Sums to numbers: `from` are those of the part, whose first row is the patch's row `first`.
    ///
    /// # Safety
    /// As for [`Place::store`].
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, part: &Part, from: *const f32, first: usize) {
        let mut at = 0;
        while at < part.columns {
            let some = LINES.min(part.columns - at);
            // SAFETY: the caller's promise; `at + some` stays within the columns.
            unsafe {
                let of = |numbers: *const f32| L::load_first(numbers.add(at), some);
                let put = |row: usize, line: L| {
                    let to = part.c.add(row * part.stride + at);
                    if some == LINES { line.store(to) } else { line.store_first(to, some) }
                };
                let line = |row: usize| from.add(row * self.width + at);
                match self.finish {
                    Finish::Keep | Finish::Add { bias: None } => {
                        for row in 0..part.rows {
                            put(row, L::load(line(row)));
                        }
                    }
                    Finish::Add { bias: Some(bias) } => {
                        let bias = of(bias);
                        for row in 0..part.rows {
                            put(row, L::load(line(row)) + bias);
                        }
                    }
                    Finish::Scale { rows: scales, columns, onto, .. } => {
                        // Adding -0 changes nothing, not even the sign of a zero.
                        let nothing = L::splat(-0.0);
                        let (scale, bias) = match onto {
                            Onto::Bias(bias) => (of(columns), bias.map_or(nothing, of)),
                            Onto::C => (of(columns), nothing),
                        };
                        for row in 0..part.rows {
                            let factor = L::splat(*scales.add(first + row)) * scale;
                            let before = match onto {
                                Onto::Bias(_) => bias,
                                Onto::C => L::load_first(part.c.add(row * part.stride + at), some),
                            };
                            put(row, numbers::<L>(line(row)) * factor + before);
                        }
                    }
                }
            }
            at += LINES;
        }
    }
}

/// Rounds a part to `bf16`, into the lines that its rows have among `tiles`, of which there are `across` in a row. Behind the
/// last column there are zeros.
///
/// # Safety
/// As for [`Place::store`]; the part begins at a tile's first column.
#[inline(always)]
unsafe fn narrow<L: Lanes>(part: &Part, tiles: *mut f32, across: usize) {
    let depth = Format::Bf16.depth();
    for i in 0..part.rows {
        let row = part.corner[0] + i;
        let mut at = 0;
        while at < part.columns {
            let tile = row / LINES * across + (part.corner[1] + at) / depth;
            // SAFETY: the caller's promise.
            unsafe {
                let from = part.c.add(i * part.stride + at);
                let line = tiles.cast::<u8>().add(tile * TILE + row % LINES * LINE);
                narrow_line::<L>(from, depth.min(part.columns - at), line);
            }
            at += depth;
        }
    }
}

/// Sixteen integers as numbers.
///
/// # Safety
/// The machine has `L`'s instructions; there are sixteen at `bits`.
#[inline(always)]
unsafe fn numbers<L: Lanes>(bits: *const f32) -> L {
    let mut numbers = [0.0; LINES];
    // SAFETY: the caller's promise.
    unsafe {
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = (*bits.add(i)).to_bits().cast_signed() as f32;
        }
        L::load(numbers.as_ptr())
    }
}
