//! Tokenizers around SentencePiece models: plain, Llama's, T5's, Marian's pair and CTranslate2's.

use std::collections::HashSet;
use std::sync::Arc;

use crate::added::{Added, Segment, strip};
use crate::encoding::{Encoding, Part, Span, Special, SpecialText};
use crate::pieces::{Item, Kind, Model, byte_of};
use crate::vocabulary::Vocabulary;

/// A SentencePiece model, or a pair of them, and what goes around it.
#[derive(Debug)]
pub(crate) struct Pieced {
    /// What texts are encoded with.
    pub source: Side,
    /// What ids are decoded with, and texts in the language of the output are encoded with.
    pub target: Side,
    pub added: Added,
    /// Not part of what was said.
    pub special: HashSet<u32>,
    pub around: Around,
}

/// A model and the vocabulary that goes with it.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub model: Arc<Model>,
    pub vocabulary: Arc<Vocabulary>,
    pub ids: Ids,
}

/// What a piece's number in the model is to the vocabulary.
#[derive(Clone, Debug)]
pub(crate) enum Ids {
    /// Its id.
    Own,
    /// Nothing: the vocabulary has a numbering of its own, as Marian's and CTranslate2's do.
    Table {
        /// The id of each piece of the encoder.
        pieces: Arc<[u32]>,
        /// For what the vocabulary does not have.
        unknown: u32,
    },
}

/// What is put around a text.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
    pub pair: Pair,
}

/// What is put around a pair of texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pair {
    /// The same around each.
    #[default]
    Each,
    /// The same around both together.
    Both,
}

impl Side {
    /// A model whose numbers are the ids.
    pub fn own(model: Arc<Model>, vocabulary: Arc<Vocabulary>) -> Self {
        Self { model, vocabulary, ids: Ids::Own }
    }

    /// A model whose pieces the vocabulary numbers anew.
    pub fn numbered(model: Arc<Model>, vocabulary: Arc<Vocabulary>, unknown: u32) -> Self {
        let id = |piece: &str| vocabulary.id(piece).unwrap_or(unknown);
        let pieces = model.pieces.iter().map(|piece| id(&piece.text)).collect();
        Self { model, vocabulary, ids: Ids::Table { pieces, unknown } }
    }

    /// A stretch of text without tokens that stand for themselves.
    fn encode(&self, text: &str, base: usize, part: Part, encoding: &mut Encoding) {
        let mut base = base;
        let mut text = text;
        if let Ids::Table { unknown, .. } = self.ids
            && let Some(length) = language_code(text)
        {
            let (code, rest) = text.split_at(length);
            let id = self.vocabulary.id(code).unwrap_or(unknown);
            encoding.push(id, Span { start: base, end: base + length }, part);
            base += length;
            text = rest;
        }
        for found in self.model.encode(text) {
            let id = match (&self.ids, &found.unknown) {
                (Ids::Own, _) => found.id,
                // What this model does not know may be a piece of the other language.
                (Ids::Table { unknown, .. }, Some(spelled)) => {
                    self.vocabulary.id(spelled).unwrap_or(*unknown)
                }
                (Ids::Table { pieces, .. }, None) => pieces[found.id as usize],
            };
            let span = Span { start: base + found.span.start, end: base + found.span.end };
            encoding.push(id, span, part);
        }
    }
}

impl Pieced {
    /// A text, or a pair of them, as tokens; the spans in characters are left to the caller.
    pub fn encode(&self, side: &Side, first: &str, second: Option<&str>, special: Special) -> Encoding {
        let mut encoding = Encoding::default();
        let add = |ids: &[u32], part, encoding: &mut Encoding| {
            if special == Special::Add {
                for &id in ids {
                    encoding.push_special(id, part);
                }
            }
        };
        let each = self.around.pair == Pair::Each;
        add(&self.around.before, Part::First, &mut encoding);
        self.text(side, first, Part::First, &mut encoding);
        if let Some(second) = second {
            if each {
                add(&self.around.after, Part::First, &mut encoding);
                add(&self.around.before, Part::Second, &mut encoding);
            }
            self.text(side, second, Part::Second, &mut encoding);
            add(&self.around.after, Part::Second, &mut encoding);
        } else {
            add(&self.around.after, Part::First, &mut encoding);
        }
        encoding
    }

    fn text(&self, side: &Side, text: &str, part: Part, encoding: &mut Encoding) {
        for segment in self.added.split(text) {
            match segment {
                Segment::Token(id, span) => encoding.push(id, span, part),
                Segment::Text(span) => side.encode(&text[span.range()], span.start, part, encoding),
            }
        }
    }

    /// Tokens as a text. Ids that are not in the vocabulary are not in the text either.
    pub fn decode(&self, ids: &[u32], special: SpecialText) -> String {
        let skipped = |id: &&u32| special == SpecialText::Skip && self.special.contains(id);
        let kept = ids.iter().filter(|id| !skipped(id)).copied();
        match self.target.ids {
            Ids::Own => self.target.model.join(kept.filter_map(|id| self.item(id))),
            Ids::Table { .. } => self.decode_named(kept),
        }
    }

    fn item(&self, id: u32) -> Option<Item<'_>> {
        let token = self.target.vocabulary.token(id)?;
        let own = self.target.model.pieces.get(id as usize).is_some_and(|piece| *piece.text == *token);
        Some(if own && !self.special.contains(&id) { Item::Id(id) } else { Item::Literal(token) })
    }

    /// The bytes that a token adds to a text that has begun; nothing where it is special.
    pub fn bytes(&self, id: u32) -> Option<Vec<u8>> {
        let Side { model, vocabulary, ids } = &self.target;
        let token = vocabulary.token(id).filter(|_| !self.special.contains(&id))?;
        let piece = match ids {
            Ids::Own => model.pieces.get(id as usize).filter(|piece| *piece.text == *token),
            Ids::Table { .. } => model.id(token).map(|id| &model.pieces[id as usize]),
        };
        let spaced = || token.replace('▁', " ").into_bytes();
        match (piece.map(|piece| piece.kind), ids) {
            (Some(Kind::Control | Kind::Unknown), _) => None,
            (Some(Kind::Byte), _) => byte_of(token).map(|byte| vec![byte]),
            (Some(Kind::Normal | Kind::User | Kind::Unused), _) | (None, Ids::Table { .. }) => Some(spaced()),
            (None, Ids::Own) => Some(token.into()),
        }
    }

    /// Whether a text loses the space that its first token begins with.
    pub fn first_space_goes(&self) -> bool {
        match self.target.ids {
            Ids::Own => self.target.model.first_space_goes(),
            Ids::Table { .. } => true,
        }
    }

    /// As Marian's tokenizer does it: special tokens are spelled out with a space after them.
    fn decode_named(&self, ids: impl Iterator<Item = u32>) -> String {
        let mut text = String::new();
        let mut run = Vec::new();
        for id in ids {
            let Some(token) = self.target.vocabulary.token(id) else { continue };
            if self.special.contains(&id) {
                text.push_str(&self.target.model.join(run.drain(..)));
                text.push_str(token);
                text.push(' ');
            } else {
                run.push(Item::Named(token));
            }
        }
        text.push_str(&self.target.model.join(run));
        strip(&text.replace('▁', " ")).to_owned()
    }
}

/// The length of a code such as `>>deu<<` at the beginning of a text: which language to translate into.
fn language_code(text: &str) -> Option<usize> {
    text.starts_with(">>").then(|| text.find("<<").map(|at| at + 2))?
}
