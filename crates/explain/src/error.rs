//! What can go wrong while showing a run.

use std::path::PathBuf;

use thiserror::Error;

/// An error of tracing a run or of telling about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The run failed.
    #[error(transparent)]
    Engine(#[from] glassformer_engine::Error),
    /// The model could not be made or lowered.
    #[error(transparent)]
    Model(#[from] glassformer_model::Error),
    /// A graph could not be tapped, prepared or run.
    #[error(transparent)]
    Graph(#[from] glassformer_graph::Error),
    /// The text could not be read, or nothing written.
    #[error(transparent)]
    Tasks(#[from] glassformer_tasks::Error),
    /// A text of which nobody reads every number.
    #[error("the text has {tokens} tokens")]
    Long {
        /// How many tokens the text has.
        tokens: usize,
        /// How many can be followed.
        limit: usize,
    },
    /// The model reads one text, and two were given; or two, and one was given.
    #[error("{what}")]
    Pair {
        /// What is wrong.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// A question about a run that it cannot answer.
    #[error("{what}")]
    Why {
        /// What is wrong.
        what: String,
    },
    /// Edits that cannot be read.
    #[error("the edits cannot be read: {why}")]
    Edits {
        /// What is wrong.
        why: String,
    },
    /// A tensor that the run did not make.
    #[error("the run has no tensor named {name:?}; the nearest is {nearest:?}")]
    NoTensor {
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: String,
    },
    /// What was written is not behind what was read.
    #[error("{written} tokens cannot have been written after the first of {target}")]
    Written {
        /// How many tokens were written.
        written: usize,
        /// How many there are in the target.
        target: usize,
    },
    /// A layer, a head or a word was asked for that there is not.
    #[error("there is no {what} {asked}: there are {there}")]
    Detail {
        /// What was asked for.
        what: &'static str,
        /// Which one, counted from 1.
        asked: usize,
        /// How many there are.
        there: usize,
    },
    /// A claim about an element that its tensor does not have.
    #[error("{claim} is about element {place} of {tensor}, which is {shape:?}")]
    NoElement {
        /// The claim.
        claim: String,
        /// The element or axis.
        place: String,
        /// The tensor.
        tensor: String,
        /// The tensor's shape.
        shape: Vec<usize>,
    },
    /// A tensor of a file to compare with is missing or cannot be.
    #[error("{name} {why}")]
    Saved {
        /// The tensor.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file of a trace that cannot be read, or says what cannot be.
    #[error("{} {why}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file of numbers cannot be written or read.
    #[error(transparent)]
    Weights(#[from] glassformer_weights::Error),
    /// A file of a walkthrough's data says something that cannot be.
    #[error("{file}: {why}")]
    Data {
        /// The file.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
}
