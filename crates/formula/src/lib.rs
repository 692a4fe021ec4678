//! What a Transformer is, as data: the operators of document 1 as Rust types.
//!
//! `Y = softmax(○ₗ[encoder block] · ○ₗ[decoder block](X) · W_o)`: composition ○ is [`Stack`] with its [`Depth`], the
//! residual I + f is [`Sublayer`], `MultiHead` is [`Attention`], FFN is [`FeedForward`], LN is [`Norm`], and the temporal
//! ▷ is [`Reach::Past`]. A formula can be checked, printed, read and written. It is never executed here: `model` lowers it
//! into a graph.
//!
#![forbid(unsafe_code)]

pub mod check;
mod half;
pub mod named;
mod text;
mod types;

pub use check::{Problem, Problems};
pub use named::{NAMES, named};
pub use text::TextError;
pub use types::*;
