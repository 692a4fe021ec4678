//! The gradient of a leading row.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx` is dy with zeros in the first row of each sequence; `dr` is the sum of those rows. Input: dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadGrad {
    /// Whose rows.
    pub side: Side,
}

impl Operation for LeadGrad {
    const OUTPUTS: &'static [&'static str] = &["input", "row"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("dy", inputs[0], Shape::new(Rows::Tokens(self.side), inputs[0].width))?;
        Ok(vec![inputs[0], Shape::fixed(1, inputs[0].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (mut dx, mut row) = (inputs[0].clone(), Array::zeros(1, inputs[0].width));
        for span in &world.batch.side(self.side).spans {
            row.data.iter_mut().zip(inputs[0].row(span.start)).for_each(|(sum, x)| *sum += x);
            dx.row_mut(span.start).fill(0.0);
        }
        vec![dx, row]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { side: Side::Source }, &[Shape::new(Rows::Tokens(Side::Source), 9)])]
    }
}
