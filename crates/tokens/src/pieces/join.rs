//! Pieces back to text.

use super::model::{Kind, Model, byte_of};
use super::normalize::valid_char;

/// A piece to be joined.
#[derive(Clone, Copy)]
pub(crate) enum Item<'a> {
    /// One of the model's own.
    Id(u32),
    /// By its text, which the model may not have.
    Named(&'a str),
    /// A text that is spelled out as it stands.
    Literal(&'a str),
}

impl Model {
    /// Whether a text loses the space that its first piece begins with.
    pub fn first_space_goes(&self) -> bool {
        self.normalizer.add_dummy_prefix || self.normalizer.remove_extra_whitespaces
    }

    /// The text of some pieces.
    ///
    /// The space that stands at the beginning goes; bytes become characters, and bytes that are none become U+FFFD, one
    /// for each.
    pub fn join<'a>(&self, items: impl IntoIterator<Item = Item<'a>>) -> String {
        let mut text = String::new();
        let mut bytes = Vec::new();
        // Whether a space would still be the one at the beginning, and whether it has gone.
        let mut beginning = true;
        let mut gone = false;
        for item in items {
            let (piece, kind, named) = match item {
                Item::Literal(literal) => (literal, None, true),
                Item::Named(name) => {
                    let id = self.id(name).unwrap_or(self.unknown);
                    (
                        name,
                        Some(self.pieces[id as usize].kind),
                        *self.pieces[self.unknown as usize].text != *name,
                    )
                }
                Item::Id(id) => match self.pieces.get(id as usize) {
                    Some(piece) => (&*piece.text, Some(piece.kind), false),
                    None => continue,
                },
            };
            if let (Some(Kind::Byte), Some(byte)) = (kind, byte_of(piece)) {
                bytes.push(byte);
                continue;
            }
            flush(&mut bytes, &mut text);
            beginning &= !gone && text.is_empty();
            gone = false;
            match kind {
                None => text.push_str(piece),
                Some(Kind::Control) => {}
                Some(Kind::Unknown) => text.push_str(if named { piece } else { &self.unknown_text }),
                Some(Kind::Normal | Kind::User | Kind::Unused | Kind::Byte) => {
                    let mut piece = piece;
                    if beginning
                        && self.first_space_goes()
                        && let Some(rest) = piece.strip_prefix('▁')
                    {
                        piece = rest;
                        gone = !self.normalizer.remove_extra_whitespaces;
                    }
                    text.extend(piece.chars().map(|c| if c == '▁' { ' ' } else { c }));
                }
            }
        }
        flush(&mut bytes, &mut text);
        text
    }
}

/// Appends bytes as characters.
fn flush(bytes: &mut Vec<u8>, text: &mut String) {
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let (shown, length) = match valid_char(rest) {
            Some(length) => (std::str::from_utf8(&rest[..length]).unwrap_or("\u{fffd}"), length),
            None => ("\u{fffd}", 1),
        };
        text.push_str(shown);
        rest = &rest[length..];
    }
    bytes.clear();
}
