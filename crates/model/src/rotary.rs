//! How fast each pair of a rotary position turns, for every way of stretching it to longer texts.

use std::f64::consts::TAU;

use glassformer_formula::{Rotary, Scaling};
use glassformer_graph::ops::Turns;

/// The turns of `turning` numbers a head, and what rotated numbers are multiplied by.
pub(crate) fn turns(rotary: &Rotary, turning: usize) -> (Turns, f32) {
    let pairs = turning / 2;
    let plain = |i: usize| rotary.base.powf(-2.0 * i as f64 / turning as f64);
    let list = |turn: &dyn Fn(usize) -> f64| (0..pairs).map(|i| turn(i) as f32).collect::<Vec<f32>>();
    match &rotary.scaling {
        Scaling::None => (Turns::Fixed(list(&plain)), 1.0),
        Scaling::Linear { factor } => (Turns::Fixed(list(&|i| plain(i) / factor)), 1.0),
        Scaling::Dynamic { factor, original } => {
            (Turns::Dynamic { base: rotary.base, factor: *factor, original: *original }, 1.0)
        }
        Scaling::Yarn { factor, original, fast, slow, magnitude, whole } => {
            let ends = yarn_ends(rotary.base, turning, *original, (*fast, *slow));
            let ends = if *whole { (ends.0.floor(), ends.1.ceil()) } else { ends };
            let kept = yarn_ramp(turning, ends);
            let turn = |i: usize| plain(i) * (kept(i) + (1.0 - kept(i)) / factor);
            let magnitude =
                magnitude.unwrap_or_else(|| if *factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 });
            (Turns::Fixed(list(&turn)), magnitude as f32)
        }
        Scaling::Llama3 { factor, low, high, original } => {
            let turn = |i: usize| {
                let turns = *original as f64 * plain(i) / TAU; // over the length trained on
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                plain(i) * (kept + (1.0 - kept) / factor)
            };
            (Turns::Fixed(list(&turn)), 1.0)
        }
        Scaling::Long { short, long, original, magnitude } => {
            let divided = |by: &[f64]| list(&|i| plain(i) / by[i]);
            (
                Turns::Long { short: divided(short), long: divided(long), original: *original },
                *magnitude as f32,
            )
        }
    }
}

/// The pairs that have `fast` and `slow` turns over `original` positions, as fractions.
fn yarn_ends(base: f64, turning: usize, original: usize, (fast, slow): (f64, f64)) -> (f64, f64) {
    let pair_with = |turns: f64| turning as f64 * (original as f64 / (turns * TAU)).ln() / (2.0 * base.ln());
    (pair_with(fast), pair_with(slow))
}

/// How much of each pair's turn is kept: 1 up to the first end, 0 from the second on, linear in the pair's number between.
fn yarn_ramp(turning: usize, (low, high): (f64, f64)) -> impl Fn(usize) -> f64 {
    let (low, high) = (low.max(0.0), high.min(turning as f64 - 1.0));
    let high = if high == low { low + 0.001 } else { high };
    move |i| 1.0 - ((i as f64 - low) / (high - low)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use glassformer_formula::Pairing;
    use glassformer_tensor::{Tolerance, compare};

    use super::*;

    fn fixed(scaling: Scaling) -> (Vec<f32>, f32) {
        let rotary = Rotary { base: 10_000.0, size: None, layout: Pairing::Halves, scaling };
        match turns(&rotary, 8) {
            (Turns::Fixed(list), magnitude) => (list, magnitude),
            other => panic!("not fixed: {other:?}"),
        }
    }

    /// What `ROPE_INIT_FUNCTIONS` of transformers 5 gives for a head of 8 and base 10 000, to a unit in the last place.
    #[test]
    fn scalings_agree_with_the_reference_implementation() {
        let close = |scaling: Scaling, expected: [f32; 4]| {
            let (found, magnitude) = fixed(scaling);
            compare(&found, &expected, Tolerance { absolute: 0.0, relative: 2e-7 }).expect("the same turns");
            magnitude
        };
        close(Scaling::None, [1.0, 0.1, 0.01, 0.001]);
        close(Scaling::Linear { factor: 4.0 }, [0.25, 0.025, 0.0025, 0.00025]);
        let llama3 = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192 };
        close(llama3, [1.0, 0.1, 0.01, 0.000_213_607_58]);
        let yarn = Scaling::Yarn {
            factor: 4.0,
            original: 2048,
            fast: 32.0,
            slow: 1.0,
            magnitude: None,
            whole: true,
        };
        let magnitude = close(yarn, [1.0, 0.1, 0.00625, 0.00025]);
        assert!((magnitude - 1.138_629_4).abs() < 1e-6);
    }
}
