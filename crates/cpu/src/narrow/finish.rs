//! From a patch's sums to C, and back where k goes on.

use super::LINES;
use super::patch::{Shape, Sums};
use crate::lanes::Lanes;
use crate::then::{Part, Then};

/// The part of C that a patch is.
pub(super) struct Place {
    pub shape: Shape,
    pub part: Part,
}

/// What happens to sums on their way to C.
pub(super) enum Finish {
    /// Nothing: k goes on.
    Keep,
    /// The bias is added.
    Add { bias: Option<*const f32> },
    /// Integers become numbers: sum · (scale of the row · scale of the column) + bias. Every step rounds by itself, so
    /// that all machines give the same bits.
    Scale { rows: *const f32, columns: *const f32, bias: Option<*const f32> },
}

impl Place {
    /// For each tile that lies in C: its number, its first row and column, and how many of both it has.
    #[inline(always)]
    fn tiles(&self, mut each: impl FnMut(usize, [usize; 2], [usize; 2])) {
        for tile in 0..4 {
            let (down, across) = (tile / self.shape.across() * LINES, tile % self.shape.across() * LINES);
            if down < self.part.rows && across < self.part.columns {
                each(
                    tile,
                    [down, across],
                    [(self.part.rows - down).min(LINES), (self.part.columns - across).min(LINES)],
                );
            }
        }
    }
}

/// Takes the sums back from C.
///
/// # Safety
/// The machine has `L`'s instructions; the place is valid for reads.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes>(place: &Place, sums: &mut Sums) {
    place.tiles(|tile, [down, across], [rows, columns]| {
        for row in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                let from = place.part.c.add((down + row) * place.part.stride + across);
                let line = if columns == LINES { L::load(from) } else { L::load_first(from, columns) };
                line.store(sums.0[tile][row].as_mut_ptr());
            }
        }
    });
}

/// Gives the sums to C, and does what follows.
///
/// # Safety
/// The machine has `L`'s instructions; the place is valid for writes, and what `finish` and `then` point at, for its rows and
/// columns, for reads.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(place: &Place, finish: &Finish, then: Then, sums: &Sums) {
    place.tiles(|tile, [down, across], [rows, columns]| {
        // SAFETY: the caller's promise; `down` and `across` stay within the place.
        unsafe {
            let of = |numbers: *const f32| L::load_first(numbers.add(across), columns);
            let put = |row: usize, line: L| {
                let to = place.part.c.add((down + row) * place.part.stride + across);
                if columns == LINES { line.store(to) } else { line.store_first(to, columns) }
            };
            let tile = &sums.0[tile];
            match *finish {
                Finish::Keep | Finish::Add { bias: None } => {
                    for (row, line) in tile[..rows].iter().enumerate() {
                        put(row, L::load(line.as_ptr()));
                    }
                }
                Finish::Add { bias: Some(bias) } => {
                    let bias = of(bias);
                    for (row, line) in tile[..rows].iter().enumerate() {
                        put(row, L::load(line.as_ptr()) + bias);
                    }
                }
                Finish::Scale { rows: scales, columns, bias } => {
                    // Adding -0 changes nothing, not even the sign of a zero.
                    let (scale, bias) = (of(columns), bias.map_or(L::splat(-0.0), of));
                    for (row, line) in tile[..rows].iter().enumerate() {
                        let factor = L::splat(*scales.add(down + row)) * scale;
                        put(row, numbers::<L>(line) * factor + bias);
                    }
                }
            }
        }
    });
    if !matches!(finish, Finish::Keep) {
        // SAFETY: the caller's promise.
        unsafe { then.run::<L>(&place.part) };
    }
}

/// Sixteen integers as numbers.
///
/// # Safety
/// The machine has `L`'s instructions.
#[inline(always)]
unsafe fn numbers<L: Lanes>(bits: &[f32; LINES]) -> L {
    let mut numbers = [0.0; LINES];
    for i in 0..LINES {
        numbers[i] = bits[i].to_bits().cast_signed() as f32;
    }
    // SAFETY: the caller's promise.
    unsafe { L::load(numbers.as_ptr()) }
}
