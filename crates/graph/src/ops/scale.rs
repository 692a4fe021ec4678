//! Columns times a number: √width on embeddings, and what an edit uses to silence a head.

use super::{Gradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = factor · x` in the columns `from..to`, and x elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The number.
    pub factor: f32,
    /// The first column that it applies to.
    pub from: usize,
    /// The column after the last; `usize::MAX` for all.
    pub to: usize,
}

impl Scale {
    /// All columns by `factor`.
    pub fn all(factor: f32) -> Self {
        Self { factor, from: 0, to: usize::MAX }
    }

    /// What column `column` is multiplied by.
    pub fn at(&self, column: usize) -> f32 {
        if (self.from..self.to).contains(&column) { self.factor } else { 1.0 }
    }
}

impl Operation for Scale {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::Inputs(vec![Some(build.add("input", *self, &[at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let x = inputs[0];
        vec![Array::tabulate(x.rows, x.width, |i, j| x.at(i, j) * f64::from(self.at(j)))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 21);
        vec![Case::new(Self::all(0.3), &[x]), Case::new(Self { factor: 0.0, from: 4, to: 9 }, &[x])]
    }
}
