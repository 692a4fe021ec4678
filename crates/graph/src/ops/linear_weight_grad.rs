//! The gradient of a product with respect to its matrix.

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dW = dyᵀ x`: a sum over rows, in their order. Inputs: dy `[rows, out]`, x `[rows, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearWeightGrad;

impl Operation for LinearWeightGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        if inputs[0].rows != inputs[1].rows {
            return Err(format!("dy {} and x {} have different rows", inputs[0], inputs[1]));
        }
        Ok(vec![Shape::fixed(inputs[0].width, inputs[1].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (dy, x) = (inputs[0], inputs[1]);
        vec![Array::tabulate(dy.width, x.width, |o, i| (0..x.rows).map(|r| dy.at(r, o) * x.at(r, i)).sum())]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let rows = |width| Shape::new(Rows::Tokens(Side::Source), width);
        vec![Case::new(Self, &[rows(3), rows(5)]), Case::new(Self, &[rows(33), rows(18)])]
    }
}
