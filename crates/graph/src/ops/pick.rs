//! Only the rows that the head is asked about.

use super::{Gradient, Operation, PickGrad, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[n] = x[picked[n]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Whose rows.
    pub side: Side,
}

impl Operation for Pick {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("x", inputs[0], Shape::new(Rows::Tokens(self.side), inputs[0].width))?;
        Ok(vec![Shape::new(Rows::Picked(self.side), inputs[0].width)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", PickGrad { side: self.side }, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let picked = &world.batch.side(self.side).picked;
        vec![Array::tabulate(picked.len(), inputs[0].width, |n, j| inputs[0].at(picked[n] as usize, j))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { side: Side::Target }, &[Shape::new(Rows::Tokens(Side::Target), 19)])]
    }
}
