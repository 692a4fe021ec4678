//! The gradient of a halting step.

use super::{Going, Gradient, Halt, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// Going on: `dp = dw + dh′`, `dh = dh′`. Halting now: `dp = 0`, `dh = −dw`. Halted: `dp = 0`, `dh = dh′`.
/// Inputs: p, h, dw, dh′. Outputs: dp, dh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HaltGrad {
    /// The halting step.
    pub halt: Halt,
}

impl Operation for HaltGrad {
    const OUTPUTS: &'static [&'static str] = &["probability", "sum"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 4)?;
        for &input in &inputs[1..] {
            same("an input", input, inputs[0].with_width(1))?;
        }
        Ok(vec![inputs[0], inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let [p, h, dw, dh] = [0, 1, 2, 3].map(|k| &inputs[k].data);
        let (mut dp, mut dsum) = (inputs[0].clone(), inputs[0].clone());
        for i in 0..p.len() {
            (dp.data[i], dsum.data[i]) = match self.halt.going(p[i] as f32, h[i] as f32) {
                Going::Halted => (0.0, dh[i]),
                Going::On => (dw[i] + dh[i], dh[i]),
                Going::Halting => (0.0, -dw[i]),
            };
        }
        vec![dp, dsum]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let p = Shape::new(Rows::Tokens(Side::Source), 1);
        vec![Case::new(Self { halt: Halt { threshold: 0.8 } }, &[p; 4]).between(0.0, 1.3)]
    }
}
