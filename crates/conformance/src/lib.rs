//! What every backend must do: a suite that each backend's tests call, so that a new one knows when it is done.
//!
//! [`check`] runs all of it: every case of every operation and its gradient, and random formulas, against the reference; a batch
//! against each sequence alone, and steps with stored keys and values against the whole, bit by bit. A backend grows operation by
//! operation: what it says it does not have ([`Error::Unsupported`](glassformer_graph::Error::Unsupported)) is left out and listed.
//!
//! [`Opaque`] is a backend whose memory the host cannot see. It counts the bytes that cross.
#![forbid(unsafe_code)]

mod formulas;
mod opaque;
mod samples;
mod suite;

pub use formulas::{LONGEST, VOCABULARY, alone, batch, bind, formula, model};
pub use opaque::{Crossed, Opaque};
pub use samples::{Sampled, Weights, bits, close, gradients, run, sampled, with_weights};
pub use suite::{Report, cached_is_whole, check, each_alone, formulas_agree, operations_agree, stepped};
