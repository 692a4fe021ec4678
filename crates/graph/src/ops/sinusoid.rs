//! Sines and cosines of positions (Vaswani et al. 2017; "positional encoding").

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, Batch, Builder, Case, Error, Rows, Shape, Side, World};

/// Where the two numbers of a pair stand in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// 2i and 2i + 1.
    Interleaved,
    /// i and i + width/2.
    Halves,
}

impl Pairing {
    /// The two columns of pair `i` among `width`.
    pub fn columns(self, i: usize, width: usize) -> (usize, usize) {
        match self {
            Self::Interleaved => (2 * i, 2 * i + 1),
            Self::Halves => (i, i + width / 2),
        }
    }
}

/// `y[p, pairᵢ] = (sin, cos)(p · base^(−2i/width))`, where p is the row's position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinusoid {
    /// Whose positions: tokens count on from their past, distances and fixed rows from 0.
    pub rows: Rows,
    /// The position of row 0.
    pub start: usize,
    /// Numbers per row.
    pub width: usize,
    /// 10 000 in the paper.
    pub base: f64,
    /// Where sines and cosines stand.
    pub pairing: Pairing,
}

impl Sinusoid {
    /// The position of row `row` of `batch`.
    pub fn position(&self, batch: &Batch<'_>, row: usize) -> usize {
        self.start
            + match self.rows {
                Rows::Tokens(side) => position(batch, side, row),
                Rows::Fixed(_)
                | Rows::Memory(_)
                | Rows::Recalled(_)
                | Rows::Low(..)
                | Rows::Sequences(_)
                | Rows::Picked(_)
                | Rows::Distances(_)
                | Rows::Pairs(_) => row,
            }
    }

    /// The angle of pair `i` at `position`.
    pub fn angle(&self, position: usize, i: usize) -> f64 {
        position as f64 * self.base.powf(-2.0 * i as f64 / self.width as f64)
    }
}

/// The position in its sequence of a row of `side`.
pub(super) fn position(batch: &Batch<'_>, side: Side, row: usize) -> usize {
    let spans = &batch.side(side).spans;
    let span = spans[spans.partition_point(|span| span.start + span.len <= row)];
    span.past + row - span.start
}

impl Operation for Sinusoid {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 0)?;
        if self.width % 2 == 1 {
            return Err(format!("sines and cosines come in pairs, and the width {} is odd", self.width));
        }
        Ok(vec![Shape::new(self.rows, self.width)])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::ReadsNothing))
    }

    fn reference(&self, _: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let mut y = Array::zeros(world.batch.count(self.rows), self.width);
        for row in 0..y.rows {
            for i in 0..self.width / 2 {
                let angle = self.angle(self.position(world.batch, row), i);
                let (a, b) = self.pairing.columns(i, self.width);
                y.row_mut(row)[a] = angle.sin();
                y.row_mut(row)[b] = angle.cos();
            }
        }
        vec![y]
    }

    fn cases() -> Vec<Case> {
        let op = |rows, start, pairing| Self { rows, start, width: 6, base: 10_000.0, pairing };
        vec![
            Case::new(op(Rows::Tokens(Side::Target), 0, Pairing::Interleaved), &[]),
            Case::new(op(Rows::Tokens(Side::Source), 2, Pairing::Halves), &[]),
            Case::new(op(Rows::Distances(Side::Target), 0, Pairing::Halves), &[]),
            Case::new(op(Rows::Fixed(1), 3, Pairing::Interleaved), &[]),
        ]
    }
}
