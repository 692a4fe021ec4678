//! The largest numbers of a row, found in one pass: sixty-four at a time, of which most hold none.

use crate::tuning::kernels::SEARCH_PREFETCH_DISTANCE;
use glassformer_graph::{Ask, Sum, offer};

use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes, exp, prefetch};

/// Numbers that are looked at together.
const BLOCK: usize = 4 * LANES;

/// How far a number may lie above the level that the sum is relative to: floats do not mind terms of a few thousand, and it is seldom raised.
const SLACK: f32 = 8.0;

/// Finds the largest numbers of `row`, as many as `found` has room for, and gives what is asked about the row as a whole.
///
/// # Safety
/// The machine has `isa`.
pub(crate) unsafe fn top_k(isa: Isa, ask: Ask, row: &[f32], found: &mut [(f32, u32)]) -> f64 {
    // SAFETY: the caller's promise.
    let (plain, sum) = unsafe {
        match ask.sum {
            Sum::Numbers => dispatch!(isa, |L| find::<L, false>(row, found)),
            Sum::LogExp => dispatch!(isa, |L| find::<L, true>(row, found)),
        }
    };
    if !plain && row.iter().any(|x| x.is_nan()) { f64::NAN } else { sum }
}

/// Says whether all numbers are finite, and gives log Σ exp of them if it `SUMS`: both in the pass that finds, since a row comes from far.
#[inline(always)]
unsafe fn find<L: Lanes, const SUMS: bool>(row: &[f32], found: &mut [(f32, u32)]) -> (bool, f64) {
    let (blocks, rest) = row.as_chunks::<BLOCK>();
    let (mut count, mut bound) = (0, f32::NEG_INFINITY);
    // SAFETY: the caller promises the instructions; a block has four vectors.
    unsafe {
        // Zero for finite numbers, NaN for all others.
        let mut odd = L::zero();
        let mut terms = Terms { level: f32::NEG_INFINITY, sums: [L::zero(); 4] };
        for (block, place) in blocks.iter().zip((0..).step_by(BLOCK)) {
            for v in 0..4 {
                prefetch(block.as_ptr().wrapping_add(SEARCH_PREFETCH_DISTANCE + v * LANES));
            }
            let x = [0, 1, 2, 3].map(|v| L::load(block.as_ptr().add(v * LANES)));
            for x in x {
                odd = x.fma(L::zero(), odd);
            }
            let most = x[0].max(x[1]).max(x[2].max(x[3])).largest();
            if SUMS {
                terms.add(most, x);
            }
            if most > bound || count < found.len() {
                for (&number, place) in block.iter().zip(place..) {
                    offer(found, &mut count, number, place);
                }
                bound = if count < found.len() { f32::NEG_INFINITY } else { found[count - 1].0 };
            }
        }
        for (&number, place) in rest.iter().zip((blocks.len() * BLOCK) as u32..) {
            offer(found, &mut count, number, place);
        }
        if SUMS {
            let mut last = [f32::NEG_INFINITY; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            let most = rest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            terms.add(most, [0, 1, 2, 3].map(|v| L::load(last.as_ptr().add(v * LANES))));
        }
        (odd.sum() == 0.0 && rest.iter().all(|x| x.is_finite()), if SUMS { terms.log() } else { 0.0 })
    }
}

/// Σ exp(x − level) in sixty-four lanes.
struct Terms<L> {
    /// −∞ before the first number that is not.
    level: f32,
    sums: [L; 4],
}

impl<L: Lanes> Terms<L> {
    /// Adds the terms of numbers of which this one is the largest.
    #[inline(always)]
    unsafe fn add(&mut self, most: f32, numbers: [L; 4]) {
        // SAFETY: the lanes prove the instructions.
        unsafe {
            if most > self.level + SLACK {
                let factor = exp(L::splat(self.level - most));
                self.sums = self.sums.map(|sum| sum * factor);
                self.level = most;
            }
            if self.level > f32::NEG_INFINITY {
                for (sum, x) in self.sums.iter_mut().zip(numbers) {
                    *sum = *sum + exp(x - L::splat(self.level));
                }
            }
        }
    }

    /// The logarithm of their sum.
    #[inline(always)]
    fn log(&self) -> f64 {
        let [a, b, c, d] = self.sums;
        f64::from(self.level) + f64::from(((a + b) + (c + d)).sum()).ln()
    }
}

#[cfg(test)]
mod tests {
    use glassformer_graph::Leaders;
    use glassformer_tensor::Random;

    use super::*;

    #[test]
    fn they_are_those_of_the_plain_search() {
        let mut random = Random::new(9);
        for width in [1, 5, 63, 64, 65, 300, 1000, 4099] {
            for most in [1, 3, 8, 70] {
                // Few different numbers, so that many are equal.
                let mut row: Vec<f32> = (0..width).map(|_| (random.normal() * 8.0).round() / 4.0).collect();
                if width > 100 {
                    row[77] = f32::NEG_INFINITY;
                }
                let ask = Ask { most, sum: Sum::LogExp };
                let mut expected = Leaders::default();
                expected.find(ask, &row, width);
                let mut found = vec![(f32::NEG_INFINITY, 0); expected.each];
                for isa in Isa::available() {
                    // SAFETY: `isa` is available.
                    let sum = unsafe { top_k(isa, ask, &row, &mut found) };
                    assert_eq!(found, expected.found, "{isa}, {most} of {width}");
                    assert!((sum - expected.sums[0]).abs() < 1e-5, "{isa}, {width}: {sum}");
                }
            }
        }
    }

    #[test]
    fn a_sum_follows_numbers_that_rise_and_is_nothing_where_none_is_finite() {
        for width in [1, 64, 70, 1000] {
            let rising: Vec<f32> = (0..width).map(|i| i as f32 * 0.75 - 300.0).collect();
            let largest = f64::from(rising[width - 1]);
            let terms = rising.iter().map(|&x| (f64::from(x) - largest).exp());
            let expected = largest + terms.sum::<f64>().ln();
            for isa in Isa::available() {
                let ask = Ask { most: 1, sum: Sum::LogExp };
                // SAFETY: `isa` is available.
                let [sum, none] = [rising.clone(), vec![f32::NEG_INFINITY; width]]
                    .map(|row| unsafe { top_k(isa, ask, &row, &mut [(0.0, 0)]) });
                assert!((sum - expected).abs() < 1e-5, "{isa}, {width}: {sum} instead of {expected}");
                assert_eq!(none, f64::NEG_INFINITY, "{isa}, {width}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_told() {
        for place in [0, 70, 129] {
            let mut row = vec![0.5; 130];
            row[place] = f32::NAN;
            for (isa, sum) in
                Isa::available().into_iter().flat_map(|isa| [(isa, Sum::Numbers), (isa, Sum::LogExp)])
            {
                // SAFETY: `isa` is available.
                let sum = unsafe { top_k(isa, Ask { most: 2, sum }, &row, &mut [(0.0, 0); 2]) };
                assert!(sum.is_nan(), "{isa}, {place}");
            }
        }
    }
}
