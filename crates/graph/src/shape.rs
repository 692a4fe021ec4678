//! Shapes: a width that is known, and rows that are counted when a batch is bound.

use std::fmt;

/// Which half of the Transformer rows belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The encoder's.
    Source,
    /// The decoder's.
    Target,
}

/// What the rows of a value are: one number when the graph is built, or one that each batch brings.
///
/// Rows of all sequences stand one after the other, nothing is padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// That many, always: weights and tables.
    Fixed(usize),
    /// One for each token.
    Tokens(Side),
    /// One for each row remembered from earlier segments (Transformer-XL).
    Memory(Side),
    /// For each sequence its remembered rows, then its tokens.
    Recalled(Side),
    /// What is remembered at the next run: for each sequence the last of its remembered rows and tokens, as many for each, and so
    /// many at most.
    Remembered(Side, usize),
    /// That many for each sequence (Linformer).
    Low(Side, usize),
    /// One for each sequence.
    Sequences(Side),
    /// One for each token that the head is asked about.
    Picked(Side),
    /// One for each distance between a query and a key, from 0 to the longest (Transformer-XL).
    Distances(Side),
    /// One for each query and key of a sequence, keys running fastest: what a tap on an attention shows.
    Pairs(Side),
}

impl Rows {
    /// Whose they are; fixed ones are nobody's.
    pub const fn side(self) -> Option<Side> {
        match self {
            Self::Fixed(_) => None,
            Self::Tokens(side)
            | Self::Memory(side)
            | Self::Recalled(side)
            | Self::Remembered(side, _)
            | Self::Low(side, _)
            | Self::Sequences(side)
            | Self::Picked(side)
            | Self::Distances(side)
            | Self::Pairs(side) => Some(side),
        }
    }
}

/// Rows and the numbers in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What the rows are.
    pub rows: Rows,
    /// Numbers per row.
    pub width: usize,
}

impl Shape {
    /// `rows` rows of `width` numbers.
    pub const fn new(rows: Rows, width: usize) -> Self {
        Self { rows, width }
    }

    /// A matrix of known size: `[rows, width]`.
    pub const fn fixed(rows: usize, width: usize) -> Self {
        Self { rows: Rows::Fixed(rows), width }
    }

    /// The same rows with another width.
    #[must_use]
    pub const fn with_width(self, width: usize) -> Self {
        Self { rows: self.rows, width }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            Rows::Fixed(n) => write!(f, "[{n}, {}]", self.width),
            Rows::Tokens(side) => write!(f, "[{side} tokens, {}]", self.width),
            Rows::Memory(side) => write!(f, "[{side} memory, {}]", self.width),
            Rows::Recalled(side) => write!(f, "[{side} memory + tokens, {}]", self.width),
            Rows::Remembered(side, most) => write!(f, "[{side} sequences × {most} at most, {}]", self.width),
            Rows::Low(side, rank) => write!(f, "[{side} sequences × {rank}, {}]", self.width),
            Rows::Sequences(side) => write!(f, "[{side} sequences, {}]", self.width),
            Rows::Picked(side) => write!(f, "[picked {side} tokens, {}]", self.width),
            Rows::Distances(side) => write!(f, "[{side} distances, {}]", self.width),
            Rows::Pairs(side) => write!(f, "[{side} queries × keys, {}]", self.width),
        }
    }
}
