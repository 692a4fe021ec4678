//! The gradient of a softmax.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx = y ⊙ (dy − y · dy)`. Inputs: y (the softmax), dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxGrad;

impl Operation for SoftmaxGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("dy", inputs[1], inputs[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (y, dy) = (inputs[0], inputs[1]);
        let dots: Vec<f64> =
            (0..y.rows).map(|i| y.row(i).iter().zip(dy.row(i)).map(|(a, b)| a * b).sum()).collect();
        vec![Array::tabulate(y.rows, y.width, |i, j| y.at(i, j) * (dy.at(i, j) - dots[i]))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        vec![Case::new(Self, &[x, x]).between(0.0, 1.0)]
    }
}
