//! Which texts belong together: the first with the second, the third with the fourth, among all of a batch (Henderson et al. 2017).

use super::{Gradient, Operation, PairLossGrad, Site, arity};
use crate::{Array, At, Builder, Case, Error, Labels, Limits, Rows, Sample, Shape, Side, Tally, World};

/// With `c[i, j] = scale · cos(x[2i], x[2j+1])`: `y[i] = w[i] (ln Σⱼ exp c[i, j] − c[i, i])`, with the weights of the batch, one for
/// each pair. Input: rows `[sequences, width]`. Output: `[sequences, 1]`, zero behind the pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairLoss {
    /// Whose sequences.
    pub side: Side,
    /// What cosines are multiplied by.
    pub scale: f32,
}

/// A batch of pairs.
pub(super) const PAIRS: Sample =
    Sample { source: &[3, 1, 6, 2, 4, 2], target: &[2, 2], memory: &[], unpooled: &[], ids: 4 };

/// The least length that a row is divided by.
const SHORTEST: f64 = 1e-12;

/// Rows of length one, with what they were divided by.
pub(super) fn units(x: &Array) -> (Array, Vec<f64>) {
    let length = |i: usize| x.row(i).iter().map(|x| x * x).sum::<f64>().sqrt().max(SHORTEST);
    let lengths: Vec<f64> = (0..x.rows).map(length).collect();
    (Array::tabulate(x.rows, x.width, |i, j| x.at(i, j) / lengths[i]), lengths)
}

impl PairLoss {
    /// Row i of c.
    pub(super) fn scores(self, units: &Array, i: usize) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scale = f64::from(self.scale);
        (0..units.rows / 2).map(|j| scale * dot(units.row(2 * i), units.row(2 * j + 1))).collect()
    }
}

impl Operation for PairLoss {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        super::same("rows", inputs[0], Shape::new(Rows::Sequences(self.side), inputs[0].width))?;
        Ok(vec![inputs[0].with_width(1)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let op = PairLossGrad { of: *self };
        Ok(Gradient::Inputs(vec![Some(build.add("rows", op, &[at.inputs[0], at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (units, _) = units(inputs[0]);
        let packed = world.batch.side(self.side);
        vec![Array::tabulate(units.rows, 1, |i, _| {
            if i >= units.rows / 2 {
                return 0.0;
            }
            let scores = self.scores(&units, i);
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            f64::from(packed.weights[i]) * (most + sum.ln() - scores[i])
        })]
    }

    fn limits(&self, _: &At<'_>, limits: &mut Limits) {
        limits.pairs(self.side);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Source;
        let case = |scale, width| {
            Case::new(Self { side, scale }, &[Shape::new(Rows::Sequences(side), width)])
                .on(PAIRS)
                .labelled(Labels::Pairs)
        };
        vec![case(5.0, 7), case(1.0, 33)]
    }
}
