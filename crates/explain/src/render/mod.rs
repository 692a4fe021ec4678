//! Walkthroughs written out: for people in a terminal, for programs as JSON.

mod claims;
mod ink;
pub mod json;
mod layout;
mod numbers;
mod summary;
mod tensor;
mod terminal;

pub use ink::{Paint, Terminal};
