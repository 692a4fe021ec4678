//! The gradient of a product with respect to its rows.

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx = dy W`. Inputs: dy `[rows, out]`, W `[out, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearInputGrad;

impl Operation for LinearInputGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        if inputs[1].rows != Rows::Fixed(inputs[0].width) {
            return Err(format!("dy {} does not fit W {}", inputs[0], inputs[1]));
        }
        Ok(vec![inputs[0].with_width(inputs[1].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (dy, w) = (inputs[0], inputs[1]);
        vec![Array::tabulate(dy.rows, w.width, |i, j| (0..dy.width).map(|k| dy.at(i, k) * w.at(k, j)).sum())]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let dy = |width| Shape::new(Rows::Tokens(Side::Source), width);
        vec![Case::new(Self, &[dy(3), Shape::fixed(3, 5)]), Case::new(Self, &[dy(33), Shape::fixed(33, 18)])]
    }
}
