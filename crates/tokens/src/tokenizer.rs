//! What the rest of the engine sees of a tokenizer.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::config::Config;
use crate::encoding::{Encoding, Part, Positions, Span, Special, SpecialText};
use crate::error::Error;
use crate::library::{Growth, Library};
use crate::pieced::{Pieced, Side};
use crate::vocabulary::Vocabulary;

/// The most bytes of text for one call: 256 MiB.
const LONGEST: usize = 256 << 20;

/// Turns text into token ids and back. It does not change after it was opened, and threads can share it.
pub struct Tokenizer {
    engine: Engine,
    vocabulary: Arc<Vocabulary>,
    special: SpecialIds,
    model_max_length: Option<usize>,
    languages: Option<(String, String)>,
    typed: bool,
    tidy: bool,
}

pub(crate) enum Engine {
    Library(Box<Library>),
    Pieced(Box<Pieced>),
}

/// The ids of special tokens, as far as the files name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Fills a batch. Nothing here is ever padded; decoding of some models begins with it.
    pub pad: Option<u32>,
    /// Stands for what is in no token.
    pub unk: Option<u32>,
    /// Begins a text for BERT, and sums it up.
    pub cls: Option<u32>,
    /// Ends a text for BERT, and stands between two.
    pub sep: Option<u32>,
    /// Stands for a token that is to be guessed.
    pub mask: Option<u32>,
}

/// What special tokens are mostly called, where no file says.
const USUAL: [(&str, &[&str]); 7] = [
    ("bos_token", &["<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>"]),
    ("eos_token", &["</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"]),
    ("unk_token", &["[UNK]", "<unk>"]),
    ("sep_token", &["[SEP]"]),
    ("pad_token", &["[PAD]", "<pad>"]),
    ("cls_token", &["[CLS]"]),
    ("mask_token", &["[MASK]", "<mask>"]),
];

impl SpecialIds {
    /// The ids of the tokens that the files name.
    pub(crate) fn named(config: &Config, vocabulary: &Vocabulary) -> Self {
        Self::new(|name| vocabulary.id(&config.named(name)?.content))
    }

    /// By what they are mostly called.
    pub(crate) fn usual(vocabulary: &Vocabulary, is_special: impl Fn(&str) -> bool) -> Self {
        Self::new(|name| {
            let texts = USUAL.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, texts)| texts);
            texts.iter().filter(|text| is_special(text)).find_map(|text| vocabulary.id(text))
        })
    }

    fn new(id: impl Fn(&str) -> Option<u32>) -> Self {
        Self {
            bos: id("bos_token"),
            eos: id("eos_token"),
            pad: id("pad_token"),
            unk: id("unk_token"),
            cls: id("cls_token"),
            sep: id("sep_token"),
            mask: id("mask_token"),
        }
    }
}

impl Tokenizer {
    pub(crate) fn from_library(mut library: Library, config: &Config) -> Result<Self, Error> {
        library.configure(config)?;
        let mut vocabulary = Vocabulary::default();
        vocabulary.extend(library.vocabulary());
        let special = match config.special_texts().next() {
            Some(_) => SpecialIds::named(config, &vocabulary),
            None => SpecialIds::usual(&vocabulary, |token| library.is_special(token)),
        };
        let tidy = config.flag("clean_up_tokenization_spaces") == Some(true) && !library.keeps_spaces();
        let engine = Engine::Library(Box::new(library));
        let vocabulary = Arc::new(vocabulary);
        let (model_max_length, languages, typed) = (None, None, true);
        Ok(Self { engine, vocabulary, special, model_max_length, languages, typed, tidy }.told(config))
    }

    pub(crate) fn from_pieces(pieces: Pieced, special: SpecialIds, config: &Config) -> Self {
        let tidy = config.flag("clean_up_tokenization_spaces") == Some(true);
        let vocabulary = pieces.source.vocabulary.clone();
        let engine = Engine::Pieced(Box::new(pieces));
        let (model_max_length, languages, typed) = (None, None, true);
        Self { engine, vocabulary, special, model_max_length, languages, typed, tidy }.told(config)
    }

    /// With what the configuration says of the model rather than of its tokens.
    pub(crate) fn told(mut self, config: &Config) -> Self {
        // The reference writes 1e30 for "no limit".
        self.model_max_length =
            config.number("model_max_length").and_then(|length| usize::try_from(length).ok());
        let language = |key| Some(config.value(key)?.as_str()?.to_owned());
        self.languages = language("source_lang").zip(language("target_lang"));
        let inputs = config.value("model_input_names").and_then(Value::as_array);
        self.typed = inputs.is_none_or(|names| names.iter().any(|name| name == "token_type_ids"));
        self
    }

    /// A text as tokens.
    ///
    /// Nothing is cut and nothing is padded, whatever the files say: see [`Tokenizer::max_length`].
    ///
    /// # Errors
    /// [`Error::LongText`], or a pattern of the tokenizer's that gives up on the text.
    pub fn encode(&self, text: &str, special: Special) -> Result<Encoding, Error> {
        self.encode_texts(text, None, special)
    }

    /// Two texts that belong together, such as a question and a context, as the tokens of one sequence.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_pair(&self, first: &str, second: &str, special: Special) -> Result<Encoding, Error> {
        self.encode_texts(first, Some(second), special)
    }

    /// Bytes that should be UTF-8 as tokens. What is not UTF-8 becomes U+FFFD first, as the reference gets it from
    /// decoding with `errors="replace"`; spans refer to that text, which is returned too.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_bytes<'b>(
        &self,
        bytes: &'b [u8],
        special: Special,
    ) -> Result<(Encoding, Cow<'b, str>), Error> {
        let text = String::from_utf8_lossy(bytes);
        Ok((self.encode(&text, special)?, text))
    }

    /// A text in the language of the output, as a model learns it: the same as [`Tokenizer::encode`], except where
    /// the two languages have models of their own.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_target(&self, text: &str, special: Special) -> Result<Encoding, Error> {
        match &self.engine {
            Engine::Pieced(pieces) => encode_pieces(pieces, &pieces.target, (text, None), special),
            Engine::Library(_) => self.encode(text, special),
        }
    }

    fn encode_texts(&self, first: &str, second: Option<&str>, special: Special) -> Result<Encoding, Error> {
        let mut encoding = match &self.engine {
            Engine::Library(library) => {
                check_length(first, second)?;
                library.encode(first, second, special)?
            }
            Engine::Pieced(pieces) => encode_pieces(pieces, &pieces.source, (first, second), special)?,
        };
        // `model_input_names` without `token_type_ids`: the reference hands the model none, which it takes for zeros.
        if !self.typed {
            encoding.types.fill(0);
        }
        Ok(encoding)
    }

    /// Tokens as a text. Ids that are not in the vocabulary are left out.
    ///
    /// # Errors
    /// The tokenizers library failed on these tokens.
    pub fn decode(&self, ids: &[u32], special: SpecialText) -> Result<String, Error> {
        let text = match &self.engine {
            Engine::Library(library) => library.decode(ids, special)?,
            Engine::Pieced(pieces) => pieces.decode(ids, special),
        };
        Ok(if self.tidy { tidy(&text) } else { text })
    }

    /// What it is made with.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How the text grows with the tokens.
    pub(crate) fn growth(&self) -> Growth {
        match &self.engine {
            _ if self.tidy => Growth::Unknown,
            Engine::Library(library) => library.growth,
            Engine::Pieced(_) => Growth::Appends,
        }
    }

    /// The text of a token, as the vocabulary spells it: `▁the`, `##ing`, `Ġof`.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary.token(id)
    }

    /// The id of a token, spelled as in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocabulary.id(token)
    }

    /// Every token. Where the two languages have vocabularies of their own, it is that of the input.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The ids of special tokens.
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// Whether decoding with [`SpecialText::Skip`] leaves this token out.
    pub fn is_special(&self, id: u32) -> bool {
        match &self.engine {
            Engine::Library(library) => {
                self.vocabulary.token(id).is_some_and(|token| library.is_special(token))
            }
            Engine::Pieced(pieces) => pieces.special.contains(&id),
        }
    }

    /// Whether a token that goes on with the word before it is spelled so (`##ing`).
    pub fn marks_pieces(&self) -> bool {
        match &self.engine {
            Engine::Library(library) => library.marks_pieces(),
            Engine::Pieced(_) => false,
        }
    }

    /// Whether the vocabulary spells bytes as letters of a table.
    pub(crate) fn spells_bytes(&self) -> bool {
        match &self.engine {
            Engine::Library(library) => library.spells_bytes,
            Engine::Pieced(_) => false,
        }
    }

    /// Where `tokenizer.json` wants texts to be cut, in tokens. It is reported here and applied nowhere.
    pub fn max_length(&self) -> Option<usize> {
        match &self.engine {
            Engine::Library(library) => library.truncation,
            Engine::Pieced(_) => None,
        }
    }

    /// The longest sequence that the model was made for, where `tokenizer_config.json` says so.
    pub fn model_max_length(&self) -> Option<usize> {
        self.model_max_length
    }

    /// The language that the model reads and the one that it writes, where `tokenizer_config.json` says both, as Marian's
    /// does: `en` and `de`, or `eng` and `deu`.
    pub fn languages(&self) -> Option<(&str, &str)> {
        self.languages.as_ref().map(|(source, target)| (source.as_str(), target.as_str()))
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let engine = match &self.engine {
            Engine::Library(_) => "tokenizers library",
            Engine::Pieced(_) => "SentencePiece",
        };
        f.debug_struct("Tokenizer")
            .field("engine", &engine)
            .field("tokens", &self.vocabulary.len())
            .finish_non_exhaustive()
    }
}

/// With the models of one side of a pair of languages.
fn encode_pieces(
    pieces: &Pieced,
    side: &Side,
    (first, second): (&str, Option<&str>),
    special: Special,
) -> Result<Encoding, Error> {
    check_length(first, second)?;
    let mut encoding = pieces.encode(side, first, second, special);
    let positions = [Positions::new(first), Positions::new(second.unwrap_or(""))];
    let chars = |(span, part): (&Span, &Option<Part>)| {
        let positions = &positions[usize::from(*part == Some(Part::Second))];
        Span { start: positions.char(span.start), end: positions.char(span.end) }
    };
    encoding.chars = encoding.bytes.iter().zip(&encoding.parts).map(chars).collect();
    Ok(encoding)
}

fn check_length(first: &str, second: Option<&str>) -> Result<(), Error> {
    let size = first.len().max(second.map_or(0, str::len));
    if size > LONGEST { Err(Error::LongText { size, limit: LONGEST }) } else { Ok(()) }
}

/// The reference's `clean_up_tokenization_spaces`: English punctuation goes back to the word before it.
fn tidy(text: &str) -> String {
    const RULES: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    RULES.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
