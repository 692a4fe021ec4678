//! A Transformer engine that runs, trains and shows every kind of Transformer from one description.
//!
//! A [`Formula`] says what a Transformer is, a [`Model`] adds weights, a backend such as [`Cpu`] runs it: [`Forward`] over
//! whole sequences, [`Generator`] word by word, [`Trainer`] to learn, [`Trace`] to see every number on the way.
//!
//! ```
//! use glassformer::formula::named::{Original, original};
//! use glassformer::{Cpu, Decoding, Finish, Generator, Model, Request, Room, Sequence, Trace, print};
//!
//! // A small encoder-decoder, written as its formula.
//! let formula = original(Original {
//!     width: 16,
//!     heads: 2,
//!     hidden: 32,
//!     source_layers: 1,
//!     target_layers: 1,
//!     source_vocabulary: 20,
//!     target_vocabulary: 20,
//! });
//! assert!(print::unicode(&formula).starts_with("Y = softmax( ○"));
//!
//! // Weights drawn from a seed; `Model::open`, of the trait [`Open`], reads them from a folder.
//! let model = Model::random(formula, 7)?;
//! let cpu = Cpu::default();
//!
//! // Token ids in, token ids out.
//! let decoding = Decoding { start: Some(0), ..Decoding::greedy(Some(1), 8) };
//! let requests = vec![Request::source(vec![5, 17, 9], &[], decoding)?];
//! let room = Room::of(model.formula(), &requests, 1);
//! let answers = Generator::new(&model, &cpu, room)?.best(requests)?;
//! assert!(answers[0].ids.len() == 8 || answers[0].finish == Finish::Eos);
//!
//! // Every number of a run, by name.
//! let sequence = Sequence { source: vec![5, 17, 9], target: vec![0], ..Sequence::default() };
//! let trace = Trace::run(&model, &cpu, &sequence)?;
//! assert_eq!(trace.get("source.0.attend.probs")?.tensor.shape(), [3, 3, 2]); // queries, keys, heads
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is not re-exported here by itself is below [`formula`], [`graph`], [`model`], [`engine`], [`train`], [`explain`],
//! [`families`], [`tasks`], [`mod@translator`], [`quantize`], [`metrics`], [`tokens`], [`weights`], [`tensor`] and [`cpu`], one module for each part. With the
//! feature `hub`, which is on by default, `hub` finds and fetches models by name.
#![forbid(unsafe_code)]

/// README's snippets compile as they stand.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use glassformer_cpu as cpu;
pub use glassformer_engine as engine;
#[cfg(feature = "explain")]
pub use glassformer_explain as explain;
pub use glassformer_families as families;
pub use glassformer_formula as formula;
pub use glassformer_graph as graph;
#[cfg(feature = "hub")]
pub use glassformer_hub as hub;
#[cfg(feature = "train")]
pub use glassformer_metrics as metrics;
pub use glassformer_model as model;
#[cfg(feature = "quantize")]
pub use glassformer_quantize as quantize;
pub use glassformer_tasks as tasks;
pub use glassformer_tensor as tensor;
pub use glassformer_tokens as tokens;
#[cfg(feature = "train")]
pub use glassformer_train as train;
#[cfg(feature = "translator")]
pub use glassformer_translator as translator;
pub use glassformer_weights as weights;

pub use glassformer_cpu::{Cpu, Precision};
pub use glassformer_engine::{
    Decoding, Finish, Forward, Generated, Generator, Request, Room, Sampling, Sequence, Session,
};
#[cfg(feature = "explain")]
pub use glassformer_explain::{Trace, Walkthrough};
pub use glassformer_families::Open;
pub use glassformer_formula::{Formula, print};
pub use glassformer_graph::{Backend, Reference};
pub use glassformer_model::Model;
pub use glassformer_tasks::{TextEncoder, TextGenerator};
pub use glassformer_tensor::Tensor;
#[cfg(feature = "train")]
pub use glassformer_train::Trainer;
#[cfg(feature = "translator")]
pub use glassformer_translator::{Translator, translator};
pub use glassformer_weights::Weights;
