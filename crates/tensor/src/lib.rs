//! Numbers without a model: aligned buffers, named-shape tensors, seeded random numbers and tolerance compare.
//!
//! Nothing here knows what a layer is, and nothing here multiplies matrices.
#![forbid(unsafe_code)]

mod buffer;
mod compare;
mod random;
mod tensor;

pub use buffer::Buffer;
pub use compare::{Difference, Tolerance, compare};
pub use random::Random;
pub use tensor::Tensor;
