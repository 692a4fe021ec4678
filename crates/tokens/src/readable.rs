//! Tokens as people read them. A vocabulary spells bytes as letters of its own (`ä¸Ń` for 中) and spaces as `Ġ` or `▁`.

use crate::pieces::byte_of;
use crate::tokenizer::Tokenizer;

/// A space, where it would not be seen.
const SPACE: char = '␣';

impl Tokenizer {
    /// The token as people read it: `␣the` for a `the` after a space, `↵` for a line break, and `<E5><9B>` for bytes that are no
    /// whole character. An id that is not in the vocabulary is its number.
    pub fn readable(&self, id: u32) -> String {
        let Some(token) = self.token(id) else { return id.to_string() };
        if self.is_special(id) {
            return token.to_owned();
        }
        let bytes: Option<Vec<u8>> =
            if self.spells_bytes() { token.chars().map(byte).collect() } else { None };
        match bytes {
            Some(bytes) => visible(&bytes),
            None => visible(token.replace('▁', " ").as_bytes()),
        }
    }
}

impl Tokenizer {
    /// The bytes that the token stands for, apart from what the tokens around it do to them: a piece of a word without the mark that
    /// it goes on with it. Nothing for special tokens, and for ids that are not in the vocabulary.
    pub fn bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.token(id).filter(|_| !self.is_special(id))?;
        if self.spells_bytes() {
            let spelled: Option<Vec<u8>> = token.chars().map(byte).collect();
            return Some(spelled.unwrap_or_else(|| token.into()));
        }
        if let Some(byte) = byte_of(token) {
            return Some(vec![byte]);
        }
        let piece = token.strip_prefix("##").filter(|_| self.marks_pieces()).unwrap_or(token);
        Some(piece.replace('▁', " ").into_bytes())
    }
}

/// Text whose spaces and line breaks can be seen.
fn visible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                ' ' => text.push(SPACE),
                '\n' => text.push('↵'),
                '\t' => text.push('⇥'),
                letter if letter.is_control() => text.extend(letter.escape_unicode()),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            text.extend(format!("<{byte:02X}>").chars());
        }
    }
    text
}

/// The byte that a byte-level vocabulary spells as `letter` (GPT-2's table): printable Latin-1 stands for itself, and the other 68 bytes
/// are the letters from U+0100 on, in their order.
pub(crate) fn byte(letter: char) -> Option<u8> {
    let stands_for_itself = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let code = u32::from(letter);
    match u8::try_from(code) {
        Ok(byte) => stands_for_itself(byte).then_some(byte),
        Err(_) => (0..=255).filter(|&byte| !stands_for_itself(byte)).nth(code as usize - 256),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_byte_once() {
        let mut bytes: Vec<u8> = (0..400).filter_map(char::from_u32).filter_map(byte).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!("ä¸Ńå".chars().filter_map(byte).collect::<Vec<u8>>(), [0xE4, 0xB8, 0xAD, 0xE5]);
        assert_eq!((byte('Ġ'), byte('Ċ'), byte('中')), (Some(b' '), Some(b'\n'), None));
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible(b" the\n"), "␣the↵");
        assert_eq!(visible(&[0xE4, 0xB8, 0xAD, 0xE5]), "中<E5>");
        assert_eq!(visible(b"\x1b[31m"), "\\u{1b}[31m");
    }
}
