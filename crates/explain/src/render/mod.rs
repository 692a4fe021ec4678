//! Walkthroughs written out: for people in a terminal, for programs as JSON.

mod claims;
pub mod json;
mod layout;
mod numbers;
mod tensor;
mod terminal;

pub use terminal::{Paint, Terminal};
