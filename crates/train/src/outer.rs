//! Losses that look at several rows at once: where in a text an answer begins and ends, and which of many texts belong together.

use glassformer_graph::ops::{Correct, CrossEntropy, PairLoss, SpanLoss, SumRows, What};
use glassformer_graph::{Builder, Graph, Packed, Side, Value};

use crate::Error;

/// A loss over several rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OuterLoss {
    /// Scores `[rows, 2]`: the cross entropy over the rows of a sequence of where the answer begins, and of where it ends; the
    /// mean of both. The batch's labels are the two places of each sequence.
    Spans,
    /// Rows `[sequences, width]`, of which the first belongs to the second, the third to the fourth, and so on: the cross
    /// entropy over all second ones of `scale` times the cosine (Henderson et al. 2017).
    Pairs {
        /// What cosines are multiplied by.
        scale: f32,
    },
}

impl OuterLoss {
    /// How many examples `packed` has.
    pub fn examples(self, packed: &Packed) -> usize {
        match self {
            Self::Spans => packed.spans.len(),
            Self::Pairs { .. } => packed.spans.len() / 2,
        }
    }

    /// Lets the loss of each example count as much as the first weight of `packed` says, or all together once.
    pub(crate) fn weigh(self, packed: &mut Packed) {
        let count = self.examples(packed);
        let each = packed.weights.first().copied().unwrap_or(1.0 / count.max(1) as f32);
        packed.weights.clear();
        packed.weights.resize(count, each);
    }
}

/// What is learned: the output of the forward pass that the loss looks at, and the loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub side: Side,
    pub smoothing: f32,
    pub outer: Option<OuterLoss>,
}

impl Loss {
    /// Appends the loss of `forward`, as its output `loss`.
    pub fn append(self, forward: Graph) -> Result<Graph, Error> {
        let (mut build, scores) = self.extend(forward)?;
        let Self { side, smoothing, outer } = self;
        let losses = match outer {
            None => build.add("losses", CrossEntropy { side, smoothing }, &[scores]),
            Some(OuterLoss::Spans) => build.add("losses", SpanLoss { side }, &[scores]),
            Some(OuterLoss::Pairs { scale }) => build.add("losses", PairLoss { side, scale }, &[scores]),
        }?;
        let loss = build.add("loss", SumRows, &[losses])?;
        build.output("loss", loss);
        Ok(build.finish())
    }

    /// Appends how many examples are right, as the output `correct`.
    pub fn count(self, forward: Graph) -> Result<Graph, Error> {
        let (mut build, scores) = self.extend(forward)?;
        let what = match self.outer {
            None => What::Rows,
            Some(OuterLoss::Spans) => What::Spans,
            Some(OuterLoss::Pairs { .. }) => What::Pairs,
        };
        let right = build.add("right", Correct { side: self.side, what }, &[scores])?;
        let correct = build.add("correct", SumRows, &[right])?;
        build.output("correct", correct);
        Ok(build.finish())
    }

    fn extend(self, forward: Graph) -> Result<(Builder, Value), Error> {
        let name = if let Some(OuterLoss::Pairs { .. }) = self.outer { "pooled" } else { "logits" };
        let output = forward.output(name).ok_or(Error::NoHead)?;
        let scores = forward.outputs()[output].1;
        Ok((Builder::extend(forward), scores))
    }
}
