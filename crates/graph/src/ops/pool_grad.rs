//! The gradient of a pool.

use super::{Gradient, NoGradient, Operation, Pool, Pooling, Site, arity, same};
use crate::{Array, Builder, Case, Error, Rows, Shape, Side, World};

/// `dx[s, i] = weight(i) dy[s]`. Input: dy `[sequences, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolGrad {
    /// The pool.
    pub pool: Pool,
}

impl Operation for PoolGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("dy", inputs[0], Shape::new(Rows::Sequences(self.pool.side), inputs[0].width))?;
        Ok(vec![Shape::new(Rows::Tokens(self.pool.side), inputs[0].width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let packed = world.batch.side(self.pool.side);
        let mut dx = Array::zeros(packed.rows(), inputs[0].width);
        for (s, span) in packed.spans.iter().enumerate() {
            for i in 0..span.len {
                let weight = self.pool.pooling.weight(span, i);
                let row = dx.row_mut(span.start + i);
                row.iter_mut().zip(inputs[0].row(s)).for_each(|(dx, dy)| *dx = weight * dy);
            }
        }
        vec![dx]
    }

    fn cases() -> Vec<Case> {
        let dy = Shape::new(Rows::Sequences(Side::Source), 19);
        Pooling::ALL
            .map(|pooling| Case::new(Self { pool: Pool { side: Side::Source, pooling } }, &[dy]))
            .into()
    }
}
