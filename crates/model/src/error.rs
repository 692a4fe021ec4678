//! What can go wrong between a formula, its weights and a graph.

use thiserror::Error;

/// An error of lowering or loading a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The formula cannot work.
    #[error("the formula cannot work: {0}")]
    Formula(#[from] glassformer_formula::Problems),
    /// The formula's file cannot be read.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A purpose that the formula has no stack for.
    #[error("{purpose} needs a {needs}, and this formula has none")]
    Purpose {
        /// What was asked for.
        purpose: &'static str,
        /// What it needs.
        needs: &'static str,
    },
    /// Weights that do not fit the formula, all of them together.
    #[error("the weights do not fit the formula:{}", list(.0))]
    Weights(Vec<Misfit>),
    /// The weights' file cannot be read.
    #[error(transparent)]
    Read(#[from] glassformer_weights::Error),
    /// The weights take more memory than the system gives.
    #[error(
        "the weights of the formula would take {:.1} GB, more than the system gives; make its widths, its layers or its vocabulary smaller",
        *.bytes as f64 / 1e9
    )]
    Memory {
        /// How much they would take.
        bytes: usize,
    },
    /// A graph could not be built, prepared or run.
    #[error(transparent)]
    Graph(#[from] glassformer_graph::Error),
}

/// One weight that does not fit.
#[derive(Clone, Debug, PartialEq)]
pub enum Misfit {
    /// It is not there.
    Missing {
        /// Its name.
        name: String,
        /// The shape that it should have.
        shape: Vec<usize>,
    },
    /// It has another shape.
    Shape {
        /// Its name.
        name: String,
        /// The shape that it should have.
        expected: Vec<usize>,
        /// The shape that it has.
        found: Vec<usize>,
    },
    /// Nothing in the formula uses it.
    Extra {
        /// Its name.
        name: String,
    },
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { name, shape } => {
                write!(f, "{name} is missing; it should be {shape:?}: is the file of another formula?")
            }
            Self::Shape { name, expected, found } => {
                let transposed = found.iter().rev().eq(expected.iter());
                let cause = if transposed { "it is transposed" } else { "a size of the formula differs" };
                write!(f, "{name} is {found:?} where {expected:?} is needed: {cause}")
            }
            Self::Extra { name } => write!(f, "{name} is used by nothing: is the formula complete?"),
        }
    }
}

fn list(misfits: &[Misfit]) -> String {
    misfits.iter().fold(String::new(), |text, misfit| text + "\n  " + &misfit.to_string())
}
