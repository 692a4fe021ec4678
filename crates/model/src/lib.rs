//! From a formula and its weights to graphs that run.
//!
//! [`lower`] writes a [`Formula`](glassformer_formula::Formula) out as a graph, for one of three purposes. It is the only
//! forward pass that there is: inference, training and showing all start from it. No architecture has a name here.
#![forbid(unsafe_code)]

mod attend;
mod depth;
mod error;
mod head;
mod input;
mod lower;
mod model;
mod parameters;
mod position;
mod rotary;
mod sublayer;

pub use error::Error;
pub use lower::{Lowering, Purpose, lower};
pub use model::{Model, Source, page_layout};
pub use parameters::{Parameter, initialise, parameters};
