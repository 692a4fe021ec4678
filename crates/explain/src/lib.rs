//! Showing a run: every number from the input words to the output word.
//!
//! A [`Trace`] holds the named tensors of one run, taken by the graph's tap pass. A [`Walkthrough`] puts them in order:
//! steps with a title, sentences, tensors, and the [`Claim`]s of a text about them, each judged. Renderers write a
//! walkthrough out: [`Terminal`] for people, [`json`] for programs. [`worked_example`] is the first walkthrough: its data lies
//! beside it, and nothing else here knows of it. [`Follow`] takes any text through any model with its tokenizer, [`Tour`] tells the
//! run. [`Expected`] compares a run with
//! tensors that were saved elsewhere.
//!
//! No number that is shown is computed here. Each is an element of a tensor that the engine made. No formula is written by hand:
//! each is made from the operation that ran, and a test evaluates it again from the numbers that are shown.
//!
//! ```
//! use glassformer_explain::{Lang, Paint, Terminal, worked_example};
//!
//! let walkthrough = worked_example::walkthrough(&glassformer_graph::Reference)?;
//! let terminal = Terminal { lang: Lang::English, paint: Paint::Plain, width: 80 };
//! assert!(terminal.render(&walkthrough).contains("cat  3.76  4.24  4.72  5.20"));
//! # Ok::<(), glassformer_explain::Error>(())
//! ```
#![forbid(unsafe_code)]

mod claim;
mod equation;
mod error;
mod follow;
mod names;
pub mod page;
pub mod record;
mod render;
pub mod replay;
mod text;
mod tour;
mod trace;
mod verify;
mod walkthrough;
pub mod why;
pub mod worked_example;

pub use claim::{Claim, Judged, OwnPlace, OwnTruth, Place, Relation, Verdict};
pub use equation::{Equation, Operand};
pub use error::Error;
pub use follow::{Follow, Followed};
pub use record::{About, Checked, Level, Record, Recording};
pub use render::{Paint, Terminal, json};
pub use text::{Lang, Text};
pub use tour::{Candidate, Choice, Detail, Ending, Look, Seen, Summary, Token, Tour};
pub use trace::{Axis, Likely, Trace, Traced};
pub use verify::{Expected, Mismatch, Verification};
pub use walkthrough::{Fact, Labels, Layout, Score, Shown, Step, Style, Walkthrough, Words};
