//! Formulas read as a person reads them, and evaluated in `f64`: written from the papers, without the engine.
//!
//! A line such as `S = Q · Kᵀ / √48, h = 6, j ≤ i` is taken apart by [`parse`], and [`evaluate`] computes its right side from the
//! numbers that its symbols stand for. So whatever is shown can be checked by whoever has the numbers: a trace on disk, or a test.

mod array;
mod evaluate;
mod functions;
mod given;
mod mathml;
pub mod parse;
mod waves;

pub use array::Array;
pub use evaluate::{World, evaluate};
pub use mathml::{mathml, symbol};
