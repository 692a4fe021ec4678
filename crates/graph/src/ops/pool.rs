//! One row for each sequence: what classifiers and embeddings read.

use super::{Gradient, Operation, PoolGrad, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Packed, Rows, Sample, Shape, Side, Span, Tally, World};

/// What is read off the rows of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The first.
    First,
    /// The last.
    Last,
    /// The last whose token is not this one; the first where there is none (a decoder that classifies padded texts).
    LastBut(u32),
    /// The mean of all.
    Mean,
    /// Their sum over the root of their number.
    MeanRoot,
    /// Their mean where the i-th counts i times.
    WeightedMean,
    /// The largest number of each column.
    Max,
}

impl Pooling {
    /// How much row `i` of the sequence `span` counts, or nothing where that hangs on its numbers.
    pub fn weight(self, packed: &Packed, span: &Span, i: usize) -> Option<f64> {
        if let Some(one) = self.one(packed, span) {
            return Some(f64::from(u8::from(i == one)));
        }
        let sum = |count: usize| count as f64 * (count as f64 + 1.0) / 2.0;
        let rows = (span.len - span.unpooled) as f64;
        Some(match self {
            Self::First | Self::Last | Self::LastBut(_) | Self::Max => return None,
            _ if i < span.unpooled => 0.0,
            Self::Mean => 1.0 / rows,
            Self::MeanRoot => 1.0 / rows.sqrt(),
            Self::WeightedMean => (i + 1) as f64 / (sum(span.len) - sum(span.unpooled)),
        })
    }

    /// The row of the sequence that is read alone, where one is.
    pub fn one(self, packed: &Packed, span: &Span) -> Option<usize> {
        match self {
            Self::First => Some(span.unpooled),
            Self::Last => Some(span.len - 1),
            Self::LastBut(padding) => {
                let tokens = packed.tokens.get(span.start..span.start + span.len);
                let last = tokens.map_or(Some(span.len - 1), |ids| ids.iter().rposition(|&id| id != padding));
                Some(last.unwrap_or(0).max(span.unpooled))
            }
            Self::Mean | Self::MeanRoot | Self::WeightedMean | Self::Max => None,
        }
    }

    /// Every one of them, alone and beside others.
    pub(super) fn samples() -> Vec<Vec<Self>> {
        use Pooling::{First, Last, LastBut, Max, Mean, MeanRoot, WeightedMean};
        vec![
            vec![First],
            vec![Last],
            vec![LastBut(1)],
            vec![Mean],
            vec![Max],
            vec![MeanRoot, WeightedMean],
            vec![Max, Mean, First],
        ]
    }
}

/// `y[s] = Σᵢ weight(i) x[s, i]`, or the largest number of each column; several of these are put side by side. Rows that a span
/// says are not pooled count nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Whose rows.
    pub side: Side,
    /// What is read off them.
    pub poolings: Vec<Pooling>,
}

impl Operation for Pool {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        same("x", inputs[0], Shape::new(Rows::Tokens(self.side), inputs[0].width))?;
        if self.poolings.is_empty() {
            return Err("nothing is read off the rows".into());
        }
        Ok(vec![Shape::new(Rows::Sequences(self.side), inputs[0].width * self.poolings.len())])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", PoolGrad { pool: self.clone() }, &[at.inputs[0], at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let packed = world.batch.side(self.side);
        let x = inputs[0];
        vec![Array::tabulate(packed.spans.len(), x.width * self.poolings.len(), |s, j| {
            let (span, pooling) = (&packed.spans[s], self.poolings[j / x.width]);
            let number = |i: usize| x.at(span.start + i, j % x.width);
            let most = || (span.unpooled..span.len).map(number).fold(f64::NEG_INFINITY, f64::max);
            let sum: Option<f64> =
                (0..span.len).map(|i| Some(pooling.weight(packed, span, i)? * number(i))).sum();
            sum.unwrap_or_else(most)
        })]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        let case = |poolings| Case::new(Self { side: Side::Source, poolings }, &[x]);
        let prompted = Sample { unpooled: &[2, 0, 5], ..Sample::default() };
        let all = Pooling::samples().into_iter().map(case);
        all.flat_map(|case| [case.clone().on(prompted), case]).collect()
    }
}
