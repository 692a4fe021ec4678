//! Tags of words: names, places, parts of speech.

use glassformer_engine::Asked;
use glassformer_formula::Head;
use glassformer_tokens::{Encoding, Span};

use crate::score::{best, softmax};
use crate::{Error, Input, Long, TextEncoder};

/// How texts are tagged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// How tokens become entities.
    pub merge: Merge,
    /// What is done with a text that is too long.
    pub long: Long,
}

/// How tokens become entities, by the names of the reference's `aggregation_strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// Not at all: every token for itself.
    None,
    /// Neighbours with the same tag, as `B-` and `I-` say. A word may fall into two parts.
    #[default]
    Simple,
    /// The same over words; a word has the tag of its first token.
    First,
    /// The same; a word's tag is the best by the mean of its tokens' probabilities.
    Average,
    /// The same; a word has the tag of its surest token.
    Max,
}

/// A stretch of text with its tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// The tag; without `B-`, `I-` or another mark where tokens were merged.
    pub label: String,
    /// Its probability: the mean over what was merged.
    pub score: f32,
    /// Where it lies, in characters.
    pub chars: Span,
    /// The same in bytes.
    pub bytes: Span,
    /// The text itself.
    pub text: String,
}

/// What has one tag: a token, or a word.
struct Unit {
    label: usize,
    score: f32,
    chars: Span,
    bytes: Span,
}

/// A token with the probabilities of its tags.
struct Token {
    scores: Vec<f32>,
    chars: Span,
    bytes: Span,
    /// Whether it goes on with the word of the token before it.
    inside: bool,
}

impl TextEncoder {
    /// The tagged stretches of every text. What the model tags with `O` is left out.
    ///
    /// # Errors
    /// If the model has no tags, or a text is too long.
    pub fn tag(&self, texts: &[impl AsRef<str>], options: &Tag) -> Result<Vec<Vec<Entity>>, Error> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let mut results = Vec::with_capacity(texts.len());
        self.each_token(&texts, options.long, |index, tokens| {
            let units = merge(tokens, options.merge);
            results.push(entities(&units, texts[index], &self.checkpoint().labels, options.merge));
        })?;
        Ok(results)
    }

    /// The tag of each word of sentences that are cut into words, as models of tags are trained: that of its first token. A word that was
    /// cut off has `O`.
    ///
    /// # Errors
    /// As [`TextEncoder::tag`].
    pub fn tag_words(&self, sentences: &[Vec<&str>], long: Long) -> Result<Vec<Vec<String>>, Error> {
        let texts: Vec<String> = sentences.iter().map(|words| words.join(" ")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut results = Vec::with_capacity(texts.len());
        self.each_token(&texts, long, |index, tokens| {
            let units = merge(tokens, Merge::None);
            results.push(first_tags(&units, &sentences[index], &self.checkpoint().labels));
        })?;
        Ok(results)
    }

    /// Hands the tokens of each text to `take`, without special ones.
    fn each_token(
        &self,
        texts: &[&str],
        long: Long,
        mut take: impl FnMut(usize, Vec<Token>),
    ) -> Result<(), Error> {
        self.needs("tag", "a head for tags", |head| matches!(head, Head::Tags { .. }))?;
        let inputs: Vec<Input<'_>> = texts.iter().map(|&text| Input::One(text)).collect();
        let encodings = self.encode(&inputs, long, self.longest())?;
        let pieced = self.tokenizer().marks_pieces();
        self.run(
            &encodings,
            "logits",
            |_| Asked::All,
            |index, logits| {
                let (text, encoding) = (texts[index], &encodings[index]);
                let width = logits.len() / encoding.len();
                let rows = logits.chunks_exact(width).enumerate().filter(|(at, _)| !encoding.special[*at]);
                let token = |(at, row)| Token {
                    scores: softmax(row),
                    chars: encoding.chars[at],
                    bytes: encoding.bytes[at],
                    inside: self.goes_on(text, encoding, at, pieced),
                };
                take(index, rows.map(token).collect());
            },
        )
    }

    /// Whether token `at` goes on with the word of the one before it. Where the vocabulary marks that (`pieced`), a token is
    /// longer than its text then; otherwise a word begins after a space.
    fn goes_on(&self, text: &str, encoding: &Encoding, at: usize, pieced: bool) -> bool {
        let (id, span) = (encoding.ids[at], encoding.bytes[at]);
        if self.tokenizer().special().unk == Some(id) {
            return false;
        }
        let own = &text[span.range()];
        if pieced {
            let spelled = self.tokenizer().token(id).unwrap_or_default();
            return spelled.chars().count() != own.chars().count();
        }
        let before = text[..span.start].chars().next_back();
        before.is_some_and(|before| before != ' ') && !own.starts_with(' ')
    }
}

/// Tokens, or the words that they make.
fn merge(tokens: Vec<Token>, merge: Merge) -> Vec<Unit> {
    let mut words: Vec<Vec<Token>> = Vec::new();
    for token in tokens {
        let alone = matches!(merge, Merge::None | Merge::Simple) || !token.inside;
        match words.last_mut() {
            Some(word) if !alone => word.push(token),
            Some(_) | None => words.push(vec![token]),
        }
    }
    let surest = |token: &Token| token.scores.iter().copied().fold(0.0, f32::max);
    let unit = |word: &Vec<Token>| {
        let scores = match merge {
            Merge::None | Merge::Simple | Merge::First => word[0].scores.clone(),
            Merge::Average => {
                let mean = |label: usize| {
                    word.iter().map(|token| token.scores[label]).sum::<f32>() / word.len() as f32
                };
                (0..word[0].scores.len()).map(mean).collect()
            }
            Merge::Max => {
                let better =
                    |best: usize, at: usize| if surest(&word[at]) > surest(&word[best]) { at } else { best };
                word[(0..word.len()).fold(0, better)].scores.clone()
            }
        };
        let label = best(&scores, 1).first().copied().unwrap_or_default();
        let last = word.len() - 1;
        let join = |from: Span, to: Span| Span { start: from.start, end: to.end };
        Unit {
            label,
            score: scores.get(label).copied().unwrap_or_default(),
            chars: join(word[0].chars, word[last].chars),
            bytes: join(word[0].bytes, word[last].bytes),
        }
    };
    words.iter().map(unit).collect()
}

/// The tag of the first token of each word, where words have one space between them.
fn first_tags(tokens: &[Unit], words: &[&str], labels: &[String]) -> Vec<String> {
    let mut at = 0;
    let tag = |word: &&str| {
        let (from, to) = (at, at + word.len());
        at = to + 1;
        let inside = |token: &&Unit| {
            token.bytes.start < token.bytes.end && token.bytes.start < to && token.bytes.end > from
        };
        let first = tokens.iter().find(inside);
        first.and_then(|token| labels.get(token.label)).map_or_else(|| "O".to_owned(), String::clone)
    };
    words.iter().map(tag).collect()
}

/// Neighbours with the same tag as one entity.
fn entities(units: &[Unit], text: &str, labels: &[String], merge: Merge) -> Vec<Entity> {
    let name = |unit: &Unit| labels.get(unit.label).map_or("", String::as_str);
    let bare = |unit: &Unit| {
        let name = name(unit);
        name.strip_prefix("B-").or_else(|| name.strip_prefix("I-")).unwrap_or(name)
    };
    // Other marks, as `E-` and `S-`, part entities as if they were names, and are left out of the name all the same.
    let unmarked = |unit: &Unit| name(unit).split_once('-').map_or(name(unit), |(_, bare)| bare);
    let mut groups: Vec<&[Unit]> = Vec::new();
    let mut start = 0;
    for end in 1..=units.len() {
        let joined = end < units.len()
            && merge != Merge::None
            && bare(&units[end]) == bare(&units[end - 1])
            && !name(&units[end]).starts_with("B-");
        if !joined {
            groups.push(&units[start..end]);
            start = end;
        }
    }
    let entity = |group: &&[Unit]| {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let bytes = Span { start: first.bytes.start, end: last.bytes.end };
        Entity {
            label: if merge == Merge::None { name(first) } else { unmarked(first) }.to_owned(),
            score: group.iter().map(|unit| unit.score).sum::<f32>() / group.len() as f32,
            chars: Span { start: first.chars.start, end: last.chars.end },
            bytes,
            text: text.get(bytes.range()).unwrap_or_default().to_owned(),
        }
    };
    groups.iter().map(entity).filter(|entity| entity.label != "O").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `evaluate` once took the first token that is not `O`, which is not what training teaches.
    #[test]
    fn the_tag_of_a_word_is_that_of_its_first_token_even_where_it_is_none() {
        let unit = |start, end, label| {
            let span = Span { start, end };
            Unit { label, score: 1.0, chars: span, bytes: span }
        };
        let labels = ["O", "B-LOC", "I-LOC"].map(str::to_owned);
        // in | Wash·ing·ton | now, of which the last word was cut off
        let units = [unit(0, 2, 0), unit(3, 7, 0), unit(7, 10, 1), unit(10, 13, 2)];
        assert_eq!(first_tags(&units, &["in", "Washington", "now"], &labels), ["O", "O", "O"]);
        let units = [unit(0, 2, 0), unit(2, 7, 1), unit(7, 13, 0)];
        assert_eq!(first_tags(&units, &["in", "Washington"], &labels), ["O", "B-LOC"]);
    }
}
