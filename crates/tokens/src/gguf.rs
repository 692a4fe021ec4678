//! The vocabulary of a GGUF file.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::added::Added;
use crate::config::{Config, Token};
use crate::error::Error;
use crate::library::{self, ByteLevel, Library, WordPiece, Words};
use crate::pieced::{Around, Pair, Pieced, Side};
use crate::pieces::{Algorithm, Charsmap, Duplicates, Kind, Model, Normalizer, Parts, Piece};
use crate::tokenizer::{SpecialIds, Tokenizer};
use crate::vocabulary::Vocabulary;

const PLACE: &str = "tokenizer.ggml";

/// What a GGUF file says of its tokenizer, under keys that begin with `tokenizer.ggml`. The rest is `Default`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GgufVocabulary {
    /// `model`: `llama` (SentencePiece BPE), `gpt2` (byte-level BPE), `bert` (WordPiece) or `t5` (unigram).
    pub model: String,
    /// `pre`: the name of the patterns that cut texts into words; only for `gpt2`.
    pub pre: Option<String>,
    /// `tokens`, by id.
    pub tokens: Vec<String>,
    /// `scores`; nought where there are none.
    pub scores: Vec<f32>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; normal where there are none.
    pub token_types: Vec<u32>,
    /// `merges`: pairs with a space between, the best first; only for `gpt2`.
    pub merges: Vec<String>,
    /// `bos_token_id`
    pub bos: Option<u32>,
    /// `eos_token_id`
    pub eos: Option<u32>,
    /// `unknown_token_id`
    pub unknown: Option<u32>,
    /// `seperator_token_id`, spelled so in the files
    pub separator: Option<u32>,
    /// `padding_token_id`
    pub padding: Option<u32>,
    /// `cls_token_id`
    pub cls: Option<u32>,
    /// `mask_token_id`
    pub mask: Option<u32>,
    /// `add_bos_token`
    pub add_bos: Option<bool>,
    /// `add_eos_token`
    pub add_eos: Option<bool>,
    /// `add_space_prefix`
    pub add_space_prefix: Option<bool>,
    /// `remove_extra_whitespaces`
    pub remove_extra_whitespaces: Option<bool>,
    /// `precompiled_charsmap`
    pub precompiled_charsmap: Vec<u8>,
}

impl Tokenizer {
    /// From the vocabulary of a GGUF file.
    ///
    /// Texts are cut as llama.cpp cuts them, which is how the models were trained; where a file does not say whether
    /// texts begin or end with a special token, its rules decide too.
    ///
    /// # Errors
    /// A kind of vocabulary that is not known, or one that contradicts itself.
    pub fn from_gguf(vocabulary: &GgufVocabulary) -> Result<Self, Error> {
        let GgufVocabulary { tokens, scores, token_types, .. } = vocabulary;
        let fits = |length: usize| length == 0 || length == tokens.len();
        if tokens.is_empty() {
            return Err(Error::broken(PLACE, "there are no tokens"));
        }
        if !fits(scores.len()) || !fits(token_types.len()) {
            let counts =
                format!("{} tokens, {} scores, {} types", tokens.len(), scores.len(), token_types.len());
            return Err(Error::broken(PLACE, counts));
        }
        for (what, id) in vocabulary.special() {
            if id.is_some_and(|id| id as usize >= tokens.len()) {
                return Err(Error::broken(
                    PLACE,
                    format!("{what} is {id:?}, and there are {} tokens", tokens.len()),
                ));
            }
        }
        match vocabulary.model.as_str() {
            "llama" => vocabulary.pieces(Algorithm::Bpe),
            "t5" => vocabulary.pieces(Algorithm::Unigram),
            "gpt2" => vocabulary.byte_level(),
            "bert" => vocabulary.word_piece(),
            other => Err(Error::Unsupported {
                place: format!("{PLACE}.model"),
                what: format!("{other:?}"),
                hint: "use a model of the kind llama, gpt2, bert or t5",
            }),
        }
    }
}

impl GgufVocabulary {
    fn special(&self) -> [(&'static str, Option<u32>); 7] {
        [
            ("bos_token", self.bos),
            ("eos_token", self.eos),
            ("unk_token", self.unknown),
            ("sep_token", self.separator),
            ("pad_token", self.padding),
            ("cls_token", self.cls),
            ("mask_token", self.mask),
        ]
    }

    fn kind(&self, id: usize) -> Kind {
        self.token_types.get(id).and_then(|&kind| Kind::from_number(kind.into())).unwrap_or(Kind::Normal)
    }

    /// Tokens that are found in a text as they stand: control and user-defined ones.
    fn config(&self) -> Config {
        let mut config = Config::default();
        for (name, id) in self.special() {
            if let Some(token) = id.and_then(|id| self.tokens.get(id as usize)) {
                config.name_by_default(name, Token::special(token.as_str()));
            }
        }
        let found =
            (0..).zip(&self.tokens).filter(|(_, token)| !token.is_empty()).filter_map(|(id, token)| {
                let special = match self.kind(id) {
                    Kind::Control | Kind::Unknown => true,
                    Kind::User => false,
                    Kind::Normal | Kind::Unused | Kind::Byte => return None,
                };
                Some(Token { special, ..Token::special(token.as_str()) })
            });
        config.extend(found);
        config
    }

    /// SentencePiece's algorithms over the file's pieces.
    fn pieces(&self, algorithm: Algorithm) -> Result<Tokenizer, Error> {
        let t5 = algorithm == Algorithm::Unigram;
        let mut tokens = self.tokens.clone();
        if t5 {
            name_sentinels(&mut tokens);
        }
        let unknown = self.unknown.unwrap_or(0) as usize;
        let piece = |(id, text): (usize, &String)| Piece {
            text: text.as_str().into(),
            score: self.scores.get(id).copied().unwrap_or(0.0) + 0.0,
            kind: if id == unknown { Kind::Unknown } else { self.kind(id) },
        };
        let pieces: Vec<Piece> = tokens.iter().enumerate().map(piece).collect();
        let bytes = pieces.iter().filter(|piece| piece.kind == Kind::Byte).count();
        let charsmap = match self.precompiled_charsmap.as_slice() {
            [] => None,
            blob => Some(Charsmap::new(blob).map_err(|reason| Error::broken(PLACE, reason))?),
        };
        let normalizer = Normalizer {
            charsmap,
            add_dummy_prefix: self.add_space_prefix.unwrap_or(true),
            remove_extra_whitespaces: self.remove_extra_whitespaces.unwrap_or(t5),
            escape_whitespaces: true,
            whitespace_is_suffix: false,
        };
        let parts = Parts {
            pieces,
            algorithm,
            normalizer,
            byte_fallback: bytes >= 256,
            unknown_text: " \u{2047} ".to_owned(),
            duplicates: Duplicates::LastCounts,
        };
        let model = Arc::new(Model::new(parts).map_err(|reason| Error::broken(PLACE, reason))?);
        let mut vocabulary = Vocabulary::default();
        for (id, token) in (0..).zip(tokens.iter()) {
            vocabulary.insert(token.as_str(), id);
        }
        let config = Self { tokens, ..self.clone() }.config();
        let added: Vec<(Token, u32)> = config
            .tokens()
            .filter_map(|token| Some((token.clone(), vocabulary.id(&token.content)?)))
            .collect();
        let ids = SpecialIds::named(&config, &vocabulary);
        let begin = self.bos.filter(|_| self.add_bos.unwrap_or(!t5));
        let end = self.eos.filter(|_| self.add_eos.unwrap_or(t5));
        let side = Side::own(model, Arc::new(vocabulary));
        let pieces = Pieced {
            source: side.clone(),
            target: side,
            special: added.iter().filter(|(token, _)| token.special).map(|&(_, id)| id).collect(),
            added: Added::new(added),
            around: Around {
                before: begin.into_iter().collect(),
                after: end.into_iter().collect(),
                pair: Pair::Each,
            },
        };
        Ok(Tokenizer::from_pieces(pieces, ids, &config))
    }

    fn byte_level(&self) -> Result<Tokenizer, Error> {
        let pre = self.pre.as_deref().unwrap_or("");
        let Some(words) = Words::named(pre) else {
            return Err(Error::Unsupported {
                place: format!("{PLACE}.pre"),
                what: format!("{pre:?}"),
                hint: "use the model's folder with its tokenizer.json",
            });
        };
        let merge = |merge: &String| {
            // A token may begin with a space of its own, never end with one.
            let at = merge.char_indices().skip(1).find(|&(_, c)| c == ' ').map(|(at, _)| at);
            at.map(|at| (merge[..at].to_owned(), merge[at + 1..].to_owned())).ok_or(merge.clone())
        };
        let merges = self.merges.iter().map(merge).collect::<Result<Vec<_>, _>>();
        let merges =
            merges.map_err(|merge| Error::broken(PLACE, format!("{merge:?} is not a pair of tokens")))?;
        let config = self.config();
        let around = library::Around::Marks {
            begin: self.bos.is_some() && self.add_bos.unwrap_or(words.begin),
            end: self.eos.is_some() && self.add_eos.unwrap_or(false),
        };
        let vocabulary = numbered(self.tokens.iter().cloned());
        let json = ByteLevel { vocabulary, merges, words, add_prefix_space: false, around }.json(&config);
        Tokenizer::from_library(Library::from_value(&json, PLACE)?, &config)
    }

    /// BERT's pieces: files mark the beginning of a word with ▁ instead of its continuation with `##`.
    fn word_piece(&self) -> Result<Tokenizer, Error> {
        let spelled = |(id, token): (usize, &String)| match token.strip_prefix('▁') {
            Some(word) => word.to_owned(),
            None if self.kind(id) != Kind::Normal || (token.starts_with('[') && token.ends_with(']')) => {
                token.clone()
            }
            None => format!("##{token}"),
        };
        let tokens: Vec<String> = self.tokens.iter().enumerate().map(spelled).collect();
        let mut config = Self { tokens: tokens.clone(), ..self.clone() }.config();
        for (name, text) in [("unk_token", "[UNK]"), ("sep_token", "[SEP]"), ("cls_token", "[CLS]")] {
            config.name_by_default(name, Token::special(text));
        }
        let vocabulary = numbered(tokens);
        let pieces = WordPiece {
            vocabulary,
            lowercase: true,
            strip_accents: None,
            chinese: true,
            around: library::Around::Bert,
        };
        Tokenizer::from_library(Library::from_value(&pieces.json(&config), PLACE)?, &config)
    }
}

/// Tokens by their place. Of two with the same text, the last counts.
fn numbered(tokens: impl IntoIterator<Item = String>) -> Map<String, Value> {
    (0_u32..).zip(tokens).map(|(id, token)| (token, id.into())).collect()
}

/// T5's sentinels, which files call `[PAD32000]` and so on: the first hundred of them get their names back.
fn name_sentinels(tokens: &mut [String]) {
    let is_placeholder = |token: &str| {
        let number = token.strip_prefix("[PAD").and_then(|rest| rest.strip_suffix(']'));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit()))
    };
    for (number, token) in (0..100).rev().zip(tokens.iter_mut().filter(|token| is_placeholder(token))) {
        *token = format!("<extra_id_{number}>");
    }
}
