//! The gradient of a pool.

use super::{Gradient, NoGradient, Operation, Pool, Pooling, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Sample, Shape, Side, Tally, World};

/// `dx[s, i] = Σ weight(i) dy[s]` over what is read; of a largest number, all goes to the first row that has it.
///
/// Inputs: x `[tokens, width]`, dy `[sequences, width · poolings]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGrad {
    /// The pool.
    pub pool: Pool,
}

impl Operation for PoolGrad {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 2)?;
        let pooled = self.pool.shape(&inputs[..1])?;
        same("dy", inputs[1], pooled[0])?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let packed = world.batch.side(self.pool.side);
        let (x, dy) = (inputs[0], inputs[1]);
        let mut dx = Array::zeros(x.rows, x.width);
        for (s, span) in packed.spans.iter().enumerate() {
            for (k, pooling) in self.pool.poolings.iter().enumerate() {
                for j in 0..x.width {
                    let first_of = |best: usize, i: usize| {
                        if x.at(span.start + i, j) > x.at(span.start + best, j) { i } else { best }
                    };
                    let largest = (span.unpooled..span.len).fold(span.unpooled, first_of);
                    for i in 0..span.len {
                        let weight =
                            pooling.weight(packed, span, i).unwrap_or(f64::from(u8::from(i == largest)));
                        dx.row_mut(span.start + i)[j] += weight * dy.at(s, k * x.width + j);
                    }
                }
            }
        }
        vec![dx]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        let case = |poolings: Vec<Pooling>| {
            let dy = Shape::new(Rows::Sequences(Side::Source), 19 * poolings.len());
            Case::new(Self { pool: Pool { side: Side::Source, poolings } }, &[x, dy])
        };
        let prompted = Sample { unpooled: &[2, 0, 5], ..Sample::default() };
        let all = Pooling::samples().into_iter().map(case);
        all.flat_map(|case| [case.clone().on(prompted), case]).collect()
    }
}
