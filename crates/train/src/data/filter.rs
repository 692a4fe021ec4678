//! What is left out of the data, and how much of it that was.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::Record;
use crate::config::{Filter, Script};

/// How many examples were left out, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dropped {
    /// A text is empty.
    pub empty: usize,
    /// It came before.
    pub duplicates: usize,
    /// Both texts are the same.
    pub copies: usize,
    /// Less than half of the letters are of the script.
    pub script: usize,
    /// It has too many tokens.
    pub length: usize,
    /// One side has too many times the other's tokens.
    pub ratio: usize,
    /// The answer is not where it is said to be, or is cut off.
    pub answer: usize,
}

impl Dropped {
    /// Each reason with its count, in words.
    pub fn reasons(&self) -> [(&'static str, usize); 7] {
        let Self { empty, duplicates, copies, script, length, ratio, answer } = *self;
        [
            ("empty", empty),
            ("seen before", duplicates),
            ("the same text twice", copies),
            ("of another script", script),
            ("too long", length),
            ("of unlike lengths", ratio),
            ("without their answer", answer),
        ]
    }

    /// All together.
    pub fn total(&self) -> usize {
        self.reasons().iter().map(|(_, count)| count).sum()
    }
}

/// Filters records before they become tokens.
pub(super) struct Sieve<'f> {
    filter: &'f Filter,
    seen: HashSet<u64>,
    pairs: bool,
}

impl<'f> Sieve<'f> {
    /// Records of two texts are `pairs`.
    pub fn new(filter: &'f Filter, pairs: bool) -> Self {
        Self { filter, seen: HashSet::new(), pairs }
    }

    /// Whether `record` stays; why not is counted.
    pub fn keeps(&mut self, record: &Record, dropped: &mut Dropped) -> bool {
        if record.words.is_empty() && record.texts.iter().any(|text| text.trim().is_empty()) {
            dropped.empty += 1;
            return false;
        }
        if self.pairs && self.filter.copies && record.texts[0].trim() == record.texts[1].trim() {
            dropped.copies += 1;
            return false;
        }
        let scripts = [self.filter.source_script, self.filter.target_script];
        let other =
            |(text, script): (&String, Option<Script>)| script.is_some_and(|script| !mostly(text, script));
        if record.texts.iter().zip(scripts).any(other) {
            dropped.script += 1;
            return false;
        }
        if self.filter.duplicates && !self.seen.insert(fingerprint(record)) {
            dropped.duplicates += 1;
            return false;
        }
        true
    }
}

/// Whether one side of a pair has more than `ratio` times the tokens of the other, and more than four more.
pub(super) fn unlike(first: usize, second: usize, ratio: Option<f64>) -> bool {
    let (less, more) = (first.min(second), first.max(second));
    ratio.is_some_and(|ratio| more > less + 4 && more as f64 > ratio * less as f64)
}

/// A number for the texts of a record. The standard hasher's keys are fixed for `DefaultHasher::new`, so that the same data
/// gives the same examples.
pub(super) fn fingerprint(record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    record.texts.hash(&mut hasher);
    record.words.hash(&mut hasher);
    record.start.hash(&mut hasher);
    hasher.finish()
}

/// Whether at least half of the letters are of `script`. A text without letters is of every script.
fn mostly(text: &str, script: Script) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let (mut all, mut own) = (0_usize, 0_usize);
    for letter in letters {
        all += 1;
        own += usize::from(match script {
            Script::Latin => matches!(letter, 'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}'),
            Script::Han => {
                matches!(letter, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
            }
        });
    }
    // A Chinese character says as much as several letters: names and code in Latin letters may stand beside it.
    let weight = if script == Script::Han { 3 } else { 1 };
    2 * weight * own >= all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(source: &str, target: &str) -> Record {
        Record { texts: vec![source.into(), target.into()], ..Record::default() }
    }

    #[test]
    fn each_reason_is_counted() {
        let filter = Filter { target_script: Some(Script::Han), ..Filter::default() };
        let (mut sieve, mut dropped) = (Sieve::new(&filter, true), Dropped::default());
        let kept = [
            pair("The cat sat.", "猫坐着。"),
            pair("The cat sat.", "猫坐着。"),
            pair("Linux", "Linux"),
            pair("", "空"),
            pair("Open it.", "Open it now please."),
            pair("Use git.", "使用 git。"),
        ]
        .map(|record| sieve.keeps(&record, &mut dropped));
        assert_eq!(kept, [true, false, false, false, false, true]);
        let expected = Dropped { duplicates: 1, copies: 1, empty: 1, script: 1, ..Dropped::default() };
        assert_eq!(dropped, expected);
    }

    #[test]
    fn short_pairs_may_differ_more() {
        assert!(!unlike(1, 5, Some(2.0)));
        assert!(unlike(3, 9, Some(2.0)));
        assert!(!unlike(10, 19, Some(2.0)));
        assert!(!unlike(1, 100, None));
    }
}
