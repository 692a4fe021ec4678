//! Adaptive halting: has a row had enough? (Graves 2016; Dehghani et al. 2018, whose listing this follows.)

use super::{Gradient, HaltGrad, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// One step of halting for each row. Inputs: p, the step's halting probability, and h, the sum so far, both `[rows, 1]`.
/// Outputs: the weight of this step in the result, and the new sum.
///
/// A row with h = 1 has halted: weight 0. A running row whose h + p stays within the threshold goes on: weight p. One that
/// exceeds it halts now: its weight is the remainder 1 − h, and the sum becomes 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Halt {
    /// The threshold, 1 − ε.
    pub threshold: f32,
}

/// What a row does in this step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    /// It had halted before.
    Halted,
    /// It goes on.
    On,
    /// It halts now.
    Halting,
}

impl Halt {
    /// What a row with these numbers does. In `f32`, so that all backends decide alike.
    pub fn going(&self, p: f32, sum: f32) -> Going {
        if sum >= 1.0 {
            Going::Halted
        } else if sum + p > self.threshold {
            Going::Halting
        } else {
            Going::On
        }
    }
}

impl Operation for Halt {
    const OUTPUTS: &'static [&'static str] = &["weight", "sum"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("p", inputs[0], inputs[0].with_width(1))?;
        same("h", inputs[1], inputs[0])?;
        Ok(vec![inputs[0], inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let zero = |build: &mut Builder| {
            let shape = build.shape(at.inputs[0]);
            build.add("zero", super::Fill { shape, value: 0.0 }, &[])
        };
        let dw = if let Some(dw) = at.upstream[0] { dw } else { zero(build)? };
        let dh = if let Some(dh) = at.upstream[1] { dh } else { zero(build)? };
        let op = HaltGrad { halt: *self };
        let grads = build.add_all("probability", op, &[at.inputs[0], at.inputs[1], dw, dh])?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let step = |p: f64, h: f64| match self.going(p as f32, h as f32) {
            Going::Halted => (0.0, h),
            Going::On => (p, h + p),
            Going::Halting => (1.0 - h, 1.0),
        };
        vec![inputs[0].zip(inputs[1], |p, h| step(p, h).0), inputs[0].zip(inputs[1], |p, h| step(p, h).1)]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let p = Shape::new(Rows::Tokens(Side::Source), 1);
        vec![
            Case::new(Self { threshold: 0.9 }, &[p, p]).between(0.0, 0.8),
            Case::new(Self { threshold: 0.5 }, &[p, p]).between(0.3, 1.2),
        ]
    }
}
