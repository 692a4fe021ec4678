//! A Transformer as a flat list of coarse operations over packed rows, and what can be done to such a list.
//!
//! Each operation is one file of [`ops`]: its maths, shape rule, gradient, reference implementation and cases. A
//! [`Graph`] is built by a [`Builder`], turned into another graph by the passes [`grad`], [`tap`], [`edit`], [`given`] and [`moments`],
//! and run by a [`Backend`]. [`Reference`] is one: naive, in `f64`, and the oracle of all others. There is no fast path here.
#![forbid(unsafe_code)]

mod backend;
mod batch;
mod cases;
mod dtype;
mod error;
mod graph;
mod leaders;
mod limits;
pub mod ops;
mod pages;
mod passes;
mod precision;
mod reference;
mod sensitive;
mod shape;
mod state;
mod work;

pub use backend::{Backend, Capacity, Constants, Runner, SideCapacity};
pub use batch::{Batch, Packed, Span};
pub use cases::{Case, Labels, Sample};
pub use dtype::Dtype;
pub use error::Error;
pub use graph::{At, Builder, Graph, Leaf, Node, NodeId, Origin, Update, Value, ValueInfo};
pub use leaders::{Ask, Leaders, Sum, offer};
pub use limits::Limits;
pub use ops::{Op, Operation};
pub use pages::{PAGE, PageLayout, Pages, Slot};
pub use passes::{edit, given, grad, moments, tap};
pub use precision::Precision;
pub use reference::{Array, Reference, World};
pub use sensitive::{is_sensitive, is_table};
pub use shape::{Rows, Shape, Side};
pub use state::{Parts, State};
pub use work::{Tally, Work, multiplied};
