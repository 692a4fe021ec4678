//! The largest numbers of a row, found in one pass: sixty-four at a time, of which most hold none.
#![allow(clippy::inline_always)] // see the rules in `lanes`

use glassformer_graph::{Ask, Sum, offer};

use super::row::{Sums, load, sums};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes, exp, prefetch};

/// Numbers that are looked at together.
const BLOCK: usize = 4 * LANES;
/// How far ahead numbers are asked for: two pages, where a machine by itself looks no farther than to the end of one.
const AHEAD: usize = 2048;

/// Finds the largest numbers of `row`, as many as `found` has room for, and gives what is asked about the row as a whole.
///
/// # Safety
/// The machine has `isa`.
pub(crate) unsafe fn leaders(isa: Isa, ask: Ask, row: &[f32], found: &mut [(f32, u32)]) -> f64 {
    // SAFETY: the caller's promise.
    let plain = unsafe { dispatch!(isa, find(row, found)) };
    if !plain && row.iter().any(|x| x.is_nan()) {
        return f64::NAN;
    }
    match ask.sum {
        Sum::Numbers => 0.0,
        Sum::LogExp => {
            let most = found.first().map_or(f32::NEG_INFINITY, |first| first.0);
            if most == f32::NEG_INFINITY {
                return f64::NEG_INFINITY;
            }
            let terms = Exponentials { row: row.as_ptr(), most };
            // SAFETY: the caller's promise; the terms are those of the row.
            let [sum] = unsafe { dispatch!(isa, |L| sums::<L, 1>(&terms, row.len())) };
            f64::from(most) + f64::from(sum).ln()
        }
    }
}

/// Says whether all numbers are finite.
#[inline(always)]
unsafe fn find<L: Lanes>(row: &[f32], found: &mut [(f32, u32)]) -> bool {
    let (blocks, rest) = row.as_chunks::<BLOCK>();
    let (mut count, mut bound) = (0, f32::NEG_INFINITY);
    // SAFETY: the caller promises the instructions; a block has four vectors.
    unsafe {
        // Zero for finite numbers, NaN for all others.
        let mut odd = L::zero();
        for (block, place) in blocks.iter().zip((0..).step_by(BLOCK)) {
            for v in 0..4 {
                prefetch(block.as_ptr().wrapping_add(AHEAD + v * LANES));
            }
            let x = [0, 1, 2, 3].map(|v| L::load(block.as_ptr().add(v * LANES)));
            for x in x {
                odd = x.fma(L::zero(), odd);
            }
            let most = x[0].max(x[1]).max(x[2].max(x[3])).largest();
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
        odd.sum() == 0.0 && rest.iter().all(|x| x.is_finite())
    }
}

/// exp(x − most) over a row.
struct Exponentials {
    row: *const f32,
    most: f32,
}

impl Sums<1> for Exponentials {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum]: [L; 1]) -> [L; 1] {
        // SAFETY: the caller's promise.
        unsafe {
            if some == LANES {
                return [sum + exp(L::load(self.row.add(at)) - L::splat(self.most))];
            }
            let mut terms = [0.0; LANES];
            exp(load::<L>(self.row.add(at), some) - L::splat(self.most))
                .store_first(terms.as_mut_ptr(), some);
            [sum + L::load(terms.as_ptr())]
        }
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
                    let sum = unsafe { leaders(isa, ask, &row, &mut found) };
                    assert_eq!(found, expected.found, "{isa}, {most} of {width}");
                    assert!((sum - expected.sums[0]).abs() < 1e-5, "{isa}, {width}: {sum}");
                }
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
                let sum = unsafe { leaders(isa, Ask { most: 2, sum }, &row, &mut [(0.0, 0); 2]) };
                assert!(sum.is_nan(), "{isa}, {place}");
            }
        }
    }
}
