//! The sum of all rows: the gradient of a bias, and the loss of a batch.

use super::{Gradient, Operation, RepeatRow, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = Σ x[i]`, in the order of the rows. Output: `[1, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumRows;

impl Operation for SumRows {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        Ok(vec![Shape::fixed(1, inputs[0].width)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let rows = build.shape(at.inputs[0]).rows;
        Ok(Gradient::Inputs(vec![Some(build.add("input", RepeatRow { rows }, &[at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let x = inputs[0];
        vec![Array::tabulate(1, x.width, |_, j| (0..x.rows).map(|i| x.at(i, j)).sum())]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self, &[Shape::new(Rows::Tokens(Side::Source), 18)])]
    }
}
