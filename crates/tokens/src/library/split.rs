//! Pre-tokenizers: the library's own, except that patterns go through [`Pattern`].
//!
//! The library's own patterns stop in silence where going back takes too long, and the rest of the text is then one
//! word: a wrong answer instead of an error.

use serde::{Deserialize, Deserializer, de};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;
use tokenizers::tokenizer::pattern::Invert;
use tokenizers::{PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

use super::pattern::{GPT2, Pattern, Room};

/// How a text is cut into words.
#[derive(Debug)]
pub(crate) enum Splits {
    Sequence(Vec<Splits>),
    Pattern {
        pattern: Pattern,
        behavior: SplitDelimiterBehavior,
        side: Side,
    },
    /// GPT-2's words, then bytes as characters.
    Bytes {
        add_prefix_space: bool,
        words: Option<Pattern>,
    },
    Other(PreTokenizerWrapper),
}

/// What a pattern matches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// What lies between words.
    Delimiter,
    /// The words.
    Word,
}

impl Splits {
    fn new(wrapper: PreTokenizerWrapper, room: &mut Room) -> Result<Self, String> {
        Ok(match wrapper {
            PreTokenizerWrapper::Sequence(sequence) => {
                let parts = sequence.into_iter().map(|part| Self::new(part, room));
                Self::Sequence(parts.collect::<Result<_, _>>()?)
            }
            PreTokenizerWrapper::Split(split) => Self::Pattern {
                pattern: match &split.pattern {
                    SplitPattern::String(text) => Pattern::literal(text, room)?,
                    SplitPattern::Regex(source) => Pattern::new(source, room)?,
                },
                behavior: split.behavior,
                side: if split.invert { Side::Word } else { Side::Delimiter },
            },
            PreTokenizerWrapper::ByteLevel(bytes) => Self::Bytes {
                add_prefix_space: bytes.add_prefix_space,
                words: bytes.use_regex.then(|| Pattern::new(GPT2, room)).transpose()?,
            },
            PreTokenizerWrapper::FixedLength(fixed) if fixed.length == 0 => {
                return Err("words of length nought".to_owned());
            }
            other => Self::Other(other),
        })
    }
}

impl<'de> Deserialize<'de> for Splits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrapper = PreTokenizerWrapper::deserialize(deserializer)?;
        Self::new(wrapper, &mut Room::default()).map_err(de::Error::custom)
    }
}

impl PreTokenizer for Splits {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Self::Sequence(all) => all.iter().try_for_each(|splits| splits.pre_tokenize(text)),
            Self::Pattern { pattern, behavior, side } => text.split(|_, part| match side {
                Side::Delimiter => part.split(pattern, *behavior),
                Side::Word => part.split(Invert(pattern), *behavior),
            }),
            Self::Bytes { add_prefix_space, words } => {
                text.split(|_, mut part| {
                    if *add_prefix_space && !part.get().starts_with(' ') {
                        part.prepend(" ");
                    }
                    match words {
                        Some(words) => part.split(words, SplitDelimiterBehavior::Isolated),
                        None => Ok(vec![part]),
                    }
                })?;
                ByteLevel::new(false, false, false).pre_tokenize(text)
            }
            Self::Other(wrapper) => wrapper.pre_tokenize(text),
        }
    }
}
