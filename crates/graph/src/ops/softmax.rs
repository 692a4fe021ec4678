//! Scores into probabilities, along a row.

use super::{Gradient, Operation, Site, SoftmaxGrad, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[j] = exp(x[j] − max) / Σ exp(x − max)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax;

/// Softmax of one row, in place.
pub(super) fn softmax(row: &mut [f64]) {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for x in row.iter_mut() {
        *x = (*x - most).exp();
    }
    let sum: f64 = row.iter().sum();
    for x in row {
        *x /= sum;
    }
}

impl Operation for Softmax {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", SoftmaxGrad, &[at.outputs[0], at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let mut y = inputs[0].clone();
        y.data.chunks_mut(y.width.max(1)).for_each(softmax);
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = |width| Shape::new(Rows::Tokens(Side::Source), width);
        vec![
            Case::new(Self, &[x(19)]),
            Case::new(Self, &[x(1)]),
            Case::new(Self, &[x(33)]).between(-80.0, 80.0),
        ]
    }
}
