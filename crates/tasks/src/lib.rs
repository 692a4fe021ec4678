//! What people want of a model: text in; embeddings, words, classes, tags, answers, translations and stories out.
//!
//! [`TextEncoder::open`] takes a model's folder or file, and so does [`TextGenerator::open`] for models that write; each task is one call
//! with its options. Many texts run as packed batches,
//! results keep the order of the texts, and each text gets the same bits as alone. A text longer than the model can read is an
//! error that says so, unless the options say [`Long::Cut`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use glassformer_tasks::{Fill, TextEncoder};
//! # fn example(backend: Arc<dyn glassformer_graph::Backend>) -> Result<(), glassformer_tasks::Error> {
//! let encoder = TextEncoder::open("bert-folder", backend)?;
//! for blank in &encoder.fill(&["The cat [MASK] on the mat."], &Fill::default())?[0] {
//!     println!("{} {:.3}", blank.choices[0].word, blank.choices[0].score);
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod answer;
mod card;
mod chat;
mod classify;
mod compare;
mod decoding;
mod embed;
mod encode;
mod error;
mod fill;
#[cfg(feature = "constrain")]
mod form;
mod gguf;
mod languages;
mod likelihood;
mod open;
mod runs;
mod samples;
mod score;
mod sentences;
mod service;
mod stop;
mod tag;
mod text_encoder;
mod text_generator;
mod translate;
mod writing;

pub use answer::{Answer, Found, Unanswerable};
pub use card::{Card, PartSize, Stored, TaskNeeds, WeightMemory};
pub use chat::{Chat, Message, Role};
pub use classify::{Classify, Label, Problem};
pub use compare::Comparison;
pub use decoding::{decoding, read as read_decoding, stop_strings};
pub use embed::{Embed, Prompt};
pub use encode::{Input, Long, without_mark};
pub use error::Error;
pub use fill::{Blank, Choice, Fill};
#[cfg(feature = "constrain")]
pub use form::Form;
pub use languages::Language;
pub use likelihood::{Likelihood, ScoredToken};
pub use open::{chat_template, complete, open, tokenizer};
pub use runs::EncoderLoad;
pub use service::{More, Order, Prepare, QueueLimits, Rooms, Service, ServiceLoad, Ticket, Update};
pub use tag::{Entity, Merge, Tag};
pub use text_encoder::{TextEncoder, question_rows};
pub use text_generator::{Files, Generate, GeneratedText, Reserve, Tell, TextGenerator, silent};
pub use translate::{Split, Translate, Translation};
pub use writing::{Caller, News, TextStream, Wake, Writing};
