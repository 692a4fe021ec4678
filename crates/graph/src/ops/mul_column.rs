//! Each row times its own number: how adaptive halting weighs the steps.

use super::{DotColumns, Gradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[i] = x[i] · c[i]`. Inputs: x `[rows, width]`, c `[rows, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulColumn;

impl Operation for MulColumn {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("c", inputs[1], inputs[0].with_width(1))?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", Self, &[at.dy(), at.inputs[1]])?;
        let dc = build.add("column", DotColumns, &[at.dy(), at.inputs[0]])?;
        Ok(Gradient::Inputs(vec![Some(dx), Some(dc)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (x, c) = (inputs[0], inputs[1]);
        vec![Array::tabulate(x.rows, x.width, |i, j| x.at(i, j) * c.at(i, 0))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 18);
        vec![Case::new(Self, &[x, x.with_width(1)])]
    }
}
