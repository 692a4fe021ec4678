//! What cannot work is refused here, once, before anything is allocated: all problems together, each with its place.
//!
//! A formula that passes can be lowered, and none of its sizes overflows on the way. Whether a checkpoint fits it is asked
//! elsewhere, against the file.

mod attend;
mod blocks;
mod head;
mod input;
mod position;
mod stack;

use std::fmt;

use crate::half::Half;
use crate::types::{Dense, Formula, Heads, Norm};

/// The largest sizes that can be meant. They are far above any model there is, and low enough that no product of two of
/// them overflows 64 bits.
pub mod limits {
    /// Numbers per row.
    pub const WIDTH: usize = 1 << 20;
    /// Numbers per row inside a feed-forward layer.
    pub const HIDDEN: usize = 1 << 24;
    /// Token ids, classes, tags, token types.
    pub const VOCABULARY: usize = 1 << 28;
    /// Applications of a block.
    pub const LAYERS: usize = 1 << 11;
    /// Sublayers of one block.
    pub const SUBLAYERS: usize = 64;
    /// Sublayers one after the other, those of shared blocks as often as they are applied: each is a few steps of a plan. The
    /// deepest that was published (Wang et al. 2022) has 2,500.
    pub const APPLIED: usize = 1 << 13;
    /// Cuts of a vocabulary into clusters.
    pub const CUTS: usize = 64;
    /// Ways to read the rows of a sequence, side by side.
    pub const POOLS: usize = 16;
    /// Heads of one attention, and numbers per head.
    pub const HEADS: usize = 1 << 16;
    /// Rows of earlier segments that a stack remembers: they are there from the beginning.
    pub const MEMORY: usize = 1 << 16;
    /// Rows: positions, windows, rows that a projection covers.
    pub const ROWS: usize = 1 << 30;
    /// The side of a patch in pixels, and numbers per pixel.
    pub const PIXELS: usize = 1 << 12;
    /// Weights of one side, all matrices together.
    pub const WEIGHTS: u128 = 1 << 44;
}

/// One reason why a formula cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a path into the TOML or JSON: `target.stack.block[1].mix.attend.heads.query`.
    pub field: String,
    /// What is wrong there.
    pub why: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} (hint: {})", self.field, self.why, self.hint)
    }
}

impl std::error::Error for Problem {}

/// Everything that is wrong with a formula; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems, in the order of the fields.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the formula cannot work")?;
        for problem in &self.0 {
            write!(out, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl Heads {
    /// The size of heads whose text left it out, until reading fills it in. [`Formula::check`] refuses it.
    pub const UNSTATED: usize = usize::MAX;

    /// `query` heads that share `width` evenly: `size = width / query`.
    ///
    /// Heads of another size (T5) are written as a literal.
    ///
    /// # Errors
    ///
    /// Where `query` does not divide `width`, where `key` does not divide `query`, and where one of them is 0.
    pub fn of(width: usize, query: usize, key: usize) -> Result<Self, Problem> {
        let mut report = Report::default();
        report.size("heads.query", query, limits::HEADS);
        report.size("heads.key", key, limits::HEADS);
        if query > 0 && key > 0 {
            attend::even_heads(&mut report, "heads", width, query);
            attend::grouped_heads(&mut report, "heads", query, key);
        }
        match report.problems.into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Self { query, key, size: width / query }),
        }
    }
}

impl Formula {
    /// Whether the formula can work.
    ///
    /// # Errors
    ///
    /// All the reasons why it cannot.
    pub fn check(&self) -> Result<(), Problems> {
        let mut report = Report::default();
        if self.source.is_none() && self.target.is_none() {
            report.refuse(
                "source",
                "there is neither a source nor a target side",
                "give a [source] to read, a [target] to write, or both",
            );
        }
        for (half, side) in self.halves() {
            let place = Place { half, formula: self };
            let before = report.problems.len();
            input::check(&mut report, &place, side);
            stack::check(&mut report, &place, side);
            // Only sizes that are fine one by one are worth multiplying.
            if report.problems.len() == before {
                stack::weights_fit(&mut report, &place, side);
            }
        }
        head::check(&mut report, self);
        if report.problems.is_empty() { Ok(()) } else { Err(Problems(report.problems)) }
    }
}

/// Where a check stands: the half, and the whole around it.
struct Place<'a> {
    half: Half,
    formula: &'a Formula,
}

/// The problems found so far.
#[derive(Default)]
struct Report {
    problems: Vec<Problem>,
}

impl Report {
    fn refuse(&mut self, field: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) {
        let problem = Problem { field: field.into(), why: why.into(), hint: hint.into() };
        // Two attentions of a block may meet the same wrong position.
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// A size: at least 1, at most `limit`.
    fn size(&mut self, field: impl Into<String>, value: usize, limit: usize) {
        if value == 0 {
            self.refuse(field, "is 0", format!("give a size from 1 to {limit}"));
        } else if value > limit {
            self.refuse(field, format!("{value} cannot be meant"), format!("give a size from 1 to {limit}"));
        }
    }

    /// A size that may also be 0.
    fn size_or_none(&mut self, field: impl Into<String>, value: usize, limit: usize) {
        if value > limit {
            self.refuse(field, format!("{value} cannot be meant"), format!("give a size from 0 to {limit}"));
        }
    }

    /// A number above 0.
    fn positive(&mut self, field: impl Into<String>, value: f64) {
        if !(value.is_finite() && value > 0.0) {
            self.refuse(field, format!("{value} is not a positive number"), "give a finite number above 0");
        }
    }

    fn norm(&mut self, field: &str, norm: Option<Norm>) {
        let (kind, epsilon) = match norm {
            None => return,
            Some(Norm::Layer { epsilon, bias: _ }) => ("layer", epsilon),
            Some(Norm::Rms { epsilon }) => ("rms", epsilon),
        };
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            self.refuse(
                format!("{field}.{kind}.epsilon"),
                format!("{epsilon} would make the square root meaningless"),
                "give a small number such as 1e-5",
            );
        }
    }
    fn dense(&mut self, field: &str, dense: Option<Dense>) {
        self.norm(&format!("{field}.norm"), dense.and_then(|dense| dense.norm));
    }
}
