//! What an attention looks at, for people to see. Added by a tap, never by lowering.

use super::{Attend, Gradient, NoGradient, Operation, Site};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Tally, World};

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Scores before the softmax; −∞ where a row may not look.
    Scores,
    /// Probabilities after it; 0 where a row may not look.
    Probabilities,
}

/// The scores or probabilities of an attention: one row for each query and key, one column for each head.
/// Inputs: those of the attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttendShow {
    /// The attention.
    pub attend: Attend,
    /// What of it.
    pub shown: Shown,
}

impl Operation for AttendShow {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        self.attend.shape(inputs)?;
        Ok(vec![Shape::new(Rows::Pairs(self.attend.side), self.attend.heads)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::OnlyShows))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let Self { attend, shown } = self;
        let mut y = Array::zeros(attend.pairs(world.batch, world.crossing.pages), attend.heads);
        if *shown == Shown::Scores {
            y.data.fill(f64::NEG_INFINITY);
        }
        let (mut starts, mut start) = (Vec::new(), 0);
        for (s, span) in world.batch.side(attend.side).spans.iter().enumerate() {
            let keys = attend.keys_of(world.batch, world.crossing.pages, s);
            starts.push((span.start, start));
            start += span.len * (keys.end - keys.first);
        }
        attend.for_each_query(inputs, world, |query| {
            let (_, start) = starts[starts.partition_point(|(row, _)| *row <= query.row) - 1];
            let numbers = match shown {
                Shown::Scores => query.scores.clone(),
                Shown::Probabilities => query.probabilities(),
            };
            let many = query.keys.end - query.keys.first;
            for (&j, x) in query.seen.iter().zip(numbers) {
                y.row_mut(start + query.i * many + j - query.keys.first)[query.head] = x;
            }
        });
        vec![y]
    }

    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        self.attend.limits(at, limits);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let both = [Shown::Scores, Shown::Probabilities];
        let shows = |(attend, inputs): (Attend, Vec<Shape>)| {
            both.map(|shown| Case::new(Self { attend, shown }, &inputs))
        };
        Attend::samples().into_iter().flat_map(shows).collect()
    }
}
