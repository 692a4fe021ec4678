//! The gradient of [`SpanLoss`](super::SpanLoss).

use super::{Gradient, NoGradient, Operation, Site, SpanLoss, arity};
use crate::{Array, At, Builder, Case, Error, Labels, Limits, Rows, Shape, Side, Tally, World};

/// `dx[i, e] = dy[s] w[s]/2 (softmax of the sequence's column e at i − [i = labelₑ])`. Inputs: scores, and dy `[sequences, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanLossGrad {
    /// Of which loss.
    pub of: SpanLoss,
}

impl Operation for SpanLossGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        super::same("dy", inputs[1], self.of.shape(&inputs[..1])?[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, dy, packed) = (inputs[0], inputs[1], world.batch.side(self.of.side));
        let mut dx = Array::zeros(x.rows, 2);
        for (s, span) in packed.spans.iter().enumerate() {
            let share = dy.at(s, 0) * f64::from(packed.weights[s]) / 2.0;
            for e in 0..2 {
                let at = |i: usize| x.at(span.start + i, e);
                let most = (0..span.len).map(at).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = (0..span.len).map(|i| (at(i) - most).exp()).sum();
                for i in 0..span.len {
                    let right = f64::from(u8::from(i == packed.labels[2 * s + e] as usize));
                    dx.row_mut(span.start + i)[e] = share * ((at(i) - most).exp() / sum - right);
                }
            }
        }
        vec![dx]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        self.of.limits(at, limits);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Source;
        let inputs = [Shape::new(Rows::Tokens(side), 2), Shape::new(Rows::Sequences(side), 1)];
        vec![Case::new(Self { of: SpanLoss { side } }, &inputs).on(super::ANSWERS).labelled(Labels::Places)]
    }
}
