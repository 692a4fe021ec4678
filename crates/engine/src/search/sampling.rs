//! Drawing. A draw depends on the seed, the sequence and the place alone, so a text does not depend on what else is under way,
//! nor on whether it was begun twice.

use glassformer_tensor::Random;

use crate::processors::Scratch;
use crate::processors::softmax::probabilities;

/// A number in [0, 1) for the place `place` of sequence `sequence`.
fn uniform(seed: u64, sequence: usize, place: usize) -> f64 {
    let key = seed.wrapping_add((sequence as u64).wrapping_mul(0x9FB2_1C65_1E98_DF25));
    let [high, low] = [0, 1].map(|half| f64::from(Random::at(key, 2 * place as u64 + half)));
    high + low / f64::from(1 << 24)
}

/// Draws one of the tokens `scratch.alive` by their scores in `row`; nothing where there is none.
pub(super) fn draw(
    row: &[f32],
    scratch: &mut Scratch,
    (seed, sequence, place): (u64, usize, usize),
) -> Option<u32> {
    let Scratch { alive, numbers, .. } = scratch;
    probabilities(row, alive, numbers);
    let total: f64 = numbers.iter().map(|&p| f64::from(p)).sum();
    let mut left = uniform(seed, sequence, place) * total;
    let mut passed = |&p: &f32| {
        left -= f64::from(p);
        left >= 0.0
    };
    let at = numbers.iter().take_while(|p| passed(p)).count();
    // Rounding may pass the last one by.
    let likely = || numbers.iter().rposition(|&p| p > 0.0);
    alive.get(if at < alive.len() { at } else { likely()? }).copied()
}

/// Noise that makes the largest sums draws without replacement (Gumbel; Kool et al. 2019).
pub(super) fn gumbel(seed: u64, beam: usize, place: u64) -> f32 {
    let key = seed.wrapping_add((beam as u64).wrapping_mul(0x9FB2_1C65_1E98_DF25)) ^ 0xBEA3;
    let u = f64::from(Random::at(key, place)) + 1e-9;
    -(-u.ln()).ln() as f32
}
