//! Tokens with their bytes, their places in the text, and the words that they make.

use glassformer_tokens::{Encoding, Part, Tokenizer};

use super::Token;

/// The tokens of a text that was read.
pub(super) fn read(tokenizer: &Tokenizer, encoding: &Encoding) -> Vec<Token> {
    let token = |at: usize| {
        let id = encoding.ids[at];
        let part = encoding.parts[at].map(|part| match part {
            Part::First => 0,
            Part::Second => 1,
        });
        let (span, special) = (encoding.chars[at], encoding.special[at]);
        Token {
            span: (!special).then_some([span.start, span.end]),
            special: special || tokenizer.is_special(id),
            part,
            ..bare(tokenizer, id)
        }
    };
    let mut tokens: Vec<Token> = (0..encoding.len()).map(token).collect();
    let words: Vec<Option<(usize, u32)>> =
        tokens.iter().zip(&encoding.words).map(|(token, word)| token.part.zip(*word)).collect();
    group(tokenizer, &mut tokens, &words);
    tokens
}

/// Tokens that stand in no text: what a target begins with, and what was written.
pub(super) fn target(tokenizer: &Tokenizer, begun: Vec<Token>, written: &[u32]) -> Vec<Token> {
    let mut tokens = begun;
    let groups: Vec<usize> = tokens.iter().map(|token| token.group).collect();
    tokens.extend(written.iter().map(|&id| Token { written: true, ..bare(tokenizer, id) }));
    let words = vec![None; tokens.len()];
    group(tokenizer, &mut tokens, &words);
    // What was read keeps its words; what was written is counted from there.
    if let (Some(&last), Some(first)) = (groups.last(), tokens.get(groups.len()).map(|token| token.group)) {
        let joins = first == tokens[groups.len() - 1].group;
        let base = last + usize::from(!joins);
        for token in &mut tokens[groups.len()..] {
            token.group = token.group - first + base;
        }
    }
    for (token, own) in tokens.iter_mut().zip(groups) {
        token.group = own;
    }
    tokens
}

/// A token alone.
pub(super) fn bare(tokenizer: &Tokenizer, id: u32) -> Token {
    let (bytes, special) = (tokenizer.bytes(id), tokenizer.is_special(id));
    Token { bytes, special, ..named(id, tokenizer.readable(id)) }
}

/// A token of which nothing is known but its name.
pub(super) fn named(id: u32, text: String) -> Token {
    Token { id, text, bytes: None, span: None, part: None, special: false, written: false, group: 0 }
}

/// Numbers the words. Tokens of one character are together, a space or a character that is a word by itself begins a new one, and else a
/// word goes on where the tokenizer says so in `words`, or where its letters do.
fn group(tokenizer: &Tokenizer, tokens: &mut [Token], words: &[Option<(usize, u32)>]) {
    let mut number = 0;
    // The bytes of a character that is not whole yet, and the last whole one.
    let mut open: Vec<u8> = Vec::new();
    let mut last: Option<char> = None;
    for at in 0..tokens.len() {
        let own = tokens[at].bytes.clone().unwrap_or_default();
        if at > 0 {
            let (before, this) = (&tokens[at - 1], &tokens[at]);
            let goes_on = match (words[at - 1], words[at]) {
                _ if this.special || before.special => false,
                _ if !open.is_empty() => true,
                _ if begins_word(&own) || last.is_some_and(is_a_word) => false,
                (Some(last), Some(this)) => last == this,
                _ => follows(tokenizer, before, this),
            };
            number += usize::from(!goes_on);
        }
        tokens[at].group = number;
        open.extend(own);
        let whole = match std::str::from_utf8(&open) {
            Ok(text) => text.len(),
            // What never becomes a character ends here.
            Err(error) if error.error_len().is_some() => open.len(),
            Err(error) => error.valid_up_to(),
        };
        last = String::from_utf8_lossy(&open[..whole]).chars().last().or(last);
        open.drain(..whole);
    }
}

/// Whether a token's bytes begin with a space, or with a character that is a word by itself.
fn begins_word(bytes: &[u8]) -> bool {
    match bytes.first() {
        None => false,
        Some(first) if first.is_ascii() => first.is_ascii_whitespace(),
        // Characters of Chinese and Japanese begin with these bytes, whole or not.
        Some(first) => matches!(first, 0xE3..=0xE9 | 0xF0),
    }
}

/// Whether `token` goes on with the word of the one before it.
fn follows(tokenizer: &Tokenizer, before: &Token, token: &Token) -> bool {
    if tokenizer.marks_pieces() {
        return tokenizer.token(token.id).is_some_and(|spelled| spelled.starts_with("##"));
    }
    let text =
        |token: &Token| String::from_utf8_lossy(token.bytes.as_deref().unwrap_or_default()).into_owned();
    let is_letter = |c: char| c.is_alphanumeric() && !is_a_word(c);
    let last = text(before).chars().last().is_some_and(is_letter);
    last && text(token).chars().next().is_some_and(is_letter)
}

/// Whether a character is a word by itself, as those of Chinese and Japanese are.
fn is_a_word(c: char) -> bool {
    matches!(u32::from(c), 0x2E80..=0x9FFF | 0xF900..=0xFAFF | 0x2_0000..=0x3_FFFF)
}
