//! A SentencePiece model: pieces with scores, and how a text is prepared and cut.

use std::collections::HashMap;
use std::sync::Arc;

use super::normalize::{Normalizer, SPACE};
use super::trie::Trie;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Found in texts.
    Normal,
    /// Stands for whatever is in no piece.
    Unknown,
    /// Never found in a text: `<s>`.
    Control,
    /// Found in texts before anything else.
    User,
    /// Found in texts and taken apart again.
    Unused,
    /// One byte of a character that is in no piece: `<0xE4>`.
    Byte,
}

impl Kind {
    /// As SentencePiece and GGUF number them.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::User,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// A piece of text and how good it is.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub text: Arc<str>,
    pub score: f32,
    pub kind: Kind,
}

/// How a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// The likeliest pieces.
    Unigram,
    /// Join the best neighbours.
    Bpe,
}

/// What to do with two pieces of the same text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// SentencePiece refuses such a model.
    Refuse,
    /// GGUF files have them.
    LastCounts,
}

/// What a model is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub pieces: Vec<Piece>,
    pub algorithm: Algorithm,
    pub normalizer: Normalizer,
    pub byte_fallback: bool,
    /// What the unknown piece becomes in a text.
    pub unknown_text: String,
    pub duplicates: Duplicates,
}

/// The end of a piece in a normalised text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub end: u32,
    pub id: u32,
}

/// A model that can cut texts and join pieces.
#[derive(Debug)]
pub(crate) struct Model {
    pub pieces: Vec<Piece>,
    pub unknown: u32,
    pub(super) unknown_text: String,
    pub(super) normalizer: Normalizer,
    /// The lowest and the highest score of normal pieces.
    pub(super) lowest: f32,
    pub(super) highest: f32,
    /// The bytes of the longest piece.
    pub(super) longest: u32,
    /// Whether cutting a word can depend on the words around it.
    pub(super) words_touch: bool,
    /// Everything that can be found in a text.
    pub(super) trie: Trie,
    /// The symbols of the user's.
    pub(super) symbols: Trie,
    pub(super) algorithm: Algorithm,
    found: HashMap<Arc<str>, u32>,
    reserved: HashMap<Arc<str>, u32>,
    /// The pieces of all 256 bytes, or none.
    pub(super) bytes: Vec<u32>,
}

/// The byte that a piece such as `<0xE4>` stands for.
pub(crate) fn byte_of(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let plain = digits.len() == 2 && digits.bytes().all(|c| c.is_ascii_digit() || (b'A'..=b'F').contains(&c));
    if plain { u8::from_str_radix(digits, 16).ok() } else { None }
}

impl Model {
    /// Puts a model together.
    pub fn new(parts: Parts) -> Result<Self, String> {
        let Parts { pieces, algorithm, normalizer, byte_fallback, unknown_text, duplicates } = parts;
        let refuse = duplicates == Duplicates::Refuse;
        let (mut found, mut reserved) = (HashMap::new(), HashMap::new());
        let mut unknown = None;
        let (mut lowest, mut highest) = (f32::MAX, f32::MIN_POSITIVE);
        for (id, piece) in (0_u32..).zip(&pieces) {
            if !piece.score.is_finite() {
                return Err(format!("piece {id} has the score {}", piece.score));
            }
            if piece.text.is_empty() && refuse {
                return Err(format!("piece {id} is empty"));
            }
            let map = match piece.kind {
                Kind::Normal | Kind::User | Kind::Unused => &mut found,
                Kind::Unknown | Kind::Control | Kind::Byte => &mut reserved,
            };
            if map.insert(piece.text.clone(), id).is_some() && refuse {
                return Err(format!("piece {id}, {:?}, is there twice", piece.text));
            }
            if piece.kind == Kind::Unknown && unknown.replace(id).is_some() && refuse {
                return Err(format!("piece {id} is a second unknown piece"));
            }
            if piece.kind == Kind::Normal {
                lowest = lowest.min(piece.score);
                highest = highest.max(piece.score);
            }
        }
        let unknown = unknown.ok_or("there is no unknown piece")?;
        let bytes = if byte_fallback { byte_pieces(&reserved)? } else { Vec::new() };
        let keys = |only: Option<Kind>| {
            let known = found.iter().filter(|(text, _)| !text.is_empty());
            let chosen = known.filter(|(_, id)| only.is_none_or(|kind| pieces[**id as usize].kind == kind));
            Trie::new(chosen.map(|(text, &id)| (text.as_bytes(), id)))
        };
        Ok(Self {
            trie: keys(None),
            symbols: keys(Some(Kind::User)),
            words_touch: pieces.iter().any(|piece| piece.kind == Kind::Unused || leaves_a_word(&piece.text)),
            longest: pieces.iter().map(|piece| piece.text.len() as u32).max().unwrap_or(0),
            pieces,
            unknown,
            unknown_text,
            normalizer,
            lowest,
            highest,
            algorithm,
            found,
            reserved,
            bytes,
        })
    }

    /// The id of a piece that can be found in texts.
    pub(super) fn normal(&self, piece: &[u8]) -> Option<u32> {
        self.found.get(std::str::from_utf8(piece).ok()?).copied()
    }

    /// The id of a piece of any kind; the unknown piece where there is none.
    pub(super) fn find(&self, piece: &[u8]) -> u32 {
        std::str::from_utf8(piece).ok().and_then(|piece| self.id(piece)).unwrap_or(self.unknown)
    }

    /// The id of a piece of any kind.
    pub fn id(&self, piece: &str) -> Option<u32> {
        self.reserved.get(piece).or_else(|| self.found.get(piece)).copied()
    }
}

/// The pieces of all bytes.
fn byte_pieces(reserved: &HashMap<Arc<str>, u32>) -> Result<Vec<u32>, String> {
    let piece = |byte: u8| {
        let name = format!("<0x{byte:02X}>");
        reserved
            .get(name.as_str())
            .copied()
            .ok_or(format!("unknown characters become bytes, and {name} is missing"))
    };
    (0..=255).map(piece).collect()
}

/// Whether a piece reaches from a word over the space that follows it.
fn leaves_a_word(piece: &str) -> bool {
    let space = char::from_u32(0x2581).expect("a character");
    debug_assert_eq!(space.to_string().as_bytes(), SPACE);
    piece.trim_start_matches(space).contains(space)
}

#[cfg(test)]
mod tests {
    use super::{byte_of, leaves_a_word};

    #[test]
    fn only_the_usual_spelling_is_a_byte() {
        assert_eq!(byte_of("<0xE4>"), Some(0xe4));
        for other in ["<0xe4>", "<0xE>", "<0xE44>", "<0x+1>", "0xE4", "<0xE4"] {
            assert_eq!(byte_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_space_inside_joins_words_and_one_in_front_does_not() {
        assert!(!leaves_a_word("▁▁the"));
        assert!(!leaves_a_word("▁▁"));
        assert!(leaves_a_word("of▁the"));
        assert!(leaves_a_word("▁of▁"));
    }
}
