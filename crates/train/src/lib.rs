//! Training: a loss, its gradients by a pass over the same graph that runs, and an optimiser.
//!
//! There is no forward pass here. [`Trainer`] lowers a formula with its parameters as inputs, appends the loss, asks the
//! gradient pass for every parameter, and runs the result on any backend. [`Run`] is everything around it that a
//! [`Config`] describes: data, vocabulary, schedule, checkpoints, and going on after an interruption with the same bits.
//!
//! Reading order: `trainer` (a step), `outer` (losses over several rows), `memory` (Transformer-XL's), `optimiser` (what a step appends to the gradients) and `schedule`; then `config`, `task` (what an
//! objective makes of data), `data`, `checkpoint`, `run`; `init` proposes a configuration.
#![forbid(unsafe_code)]

mod check;
mod checkpoint;
pub mod config;
mod data;
mod disk;
mod error;
mod evaluate;
pub mod init;
mod log;
mod lora;
mod memory;
mod optimiser;
mod outer;
mod passes;
mod report;
mod run;
mod schedule;
mod start;
mod task;
mod trainer;

pub use check::{Checked, Checker};
pub use config::Config;
pub use data::{Dropped, Order, Place, Prepared, Record, Records, Report, Store};
pub use error::Error;
pub use evaluate::{Evaluate, Evaluation};
pub use log::{Entry, Log};
pub use lora::LowRank;
pub use memory::Texts;
pub use optimiser::{Own, Rates};
pub use outer::OuterLoss;
pub use report::report;
pub use run::{Changes, Ended, Event, Run};
pub use task::{About, Encoded, Refused, Task};
pub use trainer::{Inside, More, Settings, Step, Trainer, training_graph};
