//! The sum of two values: the + of I + f.

use super::{Gradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = a + b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Add;

impl Operation for Add {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("b", inputs[1], inputs[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::Inputs(vec![Some(at.dy()), Some(at.dy())]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        vec![inputs[0].zip(inputs[1], |a, b| a + b)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Target), 19);
        vec![Case::new(Self, &[x, x])]
    }
}
