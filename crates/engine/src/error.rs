//! What can go wrong while running a model.

use thiserror::Error;

/// An error of the engine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The model could not be lowered or its weights do not fit.
    #[error(transparent)]
    Model(#[from] glassformer_model::Error),
    /// A graph could not be prepared or run.
    #[error(transparent)]
    Graph(#[from] glassformer_graph::Error),
    /// A request that cannot be answered.
    #[error("request {request}: {what}; {hint}")]
    Request {
        /// Which one, counted from 0.
        request: usize,
        /// What is wrong with it.
        what: String,
        /// What to do.
        hint: String,
    },
}
