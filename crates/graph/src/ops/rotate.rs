//! Queries and keys turned by their position (RoPE, Su et al. 2021).

use super::sinusoid::position;
use super::{Gradient, Operation, Pairing, Site, arity};
use crate::{Array, At, Batch, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// How fast each pair turns.
#[derive(Clone, Debug, PartialEq)]
pub enum Turns {
    /// Radians per position, one for each pair.
    Fixed(Vec<f32>),
    /// `base^(−2i/n)` where the base grows once the sequence is longer than `original` (dynamic NTK).
    Dynamic {
        /// The base of short sequences.
        base: f64,
        /// How strongly it grows.
        factor: f64,
        /// The length trained on.
        original: usize,
    },
    /// One list up to `original` positions, another beyond (LongRoPE).
    Long {
        /// The first list.
        short: Vec<f32>,
        /// The second list.
        long: Vec<f32>,
        /// The length trained on.
        original: usize,
    },
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// With the position.
    Forward,
    /// Against it: the gradient.
    Back,
}

/// For each head and pair (a, b), with `θ = position · turn`: `(a cos θ − b sin θ, b cos θ + a sin θ) · magnitude`.
///
/// The angle is rounded to `f32`, as the reference implementations do: at position 8 000 that is a difference of 5e-4.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotate {
    /// Whose positions.
    pub side: Side,
    /// Numbers per head.
    pub size: usize,
    /// How many of them turn; the rest pass.
    pub turning: usize,
    /// Which of them form a pair.
    pub pairing: Pairing,
    /// How fast each pair turns.
    pub turns: Turns,
    /// What the pair is multiplied by.
    pub magnitude: f32,
    /// Which way.
    pub direction: Direction,
}

impl Rotate {
    /// Radians per position of pair `i` in a sequence that is `length` long so far.
    pub fn turn(&self, i: usize, length: usize) -> f32 {
        match &self.turns {
            Turns::Fixed(list) => list[i],
            Turns::Long { short, long, original } => {
                if length > *original {
                    long[i]
                } else {
                    short[i]
                }
            }
            Turns::Dynamic { base, factor, original } => {
                let n = self.turning as f64;
                let stretch = factor * length.max(*original) as f64 / *original as f64 - (factor - 1.0);
                let base = base * stretch.powf(n / (n - 2.0));
                (1.0 / base.powf(2.0 * i as f64 / n)) as f32
            }
        }
    }

    /// The cosine and sine of pair `i` at `position`, with magnitude and direction.
    pub fn cos_sin(&self, i: usize, position: usize, length: usize) -> (f32, f32) {
        let angle = f64::from(position as f32 * self.turn(i, length));
        let magnitude = f64::from(self.magnitude);
        let sine = match self.direction {
            Direction::Forward => angle.sin(),
            Direction::Back => -angle.sin(),
        };
        ((angle.cos() * magnitude) as f32, (sine * magnitude) as f32)
    }

    /// The position of `row`, and how long its sequence is so far.
    pub fn place(&self, batch: &Batch<'_>, row: usize) -> (usize, usize) {
        let spans = &batch.side(self.side).spans;
        let span = spans[spans.partition_point(|span| span.start + span.len <= row)];
        (position(batch, self.side, row), span.past + span.len)
    }
}

impl Operation for Rotate {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        if inputs[0].rows != Rows::Tokens(self.side) {
            return Err(format!("only tokens have positions, not {}", inputs[0]));
        }
        if self.size == 0 || !inputs[0].width.is_multiple_of(self.size) {
            return Err(format!("heads of {} do not divide the width {}", self.size, inputs[0].width));
        }
        let pairs = self.turning / 2;
        let listed = match &self.turns {
            Turns::Fixed(list) => list.len() == pairs,
            Turns::Long { short, long, .. } => short.len() == pairs && long.len() == pairs,
            Turns::Dynamic { original, .. } => *original > 0 && self.turning > 2,
        };
        if self.turning % 2 == 1 || self.turning > self.size || !listed {
            return Err(format!("{} of {} numbers cannot turn in pairs as listed", self.turning, self.size));
        }
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let direction = match self.direction {
            Direction::Forward => Direction::Back,
            Direction::Back => Direction::Forward,
        };
        let dx = build.add("input", Self { direction, ..self.clone() }, &[at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let mut y = inputs[0].clone();
        for row in 0..y.rows {
            let (position, length) = self.place(world.batch, row);
            for head in y.row_mut(row).chunks_mut(self.size) {
                for i in 0..self.turning / 2 {
                    let (cos, sin) = self.cos_sin(i, position, length);
                    let (cos, sin) = (f64::from(cos), f64::from(sin));
                    let (first, second) = self.pairing.columns(i, self.turning);
                    let (a, b) = (head[first], head[second]);
                    head[first] = a * cos - b * sin;
                    head[second] = b * cos + a * sin;
                }
            }
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Target), 24);
        let list = vec![1.0, 0.1, 0.01];
        let op = Self {
            side: Side::Target,
            size: 8,
            turning: 6,
            pairing: Pairing::Halves,
            turns: Turns::Fixed(list.clone()),
            magnitude: 1.0,
            direction: Direction::Forward,
        };
        let long = Turns::Long { short: list, long: vec![0.5, 0.2, 0.05], original: 4 };
        let dynamic = Turns::Dynamic { base: 100.0, factor: 2.0, original: 4 };
        vec![
            Case::new(op.clone(), &[x]),
            Case::new(Self { pairing: Pairing::Interleaved, magnitude: 1.25, ..op.clone() }, &[x]),
            Case::new(Self { turns: long, ..op.clone() }, &[x]),
            Case::new(Self { turns: dynamic, direction: Direction::Back, ..op }, &[x]),
        ]
    }
}
