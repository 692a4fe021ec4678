//! The product of two values, number by number (⊙).

use super::{Gradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = a ⊙ b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mul;

impl Operation for Mul {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("b", inputs[1], inputs[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let da = build.add("left", Self, &[at.dy(), at.inputs[1]])?;
        let db = build.add("right", Self, &[at.dy(), at.inputs[0]])?;
        Ok(Gradient::Inputs(vec![Some(da), Some(db)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        vec![inputs[0].zip(inputs[1], |a, b| a * b)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 21);
        vec![Case::new(Self, &[x, x])]
    }
}
