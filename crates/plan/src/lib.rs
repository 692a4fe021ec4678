//! From a graph to steps, for any backend: fusions, types of values, lifetimes and places in memory.
//!
//! A backend asks [`Fusions`] which operations a product does along the way, and a [`Rule`] what each weight is held in. Then it
//! appends a call of one of its kernels for each node to [`Steps`], which knows what must wait for what and how long each slot
//! lives, and at last gives every slot a place ([`place`]).
#![forbid(unsafe_code)]

mod fuse;
mod kept;
mod place;
mod steps;
mod types;

pub use fuse::{EpilogueKind, Fused, Fusions};
pub use kept::Kept;
pub use place::{Life, place};
pub use steps::{Count, Home, Slot, SlotId, Step, Steps};
pub use types::{About, Rule, Type};
