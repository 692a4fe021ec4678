//! What a text became, token by token.

/// Whether `encode` puts special tokens around the text (begin, end, `[CLS]`, `[SEP]`), as the model was trained with.
///
/// Special tokens that stand in the text itself, such as `[MASK]`, are recognised either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Put them around the text: what a model wants of a whole text.
    Add,
    /// Leave the text as it is: what a rendered chat template wants, which has them already.
    Leave,
}

/// What `decode` does with special tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialText {
    /// They are not part of the text.
    Skip,
    /// They are spelled out.
    Keep,
}

/// A stretch of a text, from `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where it begins.
    pub start: usize,
    /// Where it has ended.
    pub end: usize,
}

impl Span {
    /// For slicing: `&text[span.range()]`.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start..self.end
    }
}

/// Which text of a pair a token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The first, or the only one.
    First,
    /// The second.
    Second,
}

/// A text as tokens. All lists have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// What the model sees.
    pub ids: Vec<u32>,
    /// Where each token lies in its text, in bytes, always between characters. Special tokens that were added lie
    /// nowhere: their span is empty. Several tokens of one character share its span, or, from SentencePiece's bytes,
    /// the last has it and the others are empty.
    pub bytes: Vec<Span>,
    /// The same, counted in characters (Unicode scalar values), as the reference implementation does.
    pub chars: Vec<Span>,
    /// Token types, also called segments: 0 for the first text, 1 for the second where the model tells them apart.
    pub types: Vec<u32>,
    /// Whether the token was added around the text.
    pub special: Vec<bool>,
    /// The word, counted from nought in each text, where the tokenizer knows words.
    pub words: Vec<Option<u32>>,
    /// The text of the pair; `None` for special tokens that were added.
    pub parts: Vec<Option<Part>>,
}

impl Encoding {
    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// One token of a text.
    pub(crate) fn push(&mut self, id: u32, bytes: Span, part: Part) {
        self.ids.push(id);
        self.bytes.push(bytes);
        self.types.push(match part {
            Part::First => 0,
            Part::Second => 1,
        });
        self.special.push(false);
        self.words.push(None);
        self.parts.push(Some(part));
    }

    /// A special token that stands in no text.
    pub(crate) fn push_special(&mut self, id: u32, part: Part) {
        self.push(id, Span::default(), part);
        *self.special.last_mut().expect("just pushed") = true;
        *self.parts.last_mut().expect("just pushed") = None;
    }
}

/// From positions in characters to positions in bytes and back, for one text.
pub(crate) struct Positions {
    /// Where each character begins, and the length at the end; empty where every character is one byte.
    starts: Vec<u32>,
    length: usize,
}

impl Positions {
    pub fn new(text: &str) -> Self {
        let mut starts = Vec::new();
        if !text.is_ascii() {
            starts.extend(text.char_indices().map(|(at, _)| at as u32));
            starts.push(text.len() as u32);
        }
        Self { starts, length: text.len() }
    }

    /// The byte where this character begins.
    pub fn byte(&self, char: usize) -> usize {
        if self.starts.is_empty() {
            return char.min(self.length);
        }
        self.starts.get(char).map_or(self.length, |&at| at as usize)
    }

    /// The character that this byte belongs to.
    pub fn char(&self, byte: usize) -> usize {
        if self.starts.is_empty() {
            return byte.min(self.length);
        }
        match self.starts.binary_search(&(byte as u32)) {
            Ok(at) => at,
            Err(after) => after - 1,
        }
    }
}
