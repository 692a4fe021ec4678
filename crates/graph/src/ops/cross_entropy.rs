//! How wrong the head is, row by row: label-smoothed cross entropy (Szegedy et al. 2016).

use super::{CrossEntropyGrad, Gradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[i] = w[i] (−(1 − s) ln p[label] − s mean(ln p))`, with p the softmax of the row and labels and weights w from the
/// batch. Input: logits `[rows, classes]`. Output: `[rows, 1]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Whose labels.
    pub side: Side,
    /// s: what the right label gives up to all.
    pub smoothing: f32,
}

impl Operation for CrossEntropy {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        if !(0.0..1.0).contains(&self.smoothing) {
            return Err(format!("the smoothing {} is not in [0, 1)", self.smoothing));
        }
        Ok(vec![inputs[0].with_width(1)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let op = CrossEntropyGrad { of: *self };
        Ok(Gradient::Inputs(vec![Some(build.add("logits", op, &[at.inputs[0], at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, packed) = (inputs[0], world.batch.side(self.side));
        let smoothing = f64::from(self.smoothing);
        vec![Array::tabulate(x.rows, 1, |i, _| {
            let most = x.row(i).iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let logsum = most + x.row(i).iter().map(|x| (x - most).exp()).sum::<f64>().ln();
            let mean = x.row(i).iter().sum::<f64>() / x.width as f64;
            let right = x.at(i, packed.labels[i] as usize);
            f64::from(packed.weights[i]) * (logsum - (1.0 - smoothing) * right - smoothing * mean)
        })]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.classes(self.side, at.shape(0));
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = |width| Shape::new(Rows::Picked(Side::Target), width);
        vec![
            Case::new(Self { side: Side::Target, smoothing: 0.1 }, &[x(19)]),
            Case::new(Self { side: Side::Target, smoothing: 0.0 }, &[x(33)]),
        ]
    }
}
