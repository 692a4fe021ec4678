//! How many examples have their highest score where it should be.

use super::pair_loss::{PAIRS, units};
use super::{ANSWERS, Gradient, NoGradient, Operation, PairLoss, Site, arity};
use crate::{Array, At, Builder, Case, Error, Labels, Limits, Rows, Shape, Side, Tally, World};

/// What an example is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A row, whose label has the highest score; where several have it, so have they. Input: `[rows, classes]`, output: `[rows, 1]`.
    Rows,
    /// A sequence, whose labels are the rows with the highest scores of either end, the last of equal ones. Input: `[tokens, 2]`,
    /// output: `[sequences, 1]`.
    Spans,
    /// A pair of sequences, of which the second has the highest cosine with the first among all second ones, the last of equal
    /// ones. Input: `[sequences, width]`, output: `[sequences, 1]`, zero behind the pairs.
    Pairs,
}

/// 1 for each example that is right, and 0 for each that is not, by the labels of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correct {
    /// Whose labels.
    pub side: Side,
    /// What an example is.
    pub what: What,
}

/// The place of the largest, the last of equal ones.
fn last_largest(numbers: impl Iterator<Item = f64>) -> usize {
    numbers.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(place, _)| place)
}

impl Operation for Correct {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        let sequences = Rows::Sequences(self.side);
        match self.what {
            What::Rows => Ok(vec![inputs[0].with_width(1)]),
            What::Spans => {
                super::span_loss::scores_of_all(self.side, inputs[0])?;
                Ok(vec![Shape::new(sequences, 1)])
            }
            What::Pairs => {
                super::same("rows", inputs[0], Shape::new(sequences, inputs[0].width))?;
                Ok(vec![Shape::new(sequences, 1)])
            }
        }
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Counts))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, packed) = (inputs[0], world.batch.side(self.side));
        let flag = |right: bool| f64::from(u8::from(right));
        vec![match self.what {
            What::Rows => Array::tabulate(x.rows, 1, |i, _| {
                let score = x.at(i, packed.labels[i] as usize);
                flag(x.row(i).iter().all(|&other| other <= score))
            }),
            What::Spans => Array::tabulate(packed.spans.len(), 1, |s, _| {
                let span = packed.spans[s];
                let best = |e: usize| last_largest((0..span.len).map(|i| x.at(span.start + i, e)));
                flag((0..2).all(|e| best(e) == packed.labels[2 * s + e] as usize))
            }),
            What::Pairs => {
                let (units, _) = units(x);
                let cosine = PairLoss { side: self.side, scale: 1.0 };
                let right = |i: usize| last_largest(cosine.scores(&units, i).into_iter()) == i;
                Array::tabulate(x.rows, 1, |i, _| flag(i < x.rows / 2 && right(i)))
            }
        }]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        match self.what {
            What::Rows => limits.classes(self.side, at.shape(0)),
            What::Spans => limits.places(self.side, at.shape(0).rows),
            What::Pairs => limits.pairs(self.side),
        }
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let side = Side::Source;
        let of = |what| Self { side, what };
        vec![
            Case::new(of(What::Rows), &[Shape::new(Rows::Picked(side), 4)]),
            Case::new(of(What::Spans), &[Shape::new(Rows::Tokens(side), 2)])
                .on(ANSWERS)
                .labelled(Labels::Places),
            Case::new(of(What::Pairs), &[Shape::new(Rows::Sequences(side), 6)])
                .on(PAIRS)
                .labelled(Labels::Pairs),
        ]
    }
}
