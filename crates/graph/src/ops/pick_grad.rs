//! The gradient of a pick.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dx[picked[n]] = dy[n]`, 0 elsewhere. Picked rows are ascending, so each is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickGrad {
    /// Whose rows.
    pub side: Side,
}

impl Operation for PickGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("dy", inputs[0], Shape::new(Rows::Picked(self.side), inputs[0].width))?;
        Ok(vec![Shape::new(Rows::Tokens(self.side), inputs[0].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let packed = world.batch.side(self.side);
        let mut dx = Array::zeros(packed.rows(), inputs[0].width);
        for (n, &row) in packed.picked.iter().enumerate() {
            dx.row_mut(row as usize).copy_from_slice(inputs[0].row(n));
        }
        vec![dx]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        vec![Case::new(Self { side: Side::Target }, &[Shape::new(Rows::Picked(Side::Target), 19)])]
    }
}
