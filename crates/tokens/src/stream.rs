//! Decoding token by token.

use crate::encoding::SpecialText;
use crate::error::Error;
use crate::library::Growth;
use crate::pieces::byte_of;
use crate::tokenizer::Tokenizer;

/// The text of tokens as they come, in parts that never end inside a character.
///
/// All parts together are what [`Tokenizer::decode`] makes of all tokens, to the byte. That is why a part may come a few
/// tokens late: until a character is complete, until a run of byte tokens has ended, and, for decoders of which it is
/// not known how their text grows, until [`Stream::finish`].
#[derive(Clone, Debug)]
pub struct Stream {
    special: SpecialText,
    ids: Vec<u32>,
    /// Where the tokens begin that are decoded again for context: spaces depend on what is before them.
    context: usize,
    /// Where the tokens begin whose text was not given out.
    waiting: usize,
    /// How many bytes were given out.
    given: usize,
}

impl Tokenizer {
    /// Decodes token by token as they come.
    pub fn stream(&self, special: SpecialText) -> Stream {
        Stream { special, ids: Vec::new(), context: 0, waiting: 0, given: 0 }
    }
}

impl Stream {
    /// One more token; what text is certain now. The tokenizer must be the one that made this stream.
    ///
    /// # Errors
    /// The tokenizers library failed on these tokens.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String, Error> {
        if self.special == SpecialText::Skip && tokenizer.is_special(id) {
            return Ok(String::new());
        }
        self.ids.push(id);
        let bytes = || tokenizer.token(id).is_some_and(|token| byte_of(token).is_some());
        match tokenizer.growth() {
            Growth::Unknown => return Ok(String::new()),
            Growth::AppendsAfterBytes if bytes() => return Ok(String::new()),
            Growth::AppendsAfterBytes | Growth::Appends => {}
        }
        let decode = |ids: &[u32]| tokenizer.decode(ids, self.special);
        let before = decode(&self.ids[self.context..self.waiting])?;
        let now = decode(&self.ids[self.context..])?;
        let Some(part) = now.strip_prefix(before.as_str()) else { return Ok(String::new()) };
        if part.is_empty() || part.ends_with('\u{fffd}') {
            return Ok(String::new());
        }
        // Context that has no text of its own would not show which spaces stand at the beginning.
        if !decode(&self.ids[self.waiting..])?.is_empty() {
            self.context = self.waiting;
        }
        self.waiting = self.ids.len();
        self.given += part.len();
        Ok(part.to_owned())
    }

    /// The rest of the text, when no more tokens come.
    ///
    /// # Errors
    /// The tokenizers library failed on these tokens.
    pub fn finish(self, tokenizer: &Tokenizer) -> Result<String, Error> {
        let mut text = tokenizer.decode(&self.ids, self.special)?;
        Ok(if text.is_char_boundary(self.given) { text.split_off(self.given) } else { String::new() })
    }
}
