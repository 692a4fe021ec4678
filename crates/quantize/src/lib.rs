//! Models written again in few bits: which weights get how many, how they are rounded, and the file.
//!
//! Each number of a weight can go to the code that is nearest to it. Better is what a [`Fitted`] rounding does: it knows what the
//! weight is multiplied by, and lets each number make up for the errors of those before it. Nothing here knows a processor, and what
//! runs in few bits afterwards is `cpu`'s.
#![forbid(unsafe_code)]

mod code;
mod error;
mod fit;
mod fitted;
mod triangle;
mod write;

pub use error::Error;
pub use fitted::Fitted;
pub use write::{Quantize, Written};
