//! The gradient of a lookup ("scatter-add").

use super::{Gradient, Ids, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `dtable[id] = Σ dy[row]` over the rows with that id, in their order. Input: dy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupGrad {
    /// What chose the row.
    pub ids: Ids,
    /// The table's shape.
    pub table: Shape,
}

impl Operation for LookupGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("dy", inputs[0], Shape::new(Rows::Tokens(self.ids.side()), self.table.width))?;
        Ok(vec![self.table])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let dy = inputs[0];
        let mut table = Array::zeros(world.batch.count(self.table.rows), self.table.width);
        for i in 0..dy.rows {
            let Some(id) = self.ids.id(world.batch, i) else { continue };
            for (sum, x) in table.row_mut(id).iter_mut().zip(dy.row(i)) {
                *sum += x;
            }
        }
        vec![table]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        limits.table(self.ids, self.table.rows, &at.node.name);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let op = Self { ids: Ids::Tokens(Side::Target), table: Shape::fixed(7, 5) };
        vec![Case::new(op, &[Shape::new(Rows::Tokens(Side::Target), 5)])]
    }
}
