//! Words for blanks: what a masked language model expects where the mask token stands.

use glassformer_engine::Asked;
use glassformer_formula::Head;
use glassformer_tokens::{Encoding, SpecialText};

use crate::score::{best, softmax};
use crate::{Error, Input, Long, TextEncoder};

/// How blanks are filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// How many words are given for each blank, the likeliest first.
    pub top: usize,
    /// What is done with a text that is too long.
    pub long: Long,
}

impl Default for Fill {
    fn default() -> Self {
        Self { top: 5, long: Long::Refuse }
    }
}

/// One blank of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Blank {
    /// Which token of the text it is.
    pub place: usize,
    /// What fits, the likeliest first.
    pub choices: Vec<Choice>,
}

/// A word for a blank.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub word: String,
    /// Its probability.
    pub score: f32,
    /// The whole text with the word in the blank. Other blanks stay.
    pub text: String,
}

impl TextEncoder {
    /// Finds words for every blank (`[MASK]`, or whatever the tokenizer calls it) of every text.
    ///
    /// # Errors
    /// If the model guesses no words, or a text has no blank or is too long.
    pub fn fill(&self, texts: &[impl AsRef<str>], options: &Fill) -> Result<Vec<Vec<Blank>>, Error> {
        self.needs("fill", "a head for masked words", |head| matches!(head, Head::Words { .. }))?;
        let Some(mask) = self.tokenizer().special().mask.filter(|_| self.reads_both_ways()) else {
            let needs = "a head for masked words";
            return Err(Error::Head { task: "fill", needs, has: "no token for blanks" });
        };
        let inputs: Vec<Input<'_>> = texts.iter().map(|text| Input::One(text.as_ref())).collect();
        let encodings = self.encode(&inputs, options.long, self.longest())?;
        let blanks: Vec<Vec<usize>> = encodings.iter().map(|text| places(text, mask)).collect();
        if let Some(text) = blanks.iter().position(Vec::is_empty) {
            let token = self.tokenizer().token(mask).unwrap_or("[MASK]");
            let what = "there is no blank in it".to_owned();
            return Err(Error::Text { text, what, hint: format!("write {token} where a word is wanted") });
        }
        let mut filled = Vec::with_capacity(texts.len());
        let asked = |text: &Encoding| Asked::Rows(places(text, mask));
        let mut failed = None;
        self.run(&encodings, "logits", asked, |text, logits| {
            let width = logits.len() / blanks[text].len();
            let rows = logits.chunks_exact(width).zip(&blanks[text]);
            let special = if blanks[text].len() == 1 { SpecialText::Skip } else { SpecialText::Keep };
            let blank = |(row, &place)| {
                let choices = self.choices(&encodings[text].ids, (place, special), row, options.top)?;
                Ok(Blank { place, choices })
            };
            match rows.map(blank).collect::<Result<Vec<_>, Error>>() {
                Ok(found) => filled.push(found),
                Err(error) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(filled), Err)
    }

    /// The likeliest words for the blank at `place`. Other blanks are special tokens too: `special` keeps them where there are.
    fn choices(
        &self,
        ids: &[u32],
        (place, special): (usize, SpecialText),
        logits: &[f32],
        top: usize,
    ) -> Result<Vec<Choice>, Error> {
        let probabilities = softmax(logits);
        let mut ids = ids.to_vec();
        let choice = |id: usize| {
            let score = probabilities[id];
            let id = id as u32;
            ids[place] = id;
            let word = self.tokenizer().decode(&[id], SpecialText::Keep)?;
            Ok(Choice { id, word, score, text: self.tokenizer().decode(&ids, special)? })
        };
        best(&probabilities, top).into_iter().map(choice).collect()
    }

    /// Whether every row of the model sees every other: a decoder cannot fill blanks.
    fn reads_both_ways(&self) -> bool {
        self.checkpoint().model.formula().target.is_none()
    }
}

/// Where the mask token stands.
fn places(text: &Encoding, mask: u32) -> Vec<usize> {
    text.ids.iter().enumerate().filter(|(_, id)| **id == mask).map(|(place, _)| place).collect()
}
