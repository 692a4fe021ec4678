//! `tokenizer.json`, and what can be written as one, through the tokenizers library.
//!
//! The library is the reference implementation itself, so its answers are the reference's by construction. What is ours:
//! the checks before it is given a file, patterns with limits, and that a panic in it is an error here.

mod build;
mod check;
mod pattern;
mod split;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{AddedToken, EncodeInput, NormalizerWrapper, TokenizerImpl};

pub(crate) use build::{Around, ByteLevel, WordPiece};
pub(crate) use split::Splits;
pub(crate) use words::Words;

use self::check::Outline;
use crate::config::{Config, Token};
use crate::encoding::{Encoding, Part, Positions, Span, Special, SpecialText};
use crate::error::Error;

type Inner = TokenizerImpl<ModelWrapper, NormalizerWrapper, Splits, PostProcessorWrapper, DecoderWrapper>;

/// A tokenizer of the library's.
pub(crate) struct Library {
    inner: Inner,
    /// Where the file wants texts to be cut.
    pub truncation: Option<usize>,
    /// Whether the text of some tokens is the beginning of the text of more tokens.
    pub growth: Growth,
    /// Whether the vocabulary spells bytes as letters of a table (`ByteLevel`).
    pub spells_bytes: bool,
    /// Whether the last token of a text is written in another way than the same token before others (`BPEDecoder`).
    pub joins_words: bool,
}

/// How the text of tokens changes when another token follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It only grows, apart from characters that are not complete (which show as U+FFFD).
    Appends,
    /// The same, but a run of byte tokens is settled only when it has ended: one byte that is wrong spoils all of it.
    AppendsAfterBytes,
    /// Nothing is known.
    Unknown,
}

/// Runs the library's code; a panic in it is an error.
pub(crate) fn guarded<T>(
    action: &'static str,
    run: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T, Error> {
    let failed = |reason: String| Error::Library { action, reason };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => match error.downcast::<Error>() {
            Ok(ours) => Err(*ours),
            Err(other) => Err(failed(other.to_string())),
        },
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(failed(format!("the tokenizers library panicked: {text}")))
        }
    }
}

impl Library {
    /// From the bytes of a `tokenizer.json`; `place` names the file in errors.
    pub fn new(json: &[u8], place: &str) -> Result<Self, Error> {
        let outline = Outline::new(json).map_err(|reason| Error::broken(place, reason))?;
        let load = || {
            let mut inner: Inner = serde_json::from_slice(json)?;
            inner.with_truncation(None)?;
            inner.with_padding(None);
            // Dropping merges at random is for training a model, never for using one.
            if let ModelWrapper::BPE(bpe) = inner.get_model()
                && bpe.dropout.is_some()
            {
                let mut bpe = bpe.clone();
                bpe.dropout = None;
                inner.with_model(ModelWrapper::BPE(bpe));
            }
            Ok(inner)
        };
        let inner = guarded("load", load).map_err(|error| match error {
            Error::Library { reason, .. } => Error::broken(place, reason),
            other => other,
        })?;
        let truncation = outline.truncation.map(|truncation| truncation.max_length);
        let spells_bytes = kinds(&outline.decoder).contains(&"ByteLevel");
        let joins_words = kinds(&outline.decoder).contains(&"BPEDecoder");
        Ok(Self { inner, truncation, growth: growth(&outline.decoder), spells_bytes, joins_words })
    }

    /// From a JSON value that this crate has made.
    pub fn from_value(json: &Value, place: &str) -> Result<Self, Error> {
        Self::new(json.to_string().as_bytes(), place)
    }

    /// Whether the model spells it when a token goes on with a word.
    pub fn marks_pieces(&self) -> bool {
        let prefix = match self.inner.get_model() {
            ModelWrapper::WordPiece(model) => Some(&model.continuing_subword_prefix),
            ModelWrapper::BPE(model) => model.continuing_subword_prefix.as_ref(),
            ModelWrapper::WordLevel(_) | ModelWrapper::Unigram(_) => None,
        };
        prefix.is_some_and(|prefix| !prefix.is_empty())
    }

    /// What `tokenizer_config.json` says besides: special tokens, and how BERT's texts are prepared.
    pub fn configure(&mut self, config: &Config) -> Result<(), Error> {
        let known = self.inner.get_added_vocabulary().get_vocab();
        let missing: Vec<AddedToken> =
            config.tokens().filter(|token| !known.contains_key(&token.content)).map(added).collect();
        if !missing.is_empty() {
            guarded("add special tokens", || self.inner.add_tokens(missing))?;
        }
        if let Some(NormalizerWrapper::BertNormalizer(bert)) = self.inner.get_normalizer() {
            let flag = |key: &str, value: bool| config.flag(key).unwrap_or(value);
            let changed = BertNormalizer::new(
                bert.clean_text,
                flag("tokenize_chinese_chars", bert.handle_chinese_chars),
                if config.says("strip_accents") { config.flag("strip_accents") } else { bert.strip_accents },
                flag("do_lower_case", bert.lowercase),
            );
            guarded("change the normaliser", || self.inner.with_normalizer(Some(changed)).map(|_| ()))?;
        }
        Ok(())
    }

    /// Whether tidying spaces after decoding would destroy some: the reference does not do it to BPE.
    pub fn keeps_spaces(&self) -> bool {
        matches!(self.inner.get_model(), ModelWrapper::BPE(_))
    }

    /// Every token and its id.
    pub fn vocabulary(&self) -> Vec<(String, u32)> {
        self.inner.get_vocab(true).into_iter().collect()
    }

    /// Whether decoding may skip this token.
    pub fn is_special(&self, token: &str) -> bool {
        self.inner.get_added_vocabulary().is_special_token(token)
    }

    /// A text, or a pair of them, as tokens.
    pub fn encode(&self, first: &str, second: Option<&str>, special: Special) -> Result<Encoding, Error> {
        let input = match second {
            None => EncodeInput::Single(first.into()),
            Some(second) => EncodeInput::Dual(first.into(), second.into()),
        };
        // Spans in characters, as the reference has them: the library trims spaces from spans one unit for a space, and
        // a unit that is a byte would cut characters. Where every character is a byte it need not count them.
        let add = special == Special::Add;
        let ascii = first.is_ascii() && second.is_none_or(str::is_ascii);
        let encode =
            || if ascii { self.inner.encode(input, add) } else { self.inner.encode_char_offsets(input, add) };
        let found = guarded("encode", encode)?;
        let positions = [Positions::new(first), Positions::new(second.unwrap_or(""))];
        let special: Vec<bool> = found.get_special_tokens_mask().iter().map(|&mask| mask != 0).collect();
        let part = |(sequence, special): (Option<usize>, &bool)| match (sequence, special) {
            (_, true) => None,
            (Some(1), false) => Some(Part::Second),
            (_, false) => Some(Part::First),
        };
        let parts: Vec<Option<Part>> = found.get_sequence_ids().into_iter().zip(&special).map(part).collect();
        let chars: Vec<Span> = found.get_offsets().iter().map(|&(start, end)| Span { start, end }).collect();
        let bytes = chars
            .iter()
            .zip(&parts)
            .map(|(span, part)| {
                let positions = &positions[usize::from(*part == Some(Part::Second))];
                Span { start: positions.byte(span.start), end: positions.byte(span.end) }
            })
            .collect();
        Ok(Encoding {
            ids: found.get_ids().to_vec(),
            bytes,
            chars,
            types: found.get_type_ids().to_vec(),
            special,
            words: found.get_word_ids().to_vec(),
            parts,
        })
    }

    /// Tokens as a text.
    pub fn decode(&self, ids: &[u32], special: SpecialText) -> Result<String, Error> {
        guarded("decode", || self.inner.decode(ids, special == SpecialText::Skip))
    }
}

fn added(token: &Token) -> AddedToken {
    AddedToken::from(token.content.clone(), token.special)
        .single_word(token.single_word)
        .lstrip(token.lstrip)
        .rstrip(token.rstrip)
        .normalized(token.normalized)
}

/// What is known of a decoder: see [`Growth`].
fn growth(decoder: &Value) -> Growth {
    if decoder.is_null() {
        return Growth::Appends;
    }
    let parts = decoder.get("decoders").and_then(Value::as_array).into_iter().flatten();
    let strip_right = parts.into_iter().any(|part| part.get("stop").is_some_and(|stop| *stop != 0));
    match kinds(decoder)[..] {
        ["ByteLevel" | "WordPiece" | "Metaspace" | "BPEDecoder" | "Replace"] | ["Replace", "Fuse"] => {
            Growth::Appends
        }
        // As Llama 2 has it: tokens one by one, then bytes, then all in one, then a space less at the beginning.
        ["Replace", "ByteFallback", "Fuse"] => Growth::AppendsAfterBytes,
        ["Replace", "ByteFallback", "Fuse", "Strip"] if !strip_right => Growth::AppendsAfterBytes,
        _ => Growth::Unknown,
    }
}

/// The steps of a decoder.
fn kinds(decoder: &Value) -> Vec<&str> {
    let kind = |value| Value::get(value, "type").and_then(Value::as_str).unwrap_or("");
    match kind(decoder) {
        "Sequence" => {
            decoder.get("decoders").and_then(Value::as_array).into_iter().flatten().map(kind).collect()
        }
        alone => vec![alone],
    }
}
