//! What can go wrong while training.

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
}
