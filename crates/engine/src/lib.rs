//! The loops around a plan: running whole batches, and generating token by token.
//!
//! A loop lives here, in Rust; the plan is one step of it. The same step takes a whole prompt or a single token. A
//! [`Generator`] is a model prepared for that, a [`Session`] runs many [`Request`]s at once, and [`Decoding`] says how tokens
//! are chosen.
#![forbid(unsafe_code)]

mod admit;
mod bench;
mod constraint;
mod decoding;
mod draft;
mod error;
mod forward;
mod generate;
mod job;
mod kept;
mod limits;
mod observe;
mod processors;
mod request;
mod search;
mod session;

#[doc(hidden)] // for `glassformer bench`
pub use bench::{Bench, Kind, Workload};
pub use constraint::{Allowed, Constraint, Matcher};
pub use decoding::{Decoding, Draft, EarlyStopping, LONGEST, MOST_BEAMS, NEW_TOKENS, Problem, Sampling};
pub use error::Error;
pub use forward::{Asked, Forward, Named, Output, Passes, Sequence};
pub use generate::Generator;
pub use observe::{Continuation, Ended, Observed, Observer, Stage};
pub use request::{Event, Finish, Generated, Request, Room, Token};
pub use search::{NOT_NUMBERS, Stopper};
pub use session::{Load, Session};
