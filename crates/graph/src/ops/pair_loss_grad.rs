//! The gradient of [`PairLoss`](super::PairLoss).

use super::pair_loss::{PAIRS, units};
use super::{Gradient, NoGradient, Operation, PairLoss, Site, arity};
use crate::{Array, At, Builder, Case, Error, Labels, Limits, Rows, Shape, Side, Tally, World};

/// With `p[i, j] = dy[i] w[i] scale (softmax(c[i])[j] − [i = j])`, what flows into the unit rows is `Σⱼ p[i, j] u[2j+1]` for `u[2i]`, and
/// `Σᵢ p[i, j] u[2i]` for `u[2j+1]`; through the division by the length, `dx = (flow − u (u · flow)) / length`.
/// Inputs: rows, and dy `[sequences, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairLossGrad {
    /// Of which loss.
    pub of: PairLoss,
}

impl Operation for PairLossGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        super::same("dy", inputs[1], self.of.shape(&inputs[..1])?[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let ((units, lengths), dy) = (units(inputs[0]), inputs[1]);
        let packed = world.batch.side(self.of.side);
        let count = units.rows / 2;
        let mut flow = Array::zeros(units.rows, units.width);
        for i in 0..count {
            let scores = self.of.scores(&units, i);
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            let share = dy.at(i, 0) * f64::from(packed.weights[i]) * f64::from(self.of.scale);
            for (j, score) in scores.iter().enumerate() {
                let p = share * ((score - most).exp() / sum - f64::from(u8::from(i == j)));
                for k in 0..units.width {
                    flow.row_mut(2 * i)[k] += p * units.at(2 * j + 1, k);
                    flow.row_mut(2 * j + 1)[k] += p * units.at(2 * i, k);
                }
            }
        }
        vec![Array::tabulate(units.rows, units.width, |i, k| {
            if i >= 2 * count {
                return 0.0;
            }
            let along: f64 = units.row(i).iter().zip(flow.row(i)).map(|(u, g)| u * g).sum();
            (flow.at(i, k) - units.at(i, k) * along) / lengths[i]
        })]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        self.of.limits(at, limits);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Source;
        let inputs = [Shape::new(Rows::Sequences(side), 9), Shape::new(Rows::Sequences(side), 1)];
        vec![Case::new(Self { of: PairLoss { side, scale: 3.0 } }, &inputs).on(PAIRS).labelled(Labels::Pairs)]
    }
}
