//! What edits changed: the same places of two runs, side by side.

use glassformer_tensor::Tensor;
use serde::Serialize;

use super::focus::no_head;
use super::lens::{Cell, Looked, Scores, cell};
use crate::trace::PROBABILITIES;
use crate::{Error, Likely, Trace};

/// A place of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    /// The row of scores.
    pub row: usize,
    /// What could be chosen before.
    pub before: Cell,
    /// What could be chosen after.
    pub after: Cell,
    /// How far the probabilities moved: the Kullback–Leibler divergence of the ones after from those before, in bits, where they
    /// sum to one.
    pub divergence: Option<f64>,
}

/// What edits changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Whether every score has the bits that it had.
    pub same_bits: bool,
    /// The largest difference between scores.
    pub largest: f64,
    /// Place by place.
    pub places: Vec<Changed>,
}

/// What is other in `after` than in `before` at `places`, with the `most` largest scores of each.
///
/// # Errors
/// If the model has no head that scores.
pub fn effect(before: &Trace, after: &Trace, places: &[Looked], most: usize) -> Result<Effect, Error> {
    let (old, new) = (scores(before)?, scores(after)?);
    let width = old.logits.matrix().1;
    let sums = before.scores_mean() == Likely::Softmax;
    let row = |tensor: &Tensor, row: usize| tensor.data()[row * width..(row + 1) * width].to_vec();
    let changed = |looked: &Looked| {
        let (p, q) = (row(&old.probabilities, looked.row), row(&new.probabilities, looked.row));
        let divergence = p
            .iter()
            .zip(&q)
            .map(|(&p, &q)| (f64::from(p), f64::from(q)))
            .filter(|(p, _)| *p > 0.0)
            .map(|(p, q)| p * (p / q.max(f64::MIN_POSITIVE)).log2())
            .sum::<f64>();
        Changed {
            row: looked.row,
            before: cell(&old, looked.row, looked.wanted, (most, sums)),
            after: cell(&new, looked.row, looked.wanted, (most, sums)),
            divergence: sums.then_some(divergence.max(0.0)),
        }
    };
    let pairs = || old.logits.data().iter().zip(new.logits.data());
    let rows = old.logits.matrix().0;
    Ok(Effect {
        same_bits: pairs().all(|(a, b)| a.to_bits() == b.to_bits()),
        largest: pairs().map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs()).fold(0.0, f64::max),
        places: places.iter().filter(|looked| looked.row < rows).map(changed).collect(),
    })
}

fn scores(trace: &Trace) -> Result<Scores, Error> {
    let logits = trace.read("logits").map_err(|_| no_head())?.clone();
    let probabilities = match trace.scores_mean() {
        Likely::Scores => logits.clone(),
        Likely::Softmax | Likely::Sigmoid => trace.read(PROBABILITIES)?.clone(),
    };
    Ok(Scores { logits, probabilities })
}
