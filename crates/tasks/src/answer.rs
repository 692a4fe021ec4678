//! Answers that stand in a text: the stretch of a context that answers a question.

use glassformer_engine::Asked;
use glassformer_tokens::{Encoding, Part, Span, Special};

use crate::encode::select;
use crate::score::{best, softmax};
use crate::text_encoder::marks_answers;
use crate::{Error, TextEncoder};

/// How answers are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How many answers are given, the likeliest first.
    pub top: usize,
    /// The most tokens of an answer.
    pub longest: usize,
    /// The most tokens read at once, question included. A longer context is read in windows.
    pub window: usize,
    /// How many tokens of the context neighbouring windows share; at most half of what a window holds.
    pub overlap: usize,
    /// Whether "there is none" may be the answer.
    pub unanswerable: Unanswerable,
}

/// Whether "there is none" may be the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unanswerable {
    /// No: the likeliest stretch is given.
    #[default]
    Never,
    /// Yes, as an empty answer, where the model finds that likelier.
    Possible,
}

impl Default for Answer {
    fn default() -> Self {
        Self { top: 1, longest: 15, window: 384, overlap: 128, unanswerable: Unanswerable::Never }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its text; empty where there is none.
    pub text: String,
    /// Its probability.
    pub score: f32,
    /// Where it lies in the context, in characters.
    pub chars: Span,
    /// The same in bytes.
    pub bytes: Span,
}

/// A part of a pair that the model reads at once, and whose it is.
struct Window {
    pair: usize,
    tokens: Encoding,
}

impl Found {
    /// The stretch of `context`, without the spaces around it: tokens of some vocabularies begin with one.
    fn at(context: &str, bytes: Span, chars: Span, score: f32) -> Self {
        let whole = context.get(bytes.range()).unwrap_or_default();
        let text = whole.trim();
        let leading = &whole[..whole.len() - whole.trim_start().len()];
        let from = |span: Span, skipped: usize, len: usize| {
            let start = span.start + skipped;
            Span { start, end: start + len }
        };
        let chars = from(chars, leading.chars().count(), text.chars().count());
        Self { text: text.to_owned(), score, chars, bytes: from(bytes, leading.len(), text.len()) }
    }
}

impl TextEncoder {
    /// Answers every question from its context.
    ///
    /// # Errors
    /// If the model marks no answers, or a question leaves no room for its context.
    pub fn answer(
        &self,
        pairs: &[(impl AsRef<str>, impl AsRef<str>)],
        options: &Answer,
    ) -> Result<Vec<Vec<Found>>, Error> {
        self.needs("answer", "a head for answers", |_| marks_answers(self.checkpoint()))?;
        if options.longest == 0 || options.top == 0 {
            let option = if options.top == 0 { "top" } else { "longest" };
            return Err(Error::Option {
                option,
                what: "is 0".to_owned(),
                hint: "ask for 1 or more".to_owned(),
            });
        }
        let limit = self.longest().map_or(options.window, |longest| longest.min(options.window));
        let mut windows = Vec::new();
        for (pair, (question, context)) in pairs.iter().enumerate() {
            let (question, context) = (question.as_ref(), context.as_ref());
            let tokens = self.tokenizer().encode_pair(question, context, Special::Add)?;
            if !tokens.parts.contains(&Some(Part::Second)) {
                let (what, hint) =
                    ("its context is empty".to_owned(), "give a text to answer from".to_owned());
                return Err(Error::Text { text: pair, what, hint });
            }
            let parts = cut(&tokens, limit, options.overlap.min(limit / 2)).map_err(|what| {
                let hint = "shorten the question".to_owned();
                Error::Text { text: pair, what, hint }
            })?;
            windows.extend(parts.into_iter().map(|tokens| Window { pair, tokens }));
        }
        let tokens: Vec<Encoding> = windows.iter().map(|window| window.tokens.clone()).collect();
        let mut found: Vec<Vec<Found>> = pairs.iter().map(|_| Vec::new()).collect();
        let mut none = vec![f32::INFINITY; pairs.len()];
        let begins = self.tokenizer().special().cls;
        self.run(
            &tokens,
            "logits",
            |_| Asked::All,
            |index, logits| {
                let Window { pair, tokens } = &windows[index];
                let scores = Scores::of(tokens, logits, begins);
                none[*pair] = none[*pair].min(scores.none);
                let spans = scores.best(tokens, options);
                found[*pair].extend(spans.into_iter().map(|(first, last, score)| {
                    let (bytes, chars) = stretch(tokens, first, last);
                    Found::at(pairs[*pair].1.as_ref(), bytes, chars, score)
                }));
            },
        )?;
        for (found, none) in found.iter_mut().zip(none) {
            if options.unanswerable == Unanswerable::Possible {
                let nowhere = Span::default();
                found.push(Found { text: String::new(), score: none, chars: nowhere, bytes: nowhere });
            }
            found.sort_by(|a, b| b.score.total_cmp(&a.score));
            found.truncate(options.top);
        }
        Ok(found)
    }
}

/// The windows of a question with its context: each begins with the question, and the contexts overlap.
fn cut(tokens: &Encoding, limit: usize, overlap: usize) -> Result<Vec<Encoding>, String> {
    let inside = |at: &usize| tokens.parts[*at] == Some(Part::Second);
    let places: Vec<usize> = (0..tokens.len()).filter(inside).collect();
    let around = tokens.len() - places.len();
    if tokens.len() <= limit {
        return Ok(vec![tokens.clone()]);
    }
    let room = limit.saturating_sub(around);
    if room <= overlap {
        return Err(format!(
            "its question takes {around} of the {limit} tokens that are read at once, and {overlap} are shared by windows"
        ));
    }
    let mut windows = Vec::new();
    let mut start = 0;
    loop {
        let end = (start + room).min(places.len());
        let (first, last) = (places[start], places[end - 1]);
        let keep = |at: usize| tokens.parts[at] != Some(Part::Second) || (first..=last).contains(&at);
        let mut window = tokens.clone();
        select(&mut window, &(0..tokens.len()).map(keep).collect::<Vec<_>>());
        windows.push(window);
        if end == places.len() {
            return Ok(windows);
        }
        start += room - overlap;
    }
}

/// Probabilities of being the first and the last token of an answer.
struct Scores {
    first: Vec<f32>,
    last: Vec<f32>,
    none: f32,
}

impl Scores {
    /// From scores for first and last, token by token. Only tokens of the context count, and the one that begins the text, which
    /// stands for "there is none".
    fn of(tokens: &Encoding, logits: &[f32], begins: Option<u32>) -> Self {
        const OUT: f32 = -10_000.0;
        let counts = |at: usize| tokens.parts[at] == Some(Part::Second) || Some(tokens.ids[at]) == begins;
        let side = |side: usize| {
            let score = |at: usize| if counts(at) { logits[2 * at + side] } else { OUT };
            softmax(&(0..tokens.len()).map(score).collect::<Vec<_>>())
        };
        let (mut first, mut last) = (side(0), side(1));
        let none = first[0] * last[0];
        (first[0], last[0]) = (0.0, 0.0);
        Self { first, last, none }
    }

    /// The likeliest stretches: first token, last token, probability.
    fn best(&self, tokens: &Encoding, options: &Answer) -> Vec<(usize, usize, f32)> {
        let inside = |at: usize| tokens.parts[at] == Some(Part::Second);
        let mut spans = Vec::new();
        for first in (0..tokens.len()).filter(|&at| inside(at)) {
            let end = first.saturating_add(options.longest).min(tokens.len());
            for last in (first..end).filter(|&at| inside(at)) {
                spans.push((first, last, self.first[first] * self.last[last]));
            }
        }
        let scores: Vec<f32> = spans.iter().map(|span| span.2).collect();
        best(&scores, options.top).into_iter().map(|at| spans[at]).collect()
    }
}

/// Where the tokens `first..=last` lie in the context, widened to whole words where the tokenizer knows them.
fn stretch(tokens: &Encoding, first: usize, last: usize) -> (Span, Span) {
    let word = |at: usize| {
        let own = tokens.words[at]?;
        let same =
            |other: &usize| tokens.words[*other] == Some(own) && tokens.parts[*other] == Some(Part::Second);
        let mut places = (0..tokens.len()).filter(same);
        let begin = places.next()?;
        Some((begin, places.next_back().unwrap_or(begin)))
    };
    let (from, to) = match (word(first), word(last)) {
        (Some((from, _)), Some((_, to))) => (from, to),
        _ => (first, last),
    };
    let join = |spans: &[Span]| Span { start: spans[from].start, end: spans[to].end };
    (join(&tokens.bytes), join(&tokens.chars))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where tokens begin with the space before them (byte-level vocabularies), answers did.
    #[test]
    fn an_answer_has_no_spaces_around_it() {
        let context = "猫 sat in\tParis , then";
        let (bytes, chars) = (Span { start: 10, end: 17 }, Span { start: 8, end: 15 });
        let found = Found::at(context, bytes, chars, 0.5);
        assert_eq!(
            (found.text.as_str(), found.bytes, found.chars),
            ("Paris", Span { start: 11, end: 16 }, Span { start: 9, end: 14 },)
        );
        assert_eq!(&context[found.bytes.range()], "Paris");
        // Nothing but spaces is nothing, where it was.
        let found = Found::at("a  b", Span { start: 1, end: 3 }, Span { start: 1, end: 3 }, 0.5);
        assert_eq!((found.text.as_str(), found.bytes.start, found.bytes.end), ("", 3, 3));
    }
}
