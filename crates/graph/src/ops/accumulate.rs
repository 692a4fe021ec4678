//! Sums from run to run: of gradients and losses, where a step of training has several batches.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// `y = x` at the first run of a step, else `y = sum + x`. Inputs: the sum so far and x, alike, and `[1, 1]`, which is 1 at the
/// first run and else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulate;

impl Operation for Accumulate {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 3)?;
        same("x", inputs[1], inputs[0])?;
        same("whether it begins", inputs[2], Shape::fixed(1, 1))?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Optimises))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        // What is left of an earlier step may not be finite: it is left out, not multiplied by zero.
        let begins = inputs[2].at(0, 0) > 0.5;
        vec![inputs[0].zip(inputs[1], |sum, x| if begins { x } else { sum + x })]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let inputs = [Shape::fixed(7, 40), Shape::fixed(7, 40), Shape::fixed(1, 1)];
        vec![
            Case::new(Self, &inputs),
            Case::new(Self, &inputs).between(0.6, 1.0),
            Case::new(Self, &inputs).between(0.0, 0.4),
        ]
    }
}
