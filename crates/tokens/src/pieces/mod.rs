//! SentencePiece (Kudo and Richardson 2018): its file, its normaliser, unigram and BPE, written from the format.
//!
//! The reference is Google's library: ids, spans and decoded texts are the same, and the fixtures hold them together. The
//! tokenizers library can run a converted model, but its conversion differs on runs of spaces, on decomposed
//! characters and on unknown ones, so it is not used here.

mod bpe;
mod charsmap;
mod encode;
mod join;
mod model;
mod normalize;
mod proto;
mod read;
mod trie;
mod unigram;

pub(crate) use charsmap::{Charsmap, REPLACEMENT};
pub(crate) use join::Item;
pub(crate) use model::{Algorithm, Duplicates, Kind, Model, Parts, Piece, byte_of};
pub(crate) use normalize::Normalizer;
pub(crate) use read::{File, read};
pub(crate) use trie::Trie;
