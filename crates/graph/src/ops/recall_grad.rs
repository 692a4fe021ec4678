//! The gradient of a recall: the part of the present rows.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx` is dy without the memory's rows. Input: dy `[memory + tokens, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecallGrad {
    /// Whose rows.
    pub side: Side,
}

impl Operation for RecallGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("dy", inputs[0], Shape::new(Rows::Recalled(self.side), inputs[0].width))?;
        Ok(vec![Shape::new(Rows::Tokens(self.side), inputs[0].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let dy = inputs[0];
        let packed = world.batch.side(self.side);
        let mut dx = Array { rows: packed.rows(), width: dy.width, data: Vec::new() };
        for span in &packed.spans {
            let first = span.memory_start + span.memory + span.start;
            dx.data.extend(&dy.data[first * dy.width..(first + span.len) * dy.width]);
        }
        vec![dx]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { side: Side::Target }, &[Shape::new(Rows::Recalled(Side::Target), 9)])]
    }
}
