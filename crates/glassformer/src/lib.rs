//! Transformer models in Rust: run them, train them, and see every number that they compute.
//!
//! Glassformer needs no C compiler, no Python and, once it is built, no network. It reads models as they are published: BERT and its
//! relatives, GPT-2, LLaMA, Qwen, Gemma, T5, BART, Marian and more, from Hugging Face folders (safetensors or PyTorch), GGUF files and
//! CTranslate2. Results equal the reference implementation's, token for token, whatever the batch and the number of threads.
//!
//! # Five things to do
//!
//! **Translate** with the model that is part of the library (feature `translator`):
//!
//! ```
//! # #[cfg(feature = "translator")] {
//! let translator = glassformer::translator()?; // English into Chinese
//! assert_eq!(translator.translate("Hello")?, "你好");
//! # }
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! **Embed** texts, or classify them, tag names, fill blanks and answer questions, with a [`TextEncoder`]:
//!
//! ```
//! use glassformer::{TextEncoder, backend, tasks::Embed};
//!
//! # let folder = "../../fixtures/tasks/sentences"; /*
//! let folder = "models/all-MiniLM-L6-v2";
//! # */
//! let encoder = TextEncoder::open(folder, backend())?;
//! let vectors = encoder.embed(&["The cat sat.", "A cat was sitting."], &Embed::default())?;
//! assert_eq!(vectors.len(), 2);
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! **Generate** text piece by piece, or translate, summarise and chat, with a [`TextGenerator`]:
//!
//! ```
//! use glassformer::{TextGenerator, backend};
//!
//! # let folder = "../../fixtures/tasks/story"; /*
//! let folder = "models/stories15m";
//! # */
//! let generator = TextGenerator::open(folder, backend())?;
//! let options = generator.default_options().max_new_tokens(12);
//! for piece in generator.stream("Once upon a time", &options)? {
//!     print!("{}", piece?);
//! }
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! **Train** a model on your data (feature `train`). A killed run resumes bit for bit:
//!
//! ```
//! # #[cfg(feature = "train")] {
//! use glassformer::backend;
//! use glassformer::train::{Changes, Config, Run};
//!
//! # let folder = std::env::temp_dir().join(format!("glassformer-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).expect("a folder");
//! # std::fs::write(folder.join("reviews.tsv"), "A fine cat\tPOSITIVE\nA sad dog\tNEGATIVE\n".repeat(4)).expect("a file");
//! # let (out, data) = (folder.join("run"), folder.join("reviews.tsv"));
//! # let (out, data, model) = (out.display(), data.display(), "../../fixtures/tasks/classes");
//! # let toml = format!(r#"
//! #     out = "{out}"
//! #     objective = "classify"
//! #     model.checkpoint = "{model}"
//! #     data = {{ train = [{{ path = "{data}" }}], length = 32 }}
//! #     batch.tokens = 1024
//! #     schedule = {{ steps = 2, rate = 3e-5 }}
//! # "#); /*
//! let toml = r#"
//!     out = "runs/reviews"
//!     objective = "classify"
//!     model.checkpoint = "models/bert"
//!     data.train = [{ path = "reviews.tsv" }] # a text, a tab and a label on each line
//!     batch.tokens = 1024
//!     schedule = { steps = 500, rate = 3e-5 }
//! "#;
//! # */
//! let config = Config::parse(&toml, "reviews.toml")?;
//! let mut run = Run::open(config, &*backend(), Changes::Refuse, &mut |event| drop(event))?;
//! run.go(&|| false, &mut |event| drop(event))?; // then open runs/reviews/model
//! # std::fs::remove_dir_all(&folder).expect("it goes");
//! # }
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! **Explain** an answer (feature `explain`): which words looked at which, and every number on the way. A [`Trace`] has the tensors by
//! name, a [`Walkthrough`] tells them in order, each under its formula:
//!
//! ```
//! # #[cfg(all(feature = "explain", feature = "translator"))] {
//! use glassformer::explain::{Detail, Follow, Lang, Paint, Terminal};
//!
//! let translator = glassformer::translator()?;
//! let follow = Follow { text: "The cat sat", second: None, max_new_tokens: 8, detail: Detail::Summary };
//! let followed = follow.written(translator.generator(), &glassformer::Cpu::default())?;
//! let terminal = Terminal { lang: Lang::English, paint: Paint::Plain, width: 100 };
//! println!("{}", terminal.render(&followed.walkthrough));
//! # }
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! # Features
//!
//! Without features the library runs models: everything above but what names one.
//!
//! | feature | adds |
//! |---|---|
//! | `translator` | a translator from English into Chinese, 14 MB in every program that uses it |
//! | `train` | training, evaluation, and metrics such as BLEU |
//! | `explain` | traces and walkthroughs |
//! | `quantize` | writing models in int8 and int4 |
//! | `constrain` | texts of a given form (`tasks::Form`): a JSON schema, a regular expression, a grammar |
//! | `hub` | models by name, fetched from Hugging Face's hub into the cache that its own tools use |
//!
//! # A model of your own
//!
//! A [`Formula`] says what a Transformer is, as data. A [`Model`] adds weights, a [`Backend`] such as [`Cpu`] runs it: [`Forward`] over
//! whole sequences of token ids, [`Generator`] token by token, `Trainer` to learn.
//!
//! ```
//! use glassformer::formula::named::{Original, original};
//! use glassformer::{Cpu, Decoding, Generator, Model, Request, Room, print};
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
//! // Weights drawn from a seed; `Model::open`, of the trait `Open`, reads them from a folder.
//! let model = Model::random(formula, 7)?;
//!
//! // Token ids in, token ids out.
//! let decoding = Decoding::greedy(Some(1), 8).start(0).beams(2);
//! let requests = vec![Request::source(vec![5, 17, 9], &[], decoding)?];
//! let room = Room::of(model.formula(), &requests, 1);
//! let answers = Generator::new(&model, &Cpu::default(), room)?.best(requests)?;
//! assert!(answers[0].ids.len() <= 8);
//! # Ok::<(), glassformer::Error>(())
//! ```
//!
//! # Where to go next
//!
//! - [`tasks`]: what [`TextEncoder`] and [`TextGenerator`] do, with their options.
//! - [`engine`]: generation from token ids, many requests at once.
//! - [`formula`]: every variant of a Transformer, and how formulas are printed, read and written.
//! - [`Error`]: one error for everything, with a kind to match.
//! - [`tokens`], [`weights`], [`families`], [`model`], [`graph`] and [`cpu`]: the parts beneath.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;

use std::sync::Arc;

/// README's snippets compile as they stand, and run.
#[cfg(all(doctest, feature = "hub", feature = "translator"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use error::{Error, ErrorKind};

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

pub use glassformer_cpu::Cpu;
pub use glassformer_engine::{
    Decoding, Finish, Forward, Generated, Generator, Request, Room, Sampling, Sequence, Session,
};
#[cfg(feature = "explain")]
pub use glassformer_explain::{Trace, Walkthrough};
pub use glassformer_families::Open;
pub use glassformer_formula::{Formula, print};
pub use glassformer_graph::Precision;
pub use glassformer_graph::{Backend, Reference};
pub use glassformer_model::Model;
pub use glassformer_tasks::{TextEncoder, TextGenerator};
pub use glassformer_tensor::Tensor;
#[cfg(feature = "train")]
pub use glassformer_train::Trainer;
#[cfg(feature = "translator")]
pub use glassformer_translator::{Translator, translator};
pub use glassformer_weights::Weights;

/// What runs models where nothing else is said: the CPU with all its cores, in `f32`.
///
/// To choose, write `Arc::new(Cpu::new(threads).with_precision(Precision::Int8))`, or take another [`Backend`].
pub fn backend() -> Arc<dyn Backend> {
    Arc::new(Cpu::default())
}
