//! From a patch's sums to C, and back where k goes on.

use super::patch::{Shape, Sums};
use super::LINES;
use crate::lanes::Lanes;

/// The part of C that a patch is.
pub(super) struct Place {
    pub shape: Shape,
    pub rows: usize,
    pub columns: usize,
    pub c: *mut f32,
    pub stride: usize,
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
    /// For each line of sums that lies in C: its tile, its row and where it goes, with how many columns.
    #[inline(always)]
    fn lines(&self, mut each: impl FnMut(usize, usize, *mut f32, usize)) {
        for tile in 0..4 {
            let (down, across) = (tile / self.shape.across(), tile % self.shape.across());
            let columns = self.columns.saturating_sub(across * LINES).min(LINES);
            let rows = self.rows.saturating_sub(down * LINES).min(LINES);
            if columns > 0 {
                for row in 0..rows {
                    let at = (down * LINES + row) * self.stride + across * LINES;
                    each(tile, row, self.c.wrapping_add(at), columns);
                }
            }
        }
    }
}

/// # Safety
/// The machine has `L`'s instructions; the place is valid for reads.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes>(place: &Place, sums: &mut Sums) {
    place.lines(|tile, row, from, columns| {
        // SAFETY: the caller's promise.
        unsafe { L::load_first(from, columns).store(sums.0[tile][row].as_mut_ptr()) };
    });
}

/// # Safety
/// The machine has `L`'s instructions; the place is valid for writes, and what `finish` points at, for its rows and
/// columns, for reads.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(place: &Place, finish: &Finish, sums: &Sums) {
    place.lines(|tile, row, to, columns| {
        let (down, across) = (tile / place.shape.across(), tile % place.shape.across());
        let sum = &sums.0[tile][row];
        // SAFETY: the caller's promise; `across` and `down` stay within the place.
        unsafe {
            let of = |numbers: *const f32| L::load_first(numbers.add(across * LINES), columns);
            let (scaled, bias) = match *finish {
                Finish::Keep => (L::load(sum.as_ptr()), None),
                Finish::Add { bias } => (L::load(sum.as_ptr()), bias),
                Finish::Scale { rows, columns, bias } => {
                    let number = sum.map(|sum| sum.to_bits().cast_signed() as f32);
                    let scale = L::splat(*rows.add(down * LINES + row)) * of(columns);
                    (L::load(number.as_ptr()) * scale, bias)
                }
            };
            let result = bias.map_or(scaled, |bias| scaled + of(bias));
            if columns == LINES {
                result.store(to);
            } else {
                result.store_first(to, columns);
            }
        }
    });
}
