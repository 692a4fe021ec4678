//! Tokens that are found in a text as it stands, before anything else happens to it.

use crate::config::Token;
use crate::encoding::Span;
use crate::pieces::Trie;

/// Tokens to look for, with their ids.
#[derive(Debug, Default)]
pub(crate) struct Added {
    tokens: Vec<(Token, u32)>,
    trie: Trie,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Text(Span),
    /// The id of the token.
    Token(u32, Span),
}

/// What Python takes for a space at the ends of a text.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// A text without the spaces that Python would strip.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

impl Added {
    pub fn new(tokens: Vec<(Token, u32)>) -> Self {
        let keys = (0_u32..).zip(&tokens).filter(|(_, (token, _))| !token.content.is_empty());
        let trie = Trie::new(keys.map(|(index, (token, _))| (token.content.as_bytes(), index)));
        Self { tokens, trie }
    }

    /// The token that stands here: the longest.
    fn at(&self, text: &str, at: usize) -> Option<(&Token, u32, usize)> {
        let (length, index) = self.trie.longest(&text.as_bytes()[at..])?;
        let (token, id) = &self.tokens[index as usize];
        let alone = |before: Option<char>| before.is_none_or(|c| c == ' ');
        let single = || alone(text[..at].chars().next_back()) && alone(text[at + length..].chars().next());
        (!token.single_word || single()).then_some((token, *id, length))
    }

    /// Cuts a text where tokens stand in it.
    pub fn split(&self, text: &str) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut begin = 0;
        let mut at = 0;
        while at < text.len() {
            let Some((token, id, length)) = self.at(text, at) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let before = &text[begin..at];
            let before = if token.lstrip { before.trim_end_matches(is_space) } else { before };
            if !before.is_empty() {
                segments.push(Segment::Text(Span { start: begin, end: begin + before.len() }));
            }
            segments.push(Segment::Token(id, Span { start: at, end: at + length }));
            at += length;
            if token.rstrip {
                at = text.len() - text[at..].trim_start_matches(is_space).len();
            }
            begin = at;
        }
        if begin < text.len() {
            segments.push(Segment::Text(Span { start: begin, end: text.len() }));
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::{Added, Segment};
    use crate::config::Token;
    use crate::encoding::Span;

    #[test]
    fn the_longest_token_wins_and_takes_its_spaces() {
        let plain = |content: &str| Token::special(content);
        let added = Added::new(vec![
            (plain("<x_1>"), 1),
            (plain("<x_10>"), 2),
            (Token { lstrip: true, rstrip: true, ..plain("<mask>") }, 3),
            (Token { single_word: true, ..plain("one") }, 4),
        ]);
        let text = |start, end| Segment::Text(Span { start, end });
        let token = |id, start, end| Segment::Token(id, Span { start, end });
        assert_eq!(added.split(""), []);
        assert_eq!(added.split("a<x_10>"), [text(0, 1), token(2, 1, 7)]);
        assert_eq!(added.split("<x_1><x_1>é"), [token(1, 0, 5), token(1, 5, 10), text(10, 12)]);
        assert_eq!(added.split("a \u{3000}<mask>\n b"), [text(0, 1), token(3, 5, 11), text(13, 14)]);
        assert_eq!(added.split("bone one"), [text(0, 5), token(4, 5, 8)]);
    }
}
