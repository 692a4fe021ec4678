//! What can go wrong while training.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of training.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The formula could not be lowered, or weights do not fit it.
    #[error(transparent)]
    Model(#[from] glassformer_model::Error),
    /// A graph could not be prepared or run.
    #[error(transparent)]
    Graph(#[from] glassformer_graph::Error),
    /// A checkpoint could not be read or written.
    #[error(transparent)]
    Families(#[from] glassformer_families::Error),
    /// Tensors could not be read or written.
    #[error(transparent)]
    Weights(#[from] glassformer_weights::Error),
    /// A vocabulary could not be read or learned, or a text not be encoded.
    #[error(transparent)]
    Tokens(#[from] glassformer_tokens::Error),
    /// A model could not do what it was asked to.
    #[error(transparent)]
    Tasks(#[from] glassformer_tasks::Error),
    /// The formula has no head to learn with.
    #[error(
        "the formula's head gives no scores, so there is nothing to learn; choose words, classes, tags or spans"
    )]
    NoHead,
    /// The graph needs numbers that the batch does not bring.
    #[error("the graph's input {0} has no numbers; give them with the batch")]
    MissingInput(String),
    /// The loss is not a finite number.
    #[error("the loss of step {step} is {loss}; lower the learning rate or clip gradients")]
    NotFinite {
        /// The step, counted from 1.
        step: usize,
        /// What it is.
        loss: f32,
    },
    /// The configuration cannot work.
    #[error("{place}: {what}; {hint}")]
    Config {
        /// The file, and the line where it is known.
        place: String,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The data cannot be used.
    #[error("{place}: {what}; {hint}")]
    Data {
        /// The file, and the line where it is known.
        place: String,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}; check the path, its permissions and the room on the disk", .path.display())]
    Io {
        /// What was tried: a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: the system's error with what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    /// The same error for who knows what is at `hidden` as `shown`: what is written gets its name when all of it is there.
    pub(crate) fn of_path(self, hidden: &Path, shown: &Path) -> Self {
        use {glassformer_families as families, glassformer_weights as weights};
        let name = |path: PathBuf| path.strip_prefix(hidden).map(|rest| shown.join(rest)).unwrap_or(path);
        let of_weights = |error| match error {
            weights::Error::Io { action, path, source } => {
                weights::Error::Io { action, path: name(path), source }
            }
            error => error,
        };
        match self {
            Self::Io { action, path, source } => Self::Io { action, path: name(path), source },
            Self::Weights(error) => Self::Weights(of_weights(error)),
            Self::Families(families::Error::Weights(error)) => Self::Families(of_weights(error).into()),
            Self::Families(families::Error::Write { path, source }) => {
                Self::Families(families::Error::Write { path: name(path), source })
            }
            error => error,
        }
    }

    /// Something that the configuration says and that cannot be.
    pub(crate) fn config(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Config { place: "the configuration".into(), what: what.into(), hint: hint.into() }
    }
}
