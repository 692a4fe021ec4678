//! What a Transformer is, as data: the operators of document 1 as Rust types.
//!
//! `Y = softmax(○ₗ[encoder block] · ○ₗ[decoder block](X) · W_o)`: composition ○ is [`Stack`] with its [`Depth`], the
//! residual I + f is [`Sublayer`], `MultiHead` is [`Attention`], FFN is [`FeedForward`], LN is [`Norm`], and the temporal
//! ▷ is [`Reach::Past`]. A formula can be checked, printed, read and written. It is never executed here: `model` lowers it
//! into a graph.
//!
//! ```
//! use glassformer_formula::{Formula, print};
//!
//! let original = Formula::original_base();
//! original.check()?;
//! assert_eq!(
//!     print::unicode(&original),
//!     "Y = softmax( ○ₗ₌₁⁶[ LN ∘ (I + FFN ∘ LN ∘ (I + MultiHead)) ] · \
//!      ○ₗ₌₁⁶[ MaskedAttn ▷ Enc-DecAttn ▷ FFN ](X) · Wₒ )",
//! );
//! # Ok::<(), glassformer_formula::Problems>(())
//! ```
#![forbid(unsafe_code)]

pub mod check;
mod half;
pub mod named;
pub mod print;
mod text;
mod types;

pub use check::{Problem, Problems};
pub use named::{NAMES, named};
pub use text::TextError;
pub use types::*;
