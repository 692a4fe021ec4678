//! How good answers are, in the numbers that papers use, equal to those of the usual programs: [`bleu`] and [`chrf`]
//! (sacreBLEU), [`entities`] (seqeval), [`spans`] (SQuAD), [`accuracy`] and [`perplexity`].
//!
//! Everything here compares texts or labels. Nothing knows a model.
#![forbid(unsafe_code)]

mod bleu;
mod chrf;
mod entities;
mod spans;
mod words;

use std::collections::HashMap;
use std::hash::Hash;

pub use bleu::{Bleu, bleu};
pub use chrf::chrf;
pub use entities::{Scores, entities};
pub use spans::{Matches, normalise, spans};
pub use words::Words;

/// The share of answers that are right; 0 of none.
pub fn accuracy<T: PartialEq>(answers: &[T], right: &[T]) -> f64 {
    let count = answers.len().max(right.len());
    let same = answers.iter().zip(right).filter(|(answer, right)| answer == right).count();
    if count == 0 { 0.0 } else { same as f64 / count as f64 }
}

/// `exp(−Σ ln p / tokens)`: of how many equally likely tokens the model chooses, so to say.
pub fn perplexity(log_probability: f64, tokens: usize) -> f64 {
    if tokens == 0 { f64::NAN } else { (-log_probability / tokens as f64).exp() }
}

/// How often each item comes.
fn counts<T: Eq + Hash>(items: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accuracy_counts_missing_answers_as_wrong() {
        assert_eq!(accuracy(&["a", "b"], &["a", "b", "c", "d"]), 0.5);
        assert_eq!(accuracy::<u8>(&[], &[]), 0.0);
    }

    #[test]
    fn perplexity_of_a_fair_die_is_six() {
        assert!((perplexity(4.0 * (1.0_f64 / 6.0).ln(), 4) - 6.0).abs() < 1e-12);
        assert!(perplexity(0.0, 0).is_nan());
    }
}
