//! The dot product of two rows, for each row.

use super::{Gradient, MulColumn, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y[i] = a[i] · b[i]`. Output: `[rows, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotColumns;

impl Operation for DotColumns {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        same("b", inputs[1], inputs[0])?;
        Ok(vec![inputs[0].with_width(1)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let da = build.add("left", MulColumn, &[at.inputs[1], at.dy()])?;
        let db = build.add("right", MulColumn, &[at.inputs[0], at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(da), Some(db)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (a, b) = (inputs[0], inputs[1]);
        vec![Array::tabulate(a.rows, 1, |i, _| a.row(i).iter().zip(b.row(i)).map(|(x, y)| x * y).sum())]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 35);
        vec![Case::new(Self, &[x, x])]
    }
}
