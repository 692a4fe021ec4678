//! Entities in sequences of tags (`B-PER`, `I-PER`, `O`): which were found, as seqeval and `conlleval` count them.

use std::collections::{BTreeMap, BTreeSet};

/// How many were found, were there, and are both; and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scores {
    /// Entities that were found.
    pub found: usize,
    /// Entities that are there.
    pub there: usize,
    /// Entities that were found and are there, with the same ends and the same label.
    pub right: usize,
}

impl Scores {
    /// The share of what was found that is right.
    pub fn precision(&self) -> f64 {
        ratio(self.right, self.found)
    }

    /// The share of what is there that was found.
    pub fn recall(&self) -> f64 {
        ratio(self.right, self.there)
    }

    /// `2PR / (P + R)`.
    pub fn f1(&self) -> f64 {
        ratio(2 * self.right, self.found + self.there)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The scores of all labels together, and of each.
pub fn entities<T: AsRef<str>>(found: &[Vec<T>], right: &[Vec<T>]) -> (Scores, BTreeMap<String, Scores>) {
    let mut each: BTreeMap<String, Scores> = BTreeMap::new();
    for (found, right) in found.iter().zip(right) {
        let (found, right) = (chunks(found), chunks(right));
        for (label, ..) in &found {
            each.entry(label.clone()).or_default().found += 1;
        }
        for (label, ..) in &right {
            each.entry(label.clone()).or_default().there += 1;
        }
        for (label, ..) in found.intersection(&right) {
            each.entry(label.clone()).or_default().right += 1;
        }
    }
    let sum = |a: Scores, b: &Scores| Scores {
        found: a.found + b.found,
        there: a.there + b.there,
        right: a.right + b.right,
    };
    (each.values().fold(Scores::default(), sum), each)
}

/// The entities of a sentence: label, first word, last word.
///
/// An entity begins at `B` and `S`, at `I` or `E` after `O`, `E` or `S`, and where the label changes; it ends after `E` and `S`,
/// before `B`, `S` and `O`, and where the label changes.
fn chunks<T: AsRef<str>>(tags: &[T]) -> BTreeSet<(String, usize, usize)> {
    let mut all = BTreeSet::new();
    let mut open: Option<usize> = None;
    let (mut mark, mut label) = ("O", "");
    for at in 0..=tags.len() {
        let (next, other) = tags.get(at).map_or(("O", ""), |tag| split(tag.as_ref()));
        let changes = label != other;
        let ends = match (mark, next) {
            ("E" | "S", _) | ("B" | "I", "B" | "S" | "O") => true,
            _ => mark != "O" && mark != "." && changes,
        };
        let begins = match (mark, next) {
            (_, "B" | "S") | ("E" | "S" | "O", "E" | "I") => true,
            _ => next != "O" && next != "." && changes,
        };
        if let (true, Some(first)) = (ends, open) {
            all.insert((label.to_owned(), first, at - 1));
            open = None;
        }
        if begins {
            open = Some(at);
        }
        (mark, label) = (next, other);
    }
    all
}

/// `B-PER` is `B` and `PER`; `PER` alone is every mark at once, so `I`.
fn split(tag: &str) -> (&str, &str) {
    let mark = tag.chars().next().map_or(0, char::len_utf8);
    let label = tag.rsplit_once('-').map_or("_", |(_, label)| label);
    let label = tag.get(mark..).and_then(|rest| rest.strip_prefix('-')).unwrap_or(label);
    (&tag[..mark], if tag == "O" { "O" } else { label })
}
