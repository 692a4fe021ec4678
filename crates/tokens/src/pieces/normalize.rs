//! What SentencePiece does to a text before it looks for pieces, remembering where each byte came from.

use super::charsmap::Charsmap;
use super::trie::Trie;

/// The character that stands for a space: ▁, U+2581.
pub(crate) const SPACE: &[u8] = "▁".as_bytes();

/// How a text is prepared.
#[allow(clippy::struct_excessive_bools)] // the switches of the format, under its names
#[derive(Debug, Default)]
pub(crate) struct Normalizer {
    /// Characters that become others.
    pub charsmap: Option<Charsmap>,
    /// A text begins with a space, so that words at the beginning are words like any other.
    pub add_dummy_prefix: bool,
    /// Spaces at both ends go, and runs of them become one.
    pub remove_extra_whitespaces: bool,
    /// Spaces become ▁.
    pub escape_whitespaces: bool,
    /// The space belongs to the word before it.
    pub whitespace_is_suffix: bool,
}

/// A text that is ready, and the byte of the original that each of its bytes comes from.
pub(crate) struct Normalized {
    pub text: Vec<u8>,
    /// One more than there are bytes: the last is where the original has ended.
    pub origin: Vec<u32>,
}

/// How long the character is that begins with this byte, without looking at the others.
pub(crate) fn char_length(first: u8) -> usize {
    match first {
        0x00..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    }
}

/// The length of the character that a text begins with, or `None` where it begins with no character.
pub(crate) fn valid_char(text: &[u8]) -> Option<usize> {
    let length = char_length(*text.first()?);
    std::str::from_utf8(text.get(..length)?).is_ok().then_some(length)
}

impl Normalizer {
    /// What the beginning of a text becomes, and how many bytes of it that is. User-defined symbols stay as they are.
    fn prefix<'a>(&'a self, text: &'a [u8], symbols: &Trie) -> (&'a [u8], usize) {
        if let Some((length, _)) = symbols.longest(text) {
            return (&text[..length], length);
        }
        if let Some(found) = self.charsmap.as_ref().and_then(|map| map.longest(text)) {
            return found;
        }
        match valid_char(text) {
            Some(length) => (&text[..length], length),
            None => ("\u{fffd}".as_bytes(), 1),
        }
    }

    /// Prepares a text.
    pub fn apply(&self, text: &[u8], symbols: &Trie) -> Normalized {
        let mut out = Normalized { text: Vec::with_capacity(text.len() + 3), origin: Vec::new() };
        out.origin.reserve(text.len() + 4);
        let mut at = 0;
        while self.remove_extra_whitespaces && at < text.len() {
            let (piece, length) = self.prefix(&text[at..], symbols);
            if piece != b" " {
                break;
            }
            at += length;
        }
        if at == text.len() {
            out.origin.push(0);
            return out;
        }
        if self.add_dummy_prefix && !self.whitespace_is_suffix {
            self.space(&mut out, at);
        }
        let mut after_space = self.remove_extra_whitespaces;
        while at < text.len() {
            let (mut piece, length) = self.prefix(&text[at..], symbols);
            while after_space && let Some(rest) = piece.strip_prefix(b" ") {
                piece = rest;
            }
            for &byte in piece {
                if byte == b' ' {
                    self.space(&mut out, at);
                } else {
                    out.text.push(byte);
                    out.origin.push(at as u32);
                }
            }
            if let Some(&last) = piece.last() {
                after_space = last == b' ';
            }
            at += length;
            after_space &= self.remove_extra_whitespaces;
        }
        if self.remove_extra_whitespaces {
            let space = if self.escape_whitespaces { SPACE } else { b" " };
            while out.text.ends_with(space) {
                let length = out.text.len() - space.len();
                at = out.origin[length] as usize;
                out.text.truncate(length);
                out.origin.truncate(length);
            }
        }
        if self.add_dummy_prefix && self.whitespace_is_suffix {
            self.space(&mut out, at);
        }
        out.origin.push(at as u32);
        out
    }

    fn space(&self, out: &mut Normalized, at: usize) {
        let space = if self.escape_whitespaces { SPACE } else { b" " };
        out.text.extend(space);
        out.origin.extend([at as u32; SPACE.len()].iter().take(space.len()));
    }
}
