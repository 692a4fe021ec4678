//! Tokens and their ids.

use std::collections::HashMap;
use std::sync::Arc;

/// Every token of a tokenizer, by its id and by its text.
///
/// A map and not a list: a file may give any id, and the memory must follow the file's size and not its numbers.
#[derive(Debug, Default)]
pub struct Vocabulary {
    tokens: HashMap<u32, Arc<str>>,
    ids: HashMap<Arc<str>, u32>,
}

impl Vocabulary {
    /// The text of a token, as the vocabulary spells it: `▁the`, `##ing`, `Ġof`.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(&id).map(|token| &**token)
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// One more than the largest id: how many rows an embedding needs at least.
    pub fn size(&self) -> usize {
        self.tokens.keys().max().map_or(0, |&id| id as usize + 1)
    }

    /// Every id and its token, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        let mut all: Vec<(u32, &str)> = self.tokens.iter().map(|(&id, token)| (id, &**token)).collect();
        all.sort_unstable_by_key(|&(id, _)| id);
        all.into_iter()
    }

    /// Adds a token. An id keeps its first token, and a token its last id.
    pub(crate) fn insert(&mut self, token: impl Into<Arc<str>>, id: u32) {
        let token = token.into();
        self.tokens.entry(id).or_insert_with(|| token.clone());
        self.ids.insert(token, id);
    }

    /// All of these, which come in any order: of two with one id the smaller names it, every time.
    pub(crate) fn extend(&mut self, tokens: impl IntoIterator<Item = (String, u32)>) {
        for (token, id) in tokens {
            let token: Arc<str> = token.into();
            let named = self.tokens.entry(id).or_insert_with(|| token.clone());
            if token < *named {
                *named = token.clone();
            }
            self.ids.insert(token, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_two_tokens_is_named_by_the_smaller_in_any_order() {
        for tokens in [["[MASK]", "[UNK]"], ["[UNK]", "[MASK]"]] {
            let mut vocabulary = Vocabulary::default();
            vocabulary.extend(tokens.map(|token| (token.to_owned(), 4)));
            assert_eq!(vocabulary.iter().collect::<Vec<_>>(), [(4, "[MASK]")]);
        }
    }
}
