//! One projection lets another through (GLU variants, Shazeer 2020).

use super::{Activation, GateGrad, Gradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = f(g) ⊙ u`. Inputs: g (gate), u (up).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// f.
    pub act: Activation,
}

impl Operation for Gate {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("up", inputs[1], inputs[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let inputs = [at.inputs[0], at.inputs[1], at.dy()];
        let grads = build.add_all("gate", GateGrad { act: self.act }, &inputs)?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        vec![inputs[0].zip(inputs[1], |g, u| self.act.value(g) * u)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        Activation::ALL.map(|act| Case::new(Self { act }, &[x, x])).into()
    }
}
