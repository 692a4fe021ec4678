//! The gradient of a gate.

use super::{Activation, Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dg = f′(g) ⊙ u ⊙ dy`, `du = f(g) ⊙ dy`. Inputs: g, u, dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateGrad {
    /// f.
    pub act: Activation,
}

impl Operation for GateGrad {
    const OUTPUTS: &'static [&'static str] = &["gate", "up"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 3)?;
        same("up", inputs[1], inputs[0])?;
        same("dy", inputs[2], inputs[0])?;
        Ok(vec![inputs[0], inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (g, u, dy) = (inputs[0], inputs[1], inputs[2]);
        let dg = g.zip(u, |g, u| self.act.slope(g) * u).zip(dy, |a, b| a * b);
        vec![dg, g.zip(dy, |g, dy| self.act.value(g) * dy)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        Activation::ALL.map(|act| Case::new(Self { act }, &[x, x, x])).into()
    }
}
