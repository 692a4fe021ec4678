//! The gradient of the loss.

use super::softmax::softmax;
use super::{CrossEntropy, Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx[i] = dy[i] w[i] (p − (1 − s) [label] − s / classes)`. Inputs: logits, dy `[rows, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropyGrad {
    /// The loss.
    pub of: CrossEntropy,
}

impl Operation for CrossEntropyGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("dy", inputs[1], inputs[0].with_width(1))?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let packed = world.batch.side(self.of.side);
        let smoothing = f64::from(self.of.smoothing);
        let mut dx = inputs[0].clone();
        for i in 0..dx.rows {
            let factor = inputs[1].at(i, 0) * f64::from(packed.weights[i]);
            let (width, label) = (dx.width as f64, packed.labels[i] as usize);
            let row = dx.row_mut(i);
            softmax(row);
            row[label] -= 1.0 - smoothing;
            for x in row {
                *x = factor * (*x - smoothing / width);
            }
        }
        vec![dx]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        self.of.limits(at, limits);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Picked(Side::Target), 19);
        let of = CrossEntropy { side: Side::Target, smoothing: 0.1 };
        vec![Case::new(Self { of }, &[x, x.with_width(1)])]
    }
}
