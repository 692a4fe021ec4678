//! Walkthroughs written out: for people in a terminal, for programs as JSON.

mod claims;
mod heat;
mod ink;
pub mod json;
mod layout;
mod numbers;
mod summary;
mod tensor;
mod terminal;
mod why;

pub use ink::{Paint, Terminal};
