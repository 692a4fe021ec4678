//! The loops around a plan: running whole batches, and generating token by token.
//!
//! A loop lives here, in Rust; the plan is one step of it. The same step takes a whole prompt or a single token.
#![forbid(unsafe_code)]

mod error;
mod forward;
mod generate;

pub use error::Error;
pub use forward::{Asked, Forward, Passes, Sequence};
pub use generate::{Finish, Generated, Generator, Request, Room, Stop};
