//! Texts cut into pieces.

use super::model::{Algorithm, Cut, Model};
use super::{bpe, unigram};
use crate::encoding::Span;

/// A piece that was found in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub id: u32,
    /// Where in the original text, in bytes.
    pub span: Span,
    /// How it is spelled, where the id does not say: that of the unknown piece.
    pub unknown: Option<String>,
}

impl Model {
    /// Cuts a text into pieces. Neighbouring unknown characters make one unknown piece.
    pub fn encode(&self, text: &str) -> Vec<Found> {
        let normalized = self.normalizer.apply(text.as_bytes(), &self.symbols);
        let cuts = match self.algorithm {
            Algorithm::Unigram => unigram::cut(self, &normalized.text),
            Algorithm::Bpe => bpe::cut(self, &normalized.text),
        };
        let mut pieces: Vec<Found> = Vec::with_capacity(cuts.len());
        let mut begin = 0;
        for Cut { end, id } in cuts {
            let spelled = &normalized.text[begin..end as usize];
            let at = |place: usize| normalized.origin[place] as usize;
            let span = Span { start: at(begin), end: at(end as usize) };
            begin = end as usize;
            if id != self.unknown {
                pieces.push(Found { id, span, unknown: None });
            } else if let Some((last, others)) = spelled.split_last().filter(|_| !self.bytes.is_empty()) {
                // The last byte has the span of the character.
                let nowhere = Span { start: span.start, end: span.start };
                let byte = |byte: u8, span| Found { id: self.bytes[usize::from(byte)], span, unknown: None };
                pieces.extend(others.iter().map(|&other| byte(other, nowhere)));
                pieces.push(byte(*last, span));
            } else if let Some(Found { span: before, unknown: Some(text), .. }) = pieces.last_mut() {
                text.push_str(&String::from_utf8_lossy(spelled));
                before.end = span.end;
            } else {
                let spelled = String::from_utf8_lossy(spelled).into_owned();
                pieces.push(Found { id, span, unknown: Some(spelled) });
            }
        }
        pieces
    }
}
