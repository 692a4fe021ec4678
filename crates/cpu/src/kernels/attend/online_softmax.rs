//! The online softmax: what a tile of scores does to the sums of its rows (Milakov and Gimelshein 2018).
//!
//! A row keeps a level near its largest score, and sums relative to it. A tile may raise the level, which shrinks what was
//! summed before; then its own terms are added. A tile of which a row sees nothing leaves the row as it was.
//!
//! The level follows the largest score only when that has run ahead by [`SLACK`]: floats do not mind terms of a few
//! thousand, and sums seldom have to be shrunk. Following it at once would cost a tenth of attention.

use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::mask::{TILE, vectors};
use super::tile::VECTORS;
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes, exp, ln, polynomial};

/// How far a score may lie above the level.
pub(super) const SLACK: f32 = 8.0;

/// Terms below e^−80 are zero. Beside the largest, which is at least one, they could change no bit of a sum; and an
/// exponential of −∞, or a product with a term that small, would take the processor's slow way for subnormal numbers:
/// without this, a tile of twenty keys took longer than a whole one.
pub(super) const LEAST: f32 = -80.0;

/// 2ᶠ within 8e-5, for |f| ≤ ½: Σ `POWER[i]` · fⁱ.
pub(super) const POWER: [f32; 4] = [0.999_928_06, 0.693_260_97, 0.242_611_14, 0.055_171_67];

/// eˣ as a term of a softmax.
#[inline(always)]
pub(super) fn term<L: Lanes>(x: L) -> L {
    let least = x.constant(LEAST);
    L::select(x.less_than(least), x.constant(0.0), exp(least.max(x)))
}

/// The same within 8e-5, from x · log₂e: enough beside `bf16`, and half the work.
#[inline(always)]
fn approximate_term<L: Lanes>(t: L) -> L {
    let least = t.constant(LEAST * LOG2_E);
    let bounded = least.max(t);
    let n = bounded.round();
    L::select(t.less_than(least), t.constant(0.0), polynomial(bounded - n, POWER).scale_by_power(n))
}

/// exp(score − level) as a term, exact or approximate.
#[inline(always)]
unsafe fn term_of<L: Lanes, const APPROXIMATE: bool>(score: L, level: f32) -> L {
    if APPROXIMATE {
        approximate_term(score.fma(score.constant(LOG2_E), score.constant(-level * LOG2_E)))
    } else {
        term(score - score.constant(level))
    }
}

/// Some rows: their scores with one tile, and their sums.
pub(super) struct OnlineSoftmax<'a> {
    /// In: scores, `[rows, 64]`. Out: exp(score − level), where something is seen.
    pub scores: &'a mut [f32],
    /// What each row sees. Cleared where that is −∞ and no more.
    pub seen: &'a mut [u64],
    /// The level of each row; −∞ before the first score.
    pub levels: &'a mut [f32],
    /// Σ exp(score − level) of each row so far, in sixteen lanes, `[rows, 16]`.
    pub sums: &'a mut [f32],
    /// The mixtures of each row so far, `[rows, stride]` with a stride of whole vectors.
    pub mixed: &'a mut [f32],
    pub stride: usize,
    /// Whether terms within 8e-5 will do.
    pub is_approximate: bool,
}

impl OnlineSoftmax<'_> {
    /// Takes the tile in.
    ///
    /// # Safety
    /// `isa` is available.
    pub unsafe fn run(&mut self, isa: Isa) {
        debug_assert!(self.scores.len() == self.seen.len() * TILE);
        debug_assert!(self.sums.len() == self.seen.len() * LANES && self.stride.is_multiple_of(LANES));
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.on::<L>()) }
    }

    #[inline(always)]
    unsafe fn on<L: Lanes>(&mut self) {
        // A vector of which no row sees anything is left alone: its terms are not read, and would add zeros.
        let seen = vectors(self.seen);
        // Most see all, whose number the compiler knows then.
        // SAFETY: the caller promises the instructions.
        unsafe {
            match (seen.len() == VECTORS, self.is_approximate) {
                (true, true) => self.over::<L, true>(0..VECTORS),
                (true, false) => self.over::<L, false>(0..VECTORS),
                (false, true) => self.over::<L, true>(seen),
                (false, false) => self.over::<L, false>(seen),
            }
        }
    }

    #[inline(always)]
    unsafe fn over<L: Lanes, const APPROXIMATE: bool>(&mut self, vectors: Range<usize>) {
        // SAFETY: the caller promises the instructions; rows have these vectors, and sums are whole ones.
        unsafe {
            self.follow::<L>(&vectors);
            let sums = self.sums.chunks_exact_mut(LANES);
            for (r, (row, sums)) in self.scores.chunks_exact_mut(TILE).zip(sums).enumerate() {
                if self.seen[r] == 0 {
                    continue;
                }
                if self.levels[r] == f32::NEG_INFINITY {
                    if row.iter().all(|score| !score.is_nan()) {
                        self.seen[r] = 0;
                        continue;
                    }
                    // What is no number is not larger than anything either, and has to show.
                    self.levels[r] = 0.0;
                }
                let (level, mut sum) = (self.levels[r], L::load(sums.as_ptr()));
                for v in vectors.clone() {
                    let at = row.as_mut_ptr().add(v * LANES);
                    let p = term_of::<L, APPROXIMATE>(L::load(at), level);
                    p.store(at);
                    sum = sum + p;
                }
                sum.store(sums.as_mut_ptr());
            }
        }
    }

    /// Raises levels, if any score of any row is ahead: one answer for all rows, since it is nearly always no.
    #[inline(always)]
    unsafe fn follow<L: Lanes>(&mut self, vectors: &Range<usize>) {
        // SAFETY: the caller promises the instructions; rows have these vectors.
        unsafe {
            let mut ahead = L::splat(-1.0);
            for (row, &level) in self.scores.chunks_exact(TILE).zip(&*self.levels) {
                ahead = (largest::<L>(row, vectors) - L::splat(level + SLACK)).max(ahead);
            }
            if ahead.largest() > 0.0 {
                self.raise::<L>(vectors);
            }
        }
    }

    /// Raises the levels of those rows whose scores are ahead, and shrinks what they have summed.
    #[inline(always)]
    unsafe fn raise<L: Lanes>(&mut self, vectors: &Range<usize>) {
        for r in 0..self.seen.len() {
            // SAFETY: the caller promises the instructions; a row has these vectors.
            let largest = unsafe { largest::<L>(&self.scores[r * TILE..][..TILE], vectors).largest() };
            let level = self.levels[r];
            if largest - (level + SLACK) > 0.0 {
                self.levels[r] = largest;
                let sums = &mut self.sums[r * LANES..][..LANES];
                let mixed = &mut self.mixed[r * self.stride..][..self.stride];
                if level != f32::NEG_INFINITY {
                    // SAFETY: the caller promises the instructions; both are whole vectors.
                    unsafe {
                        let factor = exp(L::splat(level - largest));
                        for vector in sums.chunks_exact_mut(LANES).chain(mixed.chunks_exact_mut(LANES)) {
                            (L::load(vector.as_ptr()) * factor).store(vector.as_mut_ptr());
                        }
                    }
                }
            }
        }
    }
}

/// The largest scores of a row, lane by lane.
#[inline(always)]
unsafe fn largest<L: Lanes>(row: &[f32], vectors: &Range<usize>) -> L {
    // SAFETY: the caller promises the instructions and these vectors.
    unsafe {
        let mut largest = L::splat(f32::NEG_INFINITY);
        for v in vectors.clone() {
            largest = largest.max(L::load(row.as_ptr().add(v * LANES)));
        }
        largest
    }
}

/// Mixtures on their way out.
pub(super) struct Quotients<'a> {
    /// `[rows, stride]`, whole vectors.
    pub mixed: &'a [f32],
    pub stride: usize,
    /// What each row is divided by. Where it is zero, so is the result.
    pub totals: &'a [f32],
    /// Numbers of a row.
    pub size: usize,
    /// Whether approximate quotients will do.
    pub is_approximate: bool,
}

impl Quotients<'_> {
    /// Writes all rows, `rows` of them for each head: a row is `width` numbers behind the one before, a head `size`.
    ///
    /// A zero is +0: the sign of a zero is the only thing that may depend on which keys a row shares its tiles with.
    ///
    /// # Safety
    /// `isa` is available; `out` is valid for these writes.
    pub unsafe fn write(&self, isa: Isa, rows: usize, out: *mut f32, width: usize) {
        debug_assert!(self.mixed.len() >= self.totals.len() * self.stride && self.size <= self.stride);
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.on::<L>(rows, out, width)) }
    }

    #[inline(always)]
    unsafe fn on<L: Lanes>(&self, rows: usize, out: *mut f32, width: usize) {
        for (r, &total) in self.totals.iter().enumerate() {
            // SAFETY: the caller's promise; no more of a row is written than there is.
            unsafe {
                let to = out.add(r % rows * width + r / rows * self.size);
                let from = self.mixed.as_ptr().add(r * self.stride);
                let (divisor, factor, zero) = (L::splat(total), L::splat(1.0 / total), L::zero());
                for at in (0..self.size).step_by(LANES) {
                    let number = L::load(from.add(at));
                    let number = match (total == 0.0, self.is_approximate) {
                        (true, _) => zero,
                        (false, true) => number * factor + zero,
                        (false, false) => number / divisor + zero,
                    };
                    if at + LANES <= self.size {
                        number.store(to.add(at));
                    } else {
                        number.store_first(to.add(at), self.size - at);
                    }
                }
            }
        }
    }
}

/// The sixteen lanes of each row's sum, added: `totals[r]`.
///
/// # Safety
/// `isa` is available.
pub(super) unsafe fn total(isa: Isa, sums: &[f32], totals: &mut [f32]) {
    #[inline(always)]
    unsafe fn on<L: Lanes>(sums: &[f32], totals: &mut [f32]) {
        for (sums, total) in sums.chunks_exact(LANES).zip(totals) {
            // SAFETY: the caller promises the instructions.
            *total = unsafe { L::load(sums.as_ptr()).sum() };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch!(isa, on(sums, totals)) }
}

/// `levels[r] + ln(totals[r])` in place of the totals.
///
/// # Safety
/// `isa` is available.
pub(super) unsafe fn log(isa: Isa, levels: &[f32], totals: &mut [f32]) {
    #[inline(always)]
    unsafe fn on<L: Lanes>(levels: &[f32], totals: &mut [f32]) {
        for (levels, totals) in levels.chunks(LANES).zip(totals.chunks_mut(LANES)) {
            let n = totals.len();
            // SAFETY: the caller's promise; both have `n` numbers.
            unsafe {
                let result = L::load_first(levels.as_ptr(), n) + ln(L::load_first(totals.as_ptr(), n));
                result.store_first(totals.as_mut_ptr(), n);
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { dispatch!(isa, on(levels, totals)) }
}

/// exp(score − level) / total, in place, by the same terms.
///
/// # Safety
/// `isa` is available; there are whole vectors of scores.
pub(super) unsafe fn probabilities(
    isa: Isa,
    scores: &mut [f32],
    level: f32,
    total: f32,
    is_approximate: bool,
) {
    #[inline(always)]
    unsafe fn on<L: Lanes, const APPROXIMATE: bool>(scores: &mut [f32], level: f32, total: f32) {
        for vector in scores.chunks_exact_mut(LANES) {
            // SAFETY: the caller's promise.
            unsafe {
                let term = term_of::<L, APPROXIMATE>(L::load(vector.as_ptr()), level);
                (term / L::splat(total)).store(vector.as_mut_ptr());
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if is_approximate {
            dispatch!(isa, |L| on::<L, true>(scores, level, total));
        } else {
            dispatch!(isa, |L| on::<L, false>(scores, level, total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximate_terms_are_within_their_bound_and_zero_where_exact_ones_are() {
        let level = 3.25;
        let scores: Vec<f32> = (0..4096).map(|i| level + SLACK - 90.0 * i as f32 / 4096.0).collect();
        for isa in Isa::available() {
            let [exact, approximate] = [false, true].map(|is_approximate| {
                let mut terms = scores.clone();
                // SAFETY: it is available.
                unsafe { probabilities(isa, &mut terms, level, 1.0, is_approximate) };
                terms
            });
            for ((x, y), score) in exact.iter().zip(&approximate).zip(&scores) {
                assert!((x - y).abs() <= 8.5e-5 * x, "{isa}: exp({score} - {level}) is {x}, not {y}");
            }
            let mut odd = [f32::NEG_INFINITY, f32::NAN, 0.0, 0.0].repeat(LANES / 4);
            // SAFETY: as above.
            unsafe { probabilities(isa, &mut odd, 0.0, 1.0, true) };
            assert!(odd[0] == 0.0 && odd[1].is_nan() && (odd[2] - 1.0).abs() < 8.5e-5, "{isa}: {odd:?}");
        }
    }
}
