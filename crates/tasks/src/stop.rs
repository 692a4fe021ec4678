//! Pieces of text as tokens come, and texts that end a text.

use std::sync::Arc;

use glassformer_engine::{Finish, Stopper};
use glassformer_tokens::{SpecialText, Stream, Tokenizer};

use crate::{Error, GeneratedText};

/// How special tokens are written in results: not at all.
const SPECIAL: SpecialText = SpecialText::Skip;

/// Ends a text when one of several texts has come.
#[derive(Debug)]
pub(crate) struct StopTexts {
    tokenizer: Arc<Tokenizer>,
    texts: Vec<String>,
    /// How many tokens can hold the longest of them, with a few more: the first of some loses a space that leads it.
    tokens: usize,
}

impl StopTexts {
    /// Nothing where there are no texts.
    pub fn new(tokenizer: &Arc<Tokenizer>, texts: &[String]) -> Option<Self> {
        let longest = texts.iter().map(String::len).filter(|&len| len > 0).max()?;
        Some(Self { tokenizer: tokenizer.clone(), texts: texts.to_vec(), tokens: longest + 4 })
    }
}

impl Stopper for StopTexts {
    fn stops(&self, new: &[u32]) -> bool {
        let last = &new[new.len().saturating_sub(self.tokens)..];
        let text = self.tokenizer.decode(last, SpecialText::Keep).unwrap_or_default();
        self.texts.iter().any(|stop| !stop.is_empty() && text.contains(stop.as_str()))
    }
}

/// Text that comes piece by piece, and the part of it that is held back: it may be the beginning of a text that ends all.
pub(crate) struct Held {
    stream: Stream,
    stop: Vec<String>,
    back: String,
    text: String,
    ids: Vec<u32>,
    /// The end of the prompt's text, where the stream has not said it: then it will say that too.
    unsaid: String,
    ended: bool,
}

impl Held {
    /// For the tokens after `prompt`, which decide whether the first of them begins with a space.
    pub fn after(tokenizer: &Tokenizer, prompt: &[u32], stop: &[String]) -> Result<Self, Error> {
        let mut stream = tokenizer.stream(SPECIAL);
        let mut said = String::new();
        for &id in prompt {
            said += &stream.push(tokenizer, id)?;
        }
        let whole = tokenizer.decode(prompt, SPECIAL)?;
        let unsaid = whole.strip_prefix(&said).unwrap_or_default().to_owned();
        let stop = stop.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        Ok(Self {
            stream,
            stop,
            back: String::new(),
            text: String::new(),
            ids: Vec::new(),
            unsaid,
            ended: false,
        })
    }

    /// What can be shown once the token `id` has come.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String, Error> {
        self.ids.push(id);
        let part = self.stream.push(tokenizer, id)?;
        self.take(&part);
        if self.ended {
            return Ok(self.show(0));
        }
        let begins = |keep: usize| {
            let end = &self.back[self.back.len() - keep..];
            self.stop.iter().any(|stop| stop.starts_with(end))
        };
        let longest = self.stop.iter().map(String::len).max().unwrap_or(0).min(self.back.len());
        let at_char = |keep: &usize| self.back.is_char_boundary(self.back.len() - keep);
        let keep = (1..=longest).rev().filter(at_char).find(|&keep| begins(keep)).unwrap_or(0);
        Ok(self.show(keep))
    }

    /// What is left once the last token has come.
    pub fn rest(&mut self, tokenizer: &Tokenizer) -> Result<String, Error> {
        let stream = std::mem::replace(&mut self.stream, tokenizer.stream(SPECIAL));
        let part = stream.finish(tokenizer)?;
        self.take(&part);
        Ok(self.show(0))
    }

    /// Holds what the stream says, without the prompt's end and up to a text that ends all.
    fn take(&mut self, part: &str) {
        if self.ended || part.is_empty() {
            return;
        }
        // A character that the prompt began and new tokens ended is theirs.
        let unsaid = std::mem::take(&mut self.unsaid);
        self.back += part.strip_prefix(unsaid.as_str()).unwrap_or(part);
        if let Some(at) = self.stop.iter().filter_map(|stop| self.back.find(stop.as_str())).min() {
            self.back.truncate(at);
            self.ended = true;
        }
    }

    /// Whether no token has come.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// What was written before somebody broke it off.
    pub fn broken_off(&self) -> GeneratedText {
        let (text, ids) = (self.text.clone(), self.ids.clone());
        GeneratedText {
            text,
            ids,
            score: None,
            finish: Finish::Stop,
            logprobs: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Everything that is held but the last `keep` bytes.
    fn show(&mut self, keep: usize) -> String {
        let rest = self.back.split_off(self.back.len() - keep);
        let shown = std::mem::replace(&mut self.back, rest);
        self.text += &shown;
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words and two bytes of "é"; `decoder` says how text grows.
    fn tokenizer(decoder: &str) -> Tokenizer {
        let words = ["<unk>", "▁a", "▁b", "<0xC3>", "<0xA9>"];
        let vocabulary: Vec<String> =
            words.iter().enumerate().map(|(id, word)| format!("{word:?}: {id}")).collect();
        let json = format!(
            r#"{{"version": "1.0", "model": {{"type": "BPE", "vocab": {{{}}}, "merges": [], "unk_token": "<unk>"}}, "decoder": {{"type": "Sequence", "decoders": [{decoder}]}}}}"#,
            vocabulary.join(", ")
        );
        Tokenizer::from_json(&json, "{}").unwrap()
    }

    const REPLACE: &str = r#"{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}"#;

    /// All pieces after `prompt`.
    fn written(tokenizer: &Tokenizer, (prompt, new): (&[u32], &[u32]), stop: &[String]) -> String {
        let mut held = Held::after(tokenizer, prompt, stop).unwrap();
        let pieces: Vec<String> = new.iter().map(|&id| held.push(tokenizer, id).unwrap()).collect();
        pieces.concat() + &held.rest(tokenizer).unwrap()
    }

    #[test]
    fn bytes_at_the_end_of_a_prompt_are_not_written_again() {
        let bytes = tokenizer(&format!(r#"{REPLACE}, {{"type": "ByteFallback"}}, {{"type": "Fuse"}}"#));
        assert_eq!(written(&bytes, (&[1, 3, 4], &[2, 3, 4]), &[]), " bé");
        assert_eq!(written(&bytes, (&[1, 3, 4], &[3, 4, 1]), &[]), "é a");
        assert_eq!(written(&bytes, (&[1], &[3, 4]), &[]), "é");
    }

    #[test]
    fn a_text_that_ends_all_is_left_out_whenever_it_comes() {
        let bytes = tokenizer(&format!(r#"{REPLACE}, {{"type": "ByteFallback"}}, {{"type": "Fuse"}}"#));
        // Of this nothing is known: all of its text comes at the end.
        let late = tokenizer(&format!(r#"{REPLACE}, {REPLACE}, {{"type": "Fuse"}}"#));
        for tokenizer in [bytes, late] {
            assert_eq!(written(&tokenizer, (&[1], &[2, 1, 2]), &["a".into()]), " b ");
            assert_eq!(written(&tokenizer, (&[1], &[2, 2]), &["a".into()]), " b b");
        }
    }
}
