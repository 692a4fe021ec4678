//! What can go wrong between a formula and its numbers.

use thiserror::Error;

/// An error of building, preparing or running a graph.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation was given inputs that do not fit it.
    #[error("{node}: {why}")]
    Shape {
        /// The node's name.
        node: String,
        /// What does not fit.
        why: String,
    },
    /// A pass was asked for a value that the graph does not have.
    #[error("there is no value named {name:?}; the nearest is {nearest:?}")]
    NoSuchValue {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: String,
    },
    /// A gradient was asked for through an operation that has none.
    #[error("{node} has no gradient: {why}")]
    NoGradient {
        /// The node's name.
        node: String,
        /// The reason, as the operation's type gives it.
        why: &'static str,
    },
    /// A weight that the graph needs is not there.
    #[error("the weight {name} is missing; it should be {shape}")]
    MissingWeight {
        /// Its name.
        name: String,
        /// The shape that it should have.
        shape: String,
    },
    /// A weight has another size than the graph needs.
    #[error("the weight {name} holds {found} numbers where {shape} needs {expected}")]
    WeightSize {
        /// Its name.
        name: String,
        /// The shape that it should have.
        shape: String,
        /// How many numbers it should hold.
        expected: usize,
        /// How many it holds.
        found: usize,
    },
    /// A weight holds NaN or infinity.
    #[error(
        "the weight {name} is not finite at element {index}: {value}; the file is damaged or training diverged"
    )]
    NotFinite {
        /// Its name.
        name: String,
        /// The first such element.
        index: usize,
        /// What stands there.
        value: f32,
    },
    /// A batch that cannot be run: a token beyond the vocabulary, an empty sequence, a position beyond the table.
    #[error("{what}; {hint}")]
    Batch {
        /// What is wrong, and where.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A batch larger than the plan was made for.
    #[error("the batch needs {need} {what}, the plan has room for {have}; prepare it with a larger capacity")]
    Capacity {
        /// Of what.
        what: &'static str,
        /// How many the batch needs.
        need: usize,
        /// How many there are.
        have: usize,
    },
    /// A backend that does not have an operation, or not this form of it.
    #[error("{node}: this backend does not have {op}: {why}")]
    Unsupported {
        /// The node's name.
        node: String,
        /// The operation.
        op: &'static str,
        /// What of it is missing.
        why: String,
    },
    /// Outputs were asked of a backend that did not run last.
    #[error("the last run was not on this backend, or there was none; run a batch first")]
    NoRun,
    /// More memory than the system gives.
    #[error("{what} would take {:.1} GB, more than the system gives", *.bytes as f64 / 1e9)]
    Memory {
        /// What would take it.
        what: &'static str,
        /// How much.
        bytes: usize,
    },
}
