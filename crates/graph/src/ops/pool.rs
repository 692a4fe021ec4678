//! One row for each sequence: what classifiers and embeddings read.

use super::{Gradient, Operation, PoolGrad, Site, arity, same};
use crate::{Array, Builder, Case, Error, Rows, Shape, Side, Span, World};

/// Which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The first.
    First,
    /// The last.
    Last,
    /// The mean of all.
    Mean,
}

impl Pooling {
    /// How much row `i` of a sequence counts.
    pub fn weight(self, span: &Span, i: usize) -> f64 {
        match self {
            Self::First => f64::from(u8::from(i == 0)),
            Self::Last => f64::from(u8::from(i + 1 == span.len)),
            Self::Mean => 1.0 / span.len as f64,
        }
    }

    pub(super) const ALL: [Self; 3] = [Self::First, Self::Last, Self::Mean];
}

/// `y[s] = Σᵢ weight(i) x[s, i]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Whose rows.
    pub side: Side,
    /// Which row.
    pub pooling: Pooling,
}

impl Operation for Pool {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("x", inputs[0], Shape::new(Rows::Tokens(self.side), inputs[0].width))?;
        Ok(vec![Shape::new(Rows::Sequences(self.side), inputs[0].width)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", PoolGrad { pool: *self }, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let spans = &world.batch.side(self.side).spans;
        vec![Array::tabulate(spans.len(), inputs[0].width, |s, j| {
            let span = &spans[s];
            (0..span.len).map(|i| self.pooling.weight(span, i) * inputs[0].at(span.start + i, j)).sum()
        })]
    }

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        Pooling::ALL.map(|pooling| Case::new(Self { side: Side::Source, pooling }, &[x])).into()
    }
}
