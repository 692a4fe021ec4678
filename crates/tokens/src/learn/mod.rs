//! A vocabulary learned from text, as a `tokenizer.json`.
//!
//! The learning itself is the tokenizers library's; what is ours: how languages with and without spaces are cut into
//! words, which characters are worth a token, and bytes for all others, so that no text is unknown.

mod shape;

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::unigram::{Unigram, UnigramTrainer};
use tokenizers::tokenizer::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Trainer,
};
use tokenizers::{AddedToken, NormalizerWrapper};

use crate::error::Error;
use crate::library::{Splits, guarded};
use shape::Shape;

/// How a vocabulary is learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Learn {
    /// What its tokens are.
    pub pieces: Pieces,
    /// How many tokens there are to be, special ones and bytes included.
    pub size: usize,
    /// The share of all characters of the text that get tokens of their own; the rest are spelled in bytes.
    pub coverage: f64,
    /// What is put around a text, and which special tokens there are for it.
    pub around: Marks,
}

/// What the tokens of a learned vocabulary are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// The most probable cut into pieces (Kudo 2018).
    Unigram,
    /// Pairs joined by how often they come (Sennrich et al. 2016).
    Pairs,
    /// The same over bytes, as GPT-2 has it: every text comes back as it was, spaces and lines included.
    BytePairs,
    /// One token for each character.
    Characters,
}

/// Which special tokens a vocabulary has, and how a text is marked with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// `</s>` after each text: encoder-decoders.
    End,
    /// `</s>` is there, and put nowhere: decoders, which see texts one after the other.
    None,
    /// `[CLS]` and `[SEP]` around each text: encoders.
    Around,
}

impl Default for Learn {
    fn default() -> Self {
        Self { pieces: Pieces::Unigram, size: 8000, coverage: 0.9995, around: Marks::End }
    }
}

impl Learn {
    /// The largest size: room for as many tokens is made before any is learned.
    pub const LARGEST: usize = 1 << 22;

    /// Learns from `lines` what a `tokenizer.json` holds. The same lines in any order give the same file, on any number of cores.
    ///
    /// # Errors
    /// If the size is too small for the characters of the text or more than [`Learn::LARGEST`], or the text is empty.
    pub fn from_lines<'t>(
        &self,
        lines: impl IntoIterator<Item = &'t str> + Clone,
    ) -> Result<LearnedVocabulary, Error> {
        if self.size > Self::LARGEST {
            return Err(self.wrong(&format!("there may be {} at most", Self::LARGEST)));
        }
        let shape = Shape::of(self.pieces, self.around);
        let known = self.characters(lines.clone());
        if known.is_empty() {
            return Err(self.wrong("there is no text to learn from"));
        }
        let special = shape.special.len() + shape.bytes.len();
        let least = special + if self.pieces == Pieces::BytePairs { 0 } else { known.len() };
        if self.pieces != Pieces::Characters && least >= self.size {
            return Err(self.wrong(&format!(
                "{} tokens are too few for {} characters and {special} others: raise `size` or lower `coverage`",
                self.size,
                known.len()
            )));
        }
        let words = self.words(lines, &shape, &known)?;
        let model = match self.pieces {
            Pieces::Unigram => self.unigram(words, &shape)?,
            Pieces::Pairs | Pieces::BytePairs => self.pairs(&words, &shape)?,
            Pieces::Characters => shape.characters(&known),
        };
        Ok(LearnedVocabulary { json: shape.json(&model), config: shape.config() })
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Learn { what: what.to_owned(), size: self.size }
    }

    /// The most frequent characters, up to the coverage; in the order of their code points.
    fn characters<'t>(&self, lines: impl IntoIterator<Item = &'t str>) -> Vec<char> {
        let mut counts: HashMap<char, u64> = HashMap::new();
        for line in lines {
            line.chars().for_each(|c| *counts.entry(c).or_default() += 1);
        }
        let total: u64 = counts.values().sum();
        let mut sorted: Vec<(char, u64)> = counts.into_iter().collect();
        sorted.sort_by_key(|&(c, count)| (std::cmp::Reverse(count), c));
        let wanted = if self.pieces == Pieces::Characters { 1.0 } else { self.coverage };
        let most = (total as f64 * wanted).ceil() as u64;
        let mut seen = 0;
        let mut kept: Vec<char> = sorted
            .into_iter()
            .take_while(|&(_, count)| {
                let more = seen < most;
                seen += count;
                more
            })
            .map(|(c, _)| c)
            .collect();
        kept.sort_unstable();
        kept
    }

    /// Each word of the text and how often it comes, in alphabetical order. Characters that get no token end a word.
    fn words<'t>(
        &self,
        lines: impl IntoIterator<Item = &'t str>,
        shape: &Shape,
        known: &[char],
    ) -> Result<Vec<(String, u32)>, Error> {
        if self.pieces == Pieces::Characters {
            return Ok(Vec::new());
        }
        let read =
            |value: &Value| serde_json::from_value(value.clone()).map_err(|e| Error::broken("words", e));
        let normalizer: Option<NormalizerWrapper> =
            if shape.normalizer.is_null() { None } else { Some(read(&shape.normalizer)?) };
        let splits: Splits =
            serde_json::from_value(shape.splits.clone()).map_err(|error| Error::broken("words", error))?;
        let plain = self.pieces == Pieces::BytePairs;
        let mut counts: HashMap<String, u32> = HashMap::new();
        for line in lines {
            let cleaned: String = line
                .chars()
                .map(|c| if plain || known.binary_search(&c).is_ok() { c } else { ' ' })
                .collect();
            guarded("cut a text into words", || {
                let mut text = NormalizedString::from(cleaned.as_str());
                if let Some(normalizer) = &normalizer {
                    normalizer.normalize(&mut text)?;
                }
                let mut text = PreTokenizedString::from(text);
                splits.pre_tokenize(&mut text)?;
                for (word, _, _) in text.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
                    match counts.get_mut(word) {
                        Some(count) => *count = count.saturating_add(1),
                        None => _ = counts.insert(word.to_owned(), 1),
                    }
                }
                Ok(())
            })?;
        }
        let mut words: Vec<(String, u32)> = counts.into_iter().filter(|(word, _)| !word.is_empty()).collect();
        words.sort_unstable();
        Ok(words)
    }

    fn unigram(&self, words: Vec<(String, u32)>, shape: &Shape) -> Result<Value, Error> {
        let mut special = shape.added();
        special.extend(shape.bytes.iter().map(|byte| AddedToken::from(byte.clone(), true)));
        let trainer = UnigramTrainer::builder()
            .show_progress(false)
            .vocab_size(self.size as u32)
            .special_tokens(special)
            .unk_token(Some(shape.unknown().to_owned()))
            .build()
            .map_err(|error| self.wrong(&error.to_string()))?;
        let mut model = Unigram::default();
        guarded("learn pieces", || alone(|| trainer.do_train(words, &mut model))?)?;
        let mut pieces: Vec<(String, f64)> = model.iter().cloned().collect();
        settle(&mut pieces[shape.special.len() + shape.bytes.len()..]);
        Ok(shape.unigram(pieces))
    }

    fn pairs(&self, words: &[(String, u32)], shape: &Shape) -> Result<Value, Error> {
        let mut special = shape.added();
        special.extend(shape.bytes.iter().map(|byte| AddedToken::from(byte.clone(), true)));
        let mut trainer = BpeTrainer::builder()
            .show_progress(false)
            .vocab_size(self.size)
            .special_tokens(special)
            .initial_alphabet(shape.alphabet.iter().copied().collect())
            .max_token_length(Some(shape::LONGEST))
            .build();
        let mut model = BPE::default();
        guarded("learn pairs", || {
            let repeated = words.iter().flat_map(|(word, count)| std::iter::repeat_n(word, *count as usize));
            alone(|| {
                trainer.feed(repeated, |word| Ok(vec![word.to_owned()]))?;
                trainer.train(&mut model)
            })?
        })?;
        let mut model = serde_json::to_value(&model).map_err(|error| self.wrong(&error.to_string()))?;
        if self.pieces == Pieces::Pairs {
            model["unk_token"] = json!(shape.unknown());
            model["fuse_unk"] = json!(true);
            model["byte_fallback"] = json!(true);
        }
        Ok(model)
    }
}

/// Runs the library's learning on one thread. On several it adds up numbers in the order in which threads end, so their last bits, and with
/// them the pieces, differ from run to run and from machine to machine.
fn alone<T: Send>(learn: impl FnOnce() -> T + Send) -> tokenizers::Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    Ok(pool.install(learn))
}

/// By how much the library lowers the score of each further character that it had dropped and adds again.
const STEP: f64 = 0.0001;

/// Orders learned pieces by score, and equal ones by text. The library gives dropped characters scores in the order of a hash table, which
/// is another in each process: they get the same scores again, in the order of their text.
fn settle(pieces: &mut [(String, f64)]) {
    let least = pieces.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
    let is_character = |text: &str| text.chars().nth(1).is_none();
    let (mut added, mut above) = (Vec::new(), 0.0);
    loop {
        let before = added.len();
        let level = least + above;
        let here = |(_, (text, score)): &(usize, &(String, f64))| is_character(text) && *score == level;
        added.extend(pieces.iter().enumerate().filter(here).map(|(at, _)| at));
        if added.len() == before {
            break;
        }
        above += STEP;
    }
    let mut texts: Vec<String> = added.iter().map(|&at| std::mem::take(&mut pieces[at].0)).collect();
    texts.sort_unstable();
    // The last levels are the highest, and higher pieces come first.
    for (&at, text) in added.iter().rev().zip(texts) {
        pieces[at].0 = text;
    }
    pieces.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
}

/// A vocabulary that was learned, ready to be written beside a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedVocabulary {
    json: Value,
    config: Value,
}

impl LearnedVocabulary {
    /// The files that hold it, with their names: `tokenizer.json` and `tokenizer_config.json`.
    pub fn files(&self) -> [(&'static str, String); 2] {
        let text = |value: &Value| format!("{value:#}\n");
        [("tokenizer.json", text(&self.json)), ("tokenizer_config.json", text(&self.config))]
    }

    /// Writes them to `folder`, which is there.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        let folder = folder.as_ref();
        for (name, text) in self.files() {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(Error::io("write", &path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ties between pieces were broken by hash tables, which differ from run to run: 4 of 4 vocabularies did.
    #[test]
    fn the_same_lines_give_the_same_file() {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/README.md");
        let text =
            std::fs::read_to_string(data).expect("a text to learn from") + "一二三四五六七八九十，天地玄黄。";
        for pieces in [Pieces::Unigram, Pieces::Pairs, Pieces::BytePairs, Pieces::Characters] {
            let learn = Learn { pieces, size: 600, coverage: 1.0, around: Marks::End };
            let files = || learn.from_lines(text.lines()).expect("it learns").files();
            let first = files();
            for _ in 0..6 {
                assert_eq!(files(), first, "{pieces:?}");
            }
            let mut lines: Vec<&str> = text.lines().collect();
            lines.reverse();
            assert_eq!(
                learn.from_lines(lines).expect("it learns").files(),
                first,
                "{pieces:?} in another order"
            );
        }
    }

    /// The lowest scores are those of characters that were dropped; which of them is lowest was left to chance.
    #[test]
    fn equal_pieces_are_ordered_by_text() {
        let piece = |text: &str, score: f64| (text.to_owned(), score);
        let low = -9.0;
        let once = low + STEP;
        let twice = low + (STEP + STEP);
        let mut some =
            [piece("bc", -2.0), piece("ab", -2.0), piece("y", twice), piece("x", low), piece("z", once)];
        let mut others =
            [piece("ab", -2.0), piece("bc", -2.0), piece("z", twice), piece("y", once), piece("x", low)];
        settle(&mut some);
        settle(&mut others);
        assert_eq!(some, others);
        assert_eq!(some.map(|(text, _)| text), ["ab", "bc", "x", "y", "z"]);
    }
}
