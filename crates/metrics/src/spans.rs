//! Answers that are parts of a text, as the SQuAD evaluation compares them (Rajpurkar et al. 2016).

use crate::counts;

/// How well answers match, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Matches {
    /// Answers that are the same as one of the right ones.
    pub exact: f64,
    /// How many words they share: the mean of `2PR / (P + R)`.
    pub f1: f64,
}

/// The mean over all answers, each against the best of its right ones.
pub fn spans<T: AsRef<str>, R: AsRef<str>>(answers: &[T], right: &[Vec<R>]) -> Matches {
    let mut sum = Matches::default();
    for (answer, right) in answers.iter().zip(right) {
        let answer = normalise(answer.as_ref());
        let right: Vec<String> = right.iter().map(|text| normalise(text.as_ref())).collect();
        sum.exact += f64::from(u8::from(right.contains(&answer)));
        sum.f1 += right.iter().map(|right| f1(&answer, right)).fold(0.0, f64::max);
    }
    let count = right.len().max(1) as f64;
    Matches { exact: 100.0 * sum.exact / count, f1: 100.0 * sum.f1 / count }
}

fn f1(answer: &str, right: &str) -> f64 {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (answer, right) = (words(answer), words(right));
    if answer.is_empty() || right.is_empty() {
        return f64::from(u8::from(answer == right));
    }
    let (own, theirs) = (counts(answer.iter()), counts(right.iter()));
    let both: usize =
        own.iter().map(|(word, count)| theirs.get(word).map_or(0, |other| *count.min(other))).sum();
    2.0 * both as f64 / (answer.len() + right.len()) as f64
}

/// In lower case, without punctuation, articles and surplus spaces.
pub fn normalise(text: &str) -> String {
    let plain: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let words = plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the"));
    words.collect::<Vec<_>>().join(" ")
}
