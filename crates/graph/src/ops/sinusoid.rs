//! Sines and cosines of positions (Vaswani et al. 2017; "positional encoding").

use super::{Gradient, NoGradient, Operation, Site, arity};
use crate::{Array, At, Batch, Builder, Case, Error, Limits, Packed, Rows, Shape, Side, Tally, World};

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

/// How the wavelengths are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// `base^(2i/width)` for pair i.
    Open,
    /// `base^(i/(width/2 − 1))` for pair i.
    Closed,
}

/// The waves of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// 10 000 in the paper.
    pub base: f64,
    /// How the wavelengths are spread.
    pub spread: Spread,
    /// Where sines and cosines stand.
    pub pairing: Pairing,
}

/// Which tokens of a sequence its positions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Every one: row i is at position i.
    #[default]
    Every,
    /// All but those with this id, which have no position (fairseq, RoBERTa, M2M100). Rows of earlier runs count, whatever they
    /// were.
    But(u32),
}

impl Counting {
    /// The position of row `row` of `side`, if it has one.
    pub fn position(self, batch: &Batch<'_>, side: Side, row: usize) -> Option<usize> {
        let packed = batch.side(side);
        let span = packed.spans[packed.spans.partition_point(|span| span.start + span.len <= row)];
        match self {
            Self::Every => Some(span.past + row - span.start),
            Self::But(padding) => {
                let counted = |&&id: &&u32| id != padding;
                let before = packed.tokens.get(span.start..row)?.iter().filter(counted).count();
                packed.tokens.get(row).filter(counted).map(|_| span.past + before)
            }
        }
    }

    /// The first row of a sequence whose position is not below `bound`, with its position.
    pub(super) fn beyond(self, packed: &Packed, bound: usize) -> Option<(usize, usize)> {
        packed.spans.iter().find_map(|span| match self {
            Self::Every => {
                let last = span.past + span.len - 1;
                (last >= bound).then_some((span.start + span.len - 1, last))
            }
            Self::But(padding) => {
                let rows = packed.tokens.get(span.start..span.start + span.len)?.iter().enumerate();
                let counted = rows.filter(|(_, id)| **id != padding);
                let mut placed = counted.enumerate().map(|(n, (i, _))| (span.start + i, span.past + n));
                placed.find(|&(_, position)| position >= bound)
            }
        })
    }
}

/// `y[p, pairᵢ] = (sin, cos)(p / wavelengthᵢ)`, where p is the row's position; a row without one is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinusoid {
    /// Whose positions: tokens count on from their past, distances and fixed rows from 0.
    pub rows: Rows,
    /// The position of row 0.
    pub start: usize,
    /// Which tokens are counted, where they are.
    pub counting: Counting,
    /// Numbers per row.
    pub width: usize,
    /// The waves.
    pub wave: Wave,
    /// Positions from here on count as this one.
    pub clamp: Option<usize>,
}

impl Sinusoid {
    /// The position of row `row` of `batch`, if it has one.
    pub fn position(&self, batch: &Batch<'_>, row: usize) -> Option<usize> {
        let place = match self.rows {
            Rows::Tokens(side) => self.counting.position(batch, side, row)?,
            Rows::Fixed(_)
            | Rows::Memory(_)
            | Rows::Recalled(_)
            | Rows::Remembered(..)
            | Rows::Low(..)
            | Rows::Sequences(_)
            | Rows::Picked(_)
            | Rows::Distances(_)
            | Rows::Pairs(_) => row,
        };
        Some((self.start + place).min(self.clamp.unwrap_or(usize::MAX)))
    }

    /// The angle of pair `i` at `position`.
    pub fn angle(&self, position: usize, i: usize) -> f64 {
        let exponent = match self.wave.spread {
            Spread::Open => 2.0 * i as f64 / self.width as f64,
            Spread::Closed => i as f64 / (self.width as f64 / 2.0 - 1.0).max(1.0),
        };
        position as f64 * self.wave.base.powf(-exponent)
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
            let Some(position) = self.position(world.batch, row) else { continue };
            for i in 0..self.width / 2 {
                let angle = self.angle(position, i);
                let (a, b) = self.wave.pairing.columns(i, self.width);
                y.row_mut(row)[a] = angle.sin();
                y.row_mut(row)[b] = angle.cos();
            }
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let op = |rows, start, pairing| {
            let wave = Wave { base: 10_000.0, spread: Spread::Open, pairing };
            Self { rows, start, counting: Counting::Every, width: 6, wave, clamp: None }
        };
        let wave = Wave { base: 100.0, spread: Spread::Closed, pairing: Pairing::Halves };
        vec![
            Case::new(op(Rows::Tokens(Side::Target), 0, Pairing::Interleaved), &[]),
            Case::new(op(Rows::Tokens(Side::Source), 2, Pairing::Halves), &[]),
            Case::new(op(Rows::Distances(Side::Target), 0, Pairing::Halves), &[]),
            Case::new(
                Self { counting: Counting::But(1), ..op(Rows::Tokens(Side::Target), 2, Pairing::Halves) },
                &[],
            ),
            Case::new(op(Rows::Fixed(1), 3, Pairing::Interleaved), &[]),
            Case::new(
                Self { wave, clamp: Some(4), ..op(Rows::Distances(Side::Target), 0, Pairing::Halves) },
                &[],
            ),
        ]
    }
}
