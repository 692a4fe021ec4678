//! The gradient of an activation function.

use super::{Activation, Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx = f′(x) ⊙ dy`. Inputs: x, dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivateGrad {
    /// f.
    pub act: Activation,
}

impl Operation for ActivateGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("dy", inputs[1], inputs[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        vec![inputs[0].zip(inputs[1], |x, dy| self.act.slope(x) * dy)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        Activation::ALL.map(|act| Case::new(Self { act }, &[x, x])).into()
    }
}
