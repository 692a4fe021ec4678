//! One row, many times: the gradient of a sum of rows ("broadcast").

use super::{Gradient, Operation, Site, SumRows, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[i] = r`. Input: r `[1, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatRow {
    /// How often.
    pub rows: Rows,
}

impl Operation for RepeatRow {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("r", inputs[0], Shape::fixed(1, inputs[0].width))?;
        Ok(vec![Shape::new(self.rows, inputs[0].width)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::Inputs(vec![Some(build.add("row", SumRows, &[at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let r = inputs[0];
        vec![Array::tabulate(world.batch.count(self.rows), r.width, |_, j| r.at(0, j))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { rows: Rows::Tokens(Side::Target) }, &[Shape::fixed(1, 18)])]
    }
}
