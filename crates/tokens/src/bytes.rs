//! The bytes that each token adds to a text: for whoever must know what a text becomes before its tokens are chosen.

use crate::encoding::SpecialText;
use crate::error::Error;
use crate::library::{Growth, Library};
use crate::pieces::byte_of;
use crate::readable::byte;
use crate::tokenizer::{Engine, Tokenizer};

/// The bytes of the tokens of a text are the text, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBytes {
    /// What each token adds to a text that has begun, by its id. Nothing for special tokens and for ids that no token has.
    pub tokens: Vec<Vec<u8>>,
    /// Whether a text loses the space that its first token begins with.
    pub first_space_goes: bool,
}

impl Tokenizer {
    /// What the tokens with ids below `count` add to a text. Nothing where that depends on the tokens around them, or the text is
    /// tidied when it is whole.
    ///
    /// # Errors
    /// The tokenizers library failed on these tokens.
    pub fn token_bytes(&self, count: usize) -> Result<Option<TokenBytes>, Error> {
        let known = self.growth() != Growth::Unknown;
        match self.engine() {
            _ if !known => Ok(None),
            Engine::Library(library) => self.library_bytes(library, count),
            Engine::Pieced(pieces) => {
                let tokens = (0..count as u32).map(|id| pieces.bytes(id).unwrap_or_default()).collect();
                Ok(Some(TokenBytes { tokens, first_space_goes: pieces.first_space_goes() }))
            }
        }
    }

    fn library_bytes(&self, library: &Library, count: usize) -> Result<Option<TokenBytes>, Error> {
        let text = |id: &u32| (*id as usize) < count && !self.is_special(*id);
        let known = || self.vocabulary().iter().filter(|(id, _)| text(id));
        let mut tokens = vec![Vec::new(); count];
        if library.spells_bytes {
            for (id, token) in known() {
                let spelled: Option<Vec<u8>> = token.chars().map(byte).collect();
                tokens[id as usize] = spelled.unwrap_or_else(|| token.into());
            }
            return Ok(Some(TokenBytes { tokens, first_space_goes: false }));
        }
        if library.joins_words {
            return Ok(None);
        }
        // What a token adds is seen behind another one.
        let is_word = |token: &str| token.chars().any(|letter| letter.is_ascii_alphanumeric());
        let Some((before, _)) = known().find(|(_, token)| is_word(token) && byte_of(token).is_none()) else {
            return Ok(None);
        };
        let decode = |ids: &[u32]| library.decode(ids, SpecialText::Keep);
        let begun = decode(&[before])?;
        let mut first_space_goes = false;
        for (id, token) in known() {
            if let Some(byte) = byte_of(token).filter(|_| library.growth == Growth::AppendsAfterBytes) {
                tokens[id as usize] = vec![byte];
                continue;
            }
            let both = decode(&[before, id])?;
            let Some(own) = both.strip_prefix(begun.as_str()) else { return Ok(None) };
            first_space_goes = first_space_goes || (own.starts_with(' ') && decode(&[id])? == own[1..]);
            tokens[id as usize] = own.into();
        }
        Ok(Some(TokenBytes { tokens, first_space_goes }))
    }
}
