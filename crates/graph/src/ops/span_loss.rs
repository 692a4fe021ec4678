//! Where in a text an answer begins and ends: cross entropy over the rows of a sequence.

use super::{Gradient, Operation, Site, SpanLossGrad, arity};
use crate::{Array, At, Builder, Case, Error, Labels, Limits, Rows, Sample, Shape, Side, Tally, World};

/// For each sequence s: `y = w[s]/2 Σₑ (ln Σᵢ exp x[i, e] − x[labelₑ, e])`, over its rows i and both ends e, with the weights of the
/// batch and its labels, two places of each sequence. Input: scores `[tokens, 2]`, or of picked rows that are all. Output: `[sequences, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLoss {
    /// Whose rows.
    pub side: Side,
}

/// A batch for operations over the places of answers.
pub(crate) const ANSWERS: Sample =
    Sample { source: &[5, 3, 9], target: &[4, 2, 5], memory: &[], unpooled: &[], ids: 2 };

/// Demands scores of both ends for every row of `side`, whether a head was asked about all of them or had no choice.
pub(super) fn scores_of_all(side: Side, scores: Shape) -> Result<(), String> {
    if scores.rows == Rows::Picked(side) {
        return super::same("scores", scores, Shape::new(Rows::Picked(side), 2));
    }
    super::same("scores", scores, Shape::new(Rows::Tokens(side), 2))
}

impl Operation for SpanLoss {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        scores_of_all(self.side, inputs[0])?;
        Ok(vec![Shape::new(Rows::Sequences(self.side), 1)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let op = SpanLossGrad { of: *self };
        Ok(Gradient::Inputs(vec![Some(build.add("scores", op, &[at.inputs[0], at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, packed) = (inputs[0], world.batch.side(self.side));
        vec![Array::tabulate(packed.spans.len(), 1, |s, _| {
            let span = packed.spans[s];
            let end = |e: usize| {
                let scores: Vec<f64> = (0..span.len).map(|i| x.at(span.start + i, e)).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|x| (x - most).exp()).sum();
                most + sum.ln() - scores[packed.labels[2 * s + e] as usize]
            };
            f64::from(packed.weights[s]) / 2.0 * (end(0) + end(1))
        })]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.places(self.side, at.shape(0).rows);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Source;
        vec![
            Case::new(Self { side }, &[Shape::new(Rows::Tokens(side), 2)])
                .on(ANSWERS)
                .labelled(Labels::Places),
        ]
    }
}
