//! The gradient's work number by number: probabilities from scores, gradients of scores from those of probabilities.

use super::mask::TILE;
use super::online_softmax::term;
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes};

/// Some queries and a tile.
pub(super) struct SoftmaxGrad<'a> {
    /// In: scores, `[rows, 64]`. Out: probabilities.
    pub p: &'a mut [f32],
    /// In: gradients of probabilities. Out: gradients of scores, times the scale.
    pub ds: &'a mut [f32],
    /// What each row sees.
    pub seen: &'a [u64],
    /// The logarithm of each row's sum.
    pub logs: &'a [f32],
    /// dy · y of each row.
    pub means: &'a [f32],
    pub scale: f32,
}

impl SoftmaxGrad<'_> {
    /// Runs; and adds the gradients of scores, not scaled, to slots where they are given: those of the first row from
    /// the given slot on, each further row from one slot less.
    ///
    /// # Safety
    /// `isa` is available.
    pub unsafe fn run(self, isa: Isa, slots: Option<(&mut [f32], usize)>) {
        debug_assert!(self.p.len() == self.seen.len() * TILE && self.ds.len() == self.p.len());
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.on::<L>(slots)) }
    }

    #[inline(always)]
    unsafe fn on<L: Lanes>(self, mut slots: Option<(&mut [f32], usize)>) {
        let rows = self.p.chunks_exact_mut(TILE).zip(self.ds.chunks_exact_mut(TILE));
        for (r, (p, ds)) in rows.enumerate() {
            if self.seen[r] == 0 {
                // Its logarithm may be −∞.
                p.fill(0.0);
                ds.fill(0.0);
                continue;
            }
            let mut slot_sums = slots.as_mut().map(|(slots, first)| &mut slots[*first - r..][..TILE]);
            // SAFETY: the caller promises the instructions; a row is four whole vectors.
            unsafe {
                let (log, mean, scale) =
                    (L::splat(self.logs[r]), L::splat(self.means[r]), L::splat(self.scale));
                for at in (0..TILE).step_by(LANES) {
                    let (p, ds) = (p.as_mut_ptr().add(at), ds.as_mut_ptr().add(at));
                    let probability = term(L::load(p) - log);
                    // A key that is not seen may have any value.
                    let gradient = probability * (L::load(ds) - mean);
                    let gradient = L::select(L::zero().less_than(probability), gradient, L::zero());
                    probability.store(p);
                    (gradient * scale).store(ds);
                    if let Some(slot_sums) = &mut slot_sums {
                        let sum = slot_sums.as_mut_ptr().add(at);
                        (L::load(sum) + gradient).store(sum);
                    }
                }
            }
        }
    }
}

/// The dot products of rows `stride` apart: lanes run along the row, in [`Lanes::sum`]'s order.
///
/// # Safety
/// `isa` is available; both hold as many rows as `out`, of `size` numbers.
pub(super) unsafe fn dot_rows(
    isa: Isa,
    a: *const f32,
    b: *const f32,
    stride: usize,
    size: usize,
    out: &mut [f32],
) {
    #[inline(always)]
    unsafe fn on<L: Lanes>(a: *const f32, b: *const f32, size: usize) -> f32 {
        // SAFETY: the caller's promise; the tail touches `size − d < 16` numbers.
        unsafe {
            let mut sum = L::zero();
            for d in (0..size).step_by(LANES) {
                let n = (size - d).min(LANES);
                sum = L::load_first(a.add(d), n).fma(L::load_first(b.add(d), n), sum);
            }
            sum.sum()
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        dispatch!(isa, |L| {
            for (r, out) in out.iter_mut().enumerate() {
                *out = on::<L>(a.add(r * stride), b.add(r * stride), size);
            }
        });
    }
}
