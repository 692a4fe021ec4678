//! Texts as sequences of tokens that the model can read.

use glassformer_tokens::{Encoding, Part, Special};

use crate::{Error, TextEncoder};

/// A text, or two that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'t> {
    /// One text.
    One(&'t str),
    /// A question and a passage, a premise and a hypothesis, a query and a document.
    Pair(&'t str, &'t str),
}

impl<'t> From<&'t str> for Input<'t> {
    fn from(text: &'t str) -> Self {
        Self::One(text)
    }
}

impl<'t> From<&'t String> for Input<'t> {
    fn from(text: &'t String) -> Self {
        Self::One(text)
    }
}

impl<'t> From<(&'t str, &'t str)> for Input<'t> {
    fn from((first, second): (&'t str, &'t str)) -> Self {
        Self::Pair(first, second)
    }
}

/// What is done with a text that is longer than the model can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Long {
    /// It is an error.
    #[default]
    Refuse,
    /// Its end is left out; of two texts, the end of the longer one.
    Cut,
}

impl TextEncoder {
    /// `inputs` as tokens, none of them longer than `limit`.
    pub(crate) fn encode(
        &self,
        inputs: &[Input<'_>],
        long: Long,
        limit: Option<usize>,
    ) -> Result<Vec<Encoding>, Error> {
        let encode = |(text, input): (usize, &Input<'_>)| {
            let mut encoding = match *input {
                Input::One(only) => self.tokenizer().encode(only, Special::Add)?,
                Input::Pair(first, second) => self.tokenizer().encode_pair(first, second, Special::Add)?,
            };
            if encoding.is_empty() {
                let hint = "give a text; this model adds no tokens of its own".to_owned();
                return Err(Error::Text { text, what: "there is nothing in it".to_owned(), hint });
            }
            match limit {
                Some(limit) if encoding.len() > limit => {
                    let tokens = encoding.len();
                    if long == Long::Refuse || !cut(&mut encoding, limit) {
                        return Err(Error::Long { text, tokens, limit });
                    }
                }
                Some(_) | None => {}
            }
            Ok(encoding)
        };
        inputs.iter().enumerate().map(encode).collect()
    }
}

/// Leaves out the end of the text, or of the longer of two, until `limit` tokens are left; those around the text stay.
/// Whether that was possible.
fn cut(encoding: &mut Encoding, limit: usize) -> bool {
    let count = |part: Part| encoding.parts.iter().filter(|own| **own == Some(part)).count();
    let (first, second) = (count(Part::First), count(Part::Second));
    let excess = encoding.len() - limit;
    if excess > first + second {
        return false;
    }
    // The shorter one is cut only where even half of the room is not enough for it; the odd token is the longer one's.
    let room = first + second - excess;
    let short = first.min(second).min(room / 2);
    let (first, second) = if first <= second { (short, room - short) } else { (room - short, short) };
    let mut seen = [0, 0];
    let keep: Vec<bool> = encoding
        .parts
        .iter()
        .map(|part| {
            let (at, most) = match part {
                None => return true,
                Some(Part::First) => (0, first),
                Some(Part::Second) => (1, second),
            };
            seen[at] += 1;
            seen[at] <= most
        })
        .collect();
    select(encoding, &keep);
    true
}

/// Keeps the tokens that `keep` says.
pub(crate) fn select(encoding: &mut Encoding, keep: &[bool]) {
    fn only<T>(list: &mut Vec<T>, keep: &[bool]) {
        let mut keep = keep.iter();
        list.retain(|_| *keep.next().unwrap_or(&false));
    }
    only(&mut encoding.ids, keep);
    only(&mut encoding.bytes, keep);
    only(&mut encoding.chars, keep);
    only(&mut encoding.types, keep);
    only(&mut encoding.special, keep);
    only(&mut encoding.words, keep);
    only(&mut encoding.parts, keep);
}

/// A text from a file, without the byte-order mark that some programs put at its beginning.
pub fn without_mark(text: String) -> String {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use glassformer_tokens::Span;

    use super::*;

    fn pair(first: u32, second: u32) -> Encoding {
        let texts = [(first, Part::First, 100), (second, Part::Second, 200)];
        let mut encoding = Encoding::default();
        let mut push = |id, part| {
            encoding.ids.push(id);
            encoding.parts.push(part);
            encoding.special.push(part.is_none());
            encoding.bytes.push(Span::default());
            encoding.chars.push(Span::default());
            encoding.types.push(0);
            encoding.words.push(None);
        };
        push(1, None);
        for (count, part, base) in texts {
            (0..count).for_each(|i| push(base + i, Some(part)));
            push(2, None);
        }
        encoding
    }

    #[test]
    fn the_longer_text_is_cut_first_and_what_stands_around_stays() {
        let mut encoding = pair(2, 6);
        assert!(cut(&mut encoding, 8));
        assert_eq!(encoding.ids, [1, 100, 101, 2, 200, 201, 202, 2]);
        assert_eq!(encoding.parts.len(), 8);
        let mut encoding = pair(5, 5);
        assert!(cut(&mut encoding, 8));
        assert_eq!(encoding.ids, [1, 100, 101, 2, 200, 201, 202, 2]);
        let mut encoding = pair(6, 5);
        assert!(cut(&mut encoding, 8));
        assert_eq!(encoding.ids, [1, 100, 101, 102, 2, 200, 201, 2]);
        let mut encoding = pair(4, 0);
        assert!(cut(&mut encoding, 5));
        assert_eq!(encoding.ids, [1, 100, 101, 2, 2]);
        assert!(!cut(&mut pair(4, 4), 2));
    }
}
