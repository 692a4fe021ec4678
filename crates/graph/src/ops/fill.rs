//! A constant: every number of it is the same. Gradients start from one.

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// `y = value`, of a given shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// The shape.
    pub shape: Shape,
    /// The number.
    pub value: f32,
}

impl Operation for Fill {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 0)?;
        Ok(vec![self.shape])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::ReadsNothing))
    }

    fn reference(&self, _: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let rows = world.batch.count(self.shape.rows);
        vec![Array::tabulate(rows, self.shape.width, |_, _| f64::from(self.value))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { shape: Shape::fixed(3, 2), value: 0.5 }, &[])]
    }
}
