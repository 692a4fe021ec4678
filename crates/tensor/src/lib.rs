//! Numbers without a model: aligned buffers, named-shape tensors, numbers in few bits, seeded random numbers and tolerance
//! compare.
//!
//! Nothing here knows what a layer is, and nothing here multiplies matrices.
#![forbid(unsafe_code)]

mod buffer;
mod coded;
mod compare;
pub mod half;
mod random;
mod tensor;

pub use buffer::Buffer;
pub use coded::{Base, Bits, Coded, CodedRow, Coding, Integers, LARGEST_STEP, SUPER, Scales};
pub use compare::{Difference, Tolerance, compare};
pub use half::{Half, Halves};
pub use random::Random;
pub use tensor::Tensor;
