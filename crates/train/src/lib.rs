//! Training: a loss, its gradients by a pass over the same graph that runs, and an optimiser.
//!
//! There is no forward pass here. [`Trainer`] lowers a formula with its parameters as inputs, appends the loss, asks the
//! gradient pass for every parameter, and runs the result on any backend.
#![forbid(unsafe_code)]

mod adamw;
mod error;
mod trainer;

pub use adamw::{AdamW, Rates};
pub use error::Error;
pub use trainer::{Settings, Trainer, training_graph};
