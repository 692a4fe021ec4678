//! The sum of all squares: how long a gradient is.

use super::{Gradient, NoGradient, Operation, Site};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// `y = Σ x²` over all numbers of all inputs, of which there may be any number and of any shapes. Output: `[1, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumSquares;

impl Operation for SumSquares {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        if inputs.is_empty() {
            Err("takes at least one input".to_owned())
        } else {
            Ok(vec![Shape::fixed(1, 1)])
        }
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Optimises))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let sum = inputs.iter().flat_map(|x| &x.data).map(|x| x * x).sum();
        vec![Array { rows: 1, width: 1, data: vec![sum] }]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![
            Case::new(Self, &[Shape::fixed(3, 5)]),
            Case::new(Self, &[Shape::fixed(1, 1), Shape::fixed(400, 331), Shape::fixed(9, 40)]),
        ]
    }
}
