//! Text to token ids and back, and chat templates, from files that are not trusted.
//!
//! [`Tokenizer::open`] takes a model's folder and picks what is there: a `tokenizer.json`, BERT's `vocab.txt`, GPT-2's and
//! RoBERTa's `vocab.json` with `merges.txt`, a SentencePiece model, Marian's pair of them, or CTranslate2's vocabulary.
//! [`Tokenizer::from_gguf`] takes the vocabulary of a GGUF file. Ids, spans and decoded texts are those of the reference
//! implementations (transformers, tokenizers, sentencepiece), which the fixtures hold them to. Nothing here knows a
//! tensor or a model.
//!
//! ```no_run
//! # fn main() -> Result<(), glassformer_tokens::Error> {
//! use glassformer_tokens::{Special, SpecialText, Tokenizer};
//!
//! let tokenizer = Tokenizer::open("model-folder")?;
//! let encoding = tokenizer.encode("今天天气很好。", Special::Add)?;
//! let text = tokenizer.decode(&encoding.ids, SpecialText::Skip)?;
//!
//! let mut stream = tokenizer.stream(SpecialText::Skip); // piece by piece, never half a character
//! for id in encoding.ids {
//!     print!("{}", stream.push(&tokenizer, id)?);
//! }
//! println!("{}", stream.finish(&tokenizer)?);
//! # Ok(())
//! # }
//! ```
//!
//! Where it differs from transformers, on purpose: a `tokenizer.json` is taken as it stands, where some Python classes
//! rebuild it; a SentencePiece model alone is run as SentencePiece runs it, where transformers converts it; and the words of
//! a GGUF file are cut as llama.cpp cuts them. Text that a template marks as safe HTML is plain text.
//!
//! Reading order: `open` (which files make which tokenizer), `tokenizer` (what the rest of the engine sees), then
//! `pieces` (SentencePiece) or `library` (everything that can be written as a `tokenizer.json`).
#![forbid(unsafe_code)]

mod added;
mod bytes;
mod chat;
mod config;
mod encoding;
mod error;
mod files;
mod gguf;
mod jinja;
mod learn;
mod library;
mod open;
mod pieced;
mod pieces;
mod readable;
mod stream;
mod tokenizer;
mod vocabulary;

pub use bytes::TokenBytes;
pub use chat::{ChatTemplate, Conversation, Ending};
pub use encoding::{Encoding, Part, Span, Special, SpecialText};
pub use error::{Error, in_words};
pub use gguf::GgufVocabulary;
pub use learn::{Learn, LearnedVocabulary, Marks, Pieces};
pub use stream::Stream;
pub use tokenizer::{SpecialIds, Tokenizer};
pub use vocabulary::Vocabulary;
