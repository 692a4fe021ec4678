//! What can go wrong while a model is written in few bits.

use thiserror::Error;

/// An error of writing a model in few bits.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written, or a weight holds what few bits cannot say.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The file of weights cannot be written.
    #[error(transparent)]
    Weights(#[from] glassformer_weights::Error),
    /// The model cannot be lowered.
    #[error(transparent)]
    Model(#[from] glassformer_model::Error),
    /// What products read cannot be measured.
    #[error(transparent)]
    Graph(#[from] glassformer_graph::Error),
    /// A text cannot be run.
    #[error(transparent)]
    Engine(#[from] glassformer_engine::Error),
}
