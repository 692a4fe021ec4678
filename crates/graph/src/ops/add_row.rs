//! One row added to all: the step's sinusoid of the Universal Transformer ("broadcast add").

use super::{Gradient, Operation, Site, SumRows, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[i] = x[i] + r`. Inputs: x `[rows, width]`, r `[1, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRow;

impl Operation for AddRow {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("r", inputs[1], Shape::fixed(1, inputs[0].width))?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let row = build.add("row", SumRows, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(at.dy()), Some(row)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (x, r) = (inputs[0], inputs[1]);
        vec![Array::tabulate(x.rows, x.width, |i, j| x.at(i, j) + r.at(0, j))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self, &[Shape::new(Rows::Tokens(Side::Source), 18), Shape::fixed(1, 18)])]
    }
}
