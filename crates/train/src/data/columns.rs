//! Whether the columns of a file to classify hold what they are taken for.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::config::Column;
use crate::data::Record;

/// Fewer examples say nothing.
const LEAST: usize = 8;

/// What was seen of the texts and labels of a file. Of each different one only a hash is kept.
#[derive(Default)]
pub(crate) struct Columns {
    examples: usize,
    texts: HashSet<u64>,
    labels: HashSet<u64>,
}

impl Columns {
    pub fn see(&mut self, record: &Record) {
        let hash = |text: &String| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            hasher.finish()
        };
        self.examples += 1;
        self.texts.extend(record.texts.first().map(hash));
        self.labels.extend(record.texts.get(1).map(hash));
    }

    /// What looks wrong, where more than half of the examples have a label of their own, or labels are more than texts. `read` are the columns that were taken for text and
    /// label.
    pub fn doubt(&self, read: &[Column]) -> Option<Doubt> {
        let Self { examples, texts, labels } = self;
        let (examples, texts, labels) = (*examples, texts.len(), labels.len());
        // Each label of its own, or far more labels than texts.
        let many = labels * 2 > examples || labels >= LEAST && texts * 2 <= labels;
        let doubtful = examples >= LEAST && many && read.len() > 1;
        doubtful.then(|| Doubt { examples, texts, labels, read: read.to_vec() })
    }
}

/// Columns that look like others than they are taken for.
pub(crate) struct Doubt {
    examples: usize,
    texts: usize,
    labels: usize,
    read: Vec<Column>,
}

impl Doubt {
    /// Whether it looks as if text and label were swapped.
    pub fn is_swapped(&self) -> bool {
        self.texts * 2 <= self.labels
    }

    /// The columns the other way round.
    pub fn right(&self) -> Vec<Column> {
        let mut right = self.read.clone();
        right.swap(0, 1);
        right
    }

    /// What looks wrong.
    pub fn what(&self) -> String {
        let what = format!("{} examples have {} different labels", self.examples, self.labels);
        if self.is_swapped() {
            format!("{what} and {} different texts: the columns look swapped", self.texts)
        } else {
            what
        }
    }

    /// What to do.
    pub fn hint(&self) -> String {
        if !self.is_swapped() {
            let hint = "nothing is learned from labels that come once; say with columns = [TEXT, LABEL] which is which";
            return hint.into();
        }
        let right: Vec<String> = self.right().iter().map(written).collect();
        format!("give this file columns = [{}]: the text first, then the label", right.join(", "))
    }
}

/// A column as a configuration names it.
fn written(column: &Column) -> String {
    match column {
        Column::Number(number) => number.to_string(),
        Column::Key(key) => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(pairs: &[(&str, &str)], columns: &[Column]) -> Option<(String, String)> {
        let mut seen = Columns::default();
        for (text, label) in pairs {
            seen.see(&Record { texts: vec![(*text).into(), (*label).into()], ..Record::default() });
        }
        seen.doubt(columns).map(|doubt| (doubt.what(), doubt.hint()))
    }

    /// A classifier was trained on one label for each example, without a word.
    #[test]
    fn swapped_columns_are_doubted() {
        let texts = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let right: Vec<(&str, &str)> =
            texts.iter().map(|text| (*text, if *text < "d" { "yes" } else { "no" })).collect();
        let swapped: Vec<(&str, &str)> = right.iter().map(|&(text, label)| (label, text)).collect();
        let numbers = [0, 1].map(Column::Number);
        assert_eq!(doubt(&right, &numbers), None);
        let (what, hint) = doubt(&swapped, &numbers).expect("they are swapped");
        assert_eq!(
            what,
            "8 examples have 8 different labels and 2 different texts: the columns look swapped"
        );
        assert!(hint.starts_with("give this file columns = [1, 0]"), "{hint}");
        let keys = ["label", "text"].map(|key| Column::Key(key.into()));
        let (_, hint) = doubt(&swapped, &keys).expect("they are swapped");
        assert!(hint.contains("columns = [\"text\", \"label\"]"), "{hint}");
        let single: Vec<(&str, &str)> = texts.iter().map(|text| (*text, *text)).collect();
        let (what, _) = doubt(&single, &numbers).expect("nothing can be learned");
        assert_eq!(what, "8 examples have 8 different labels");
        assert_eq!(doubt(&single[..7], &numbers), None, "too few to say");
        let often: Vec<(&str, &str)> = swapped.iter().copied().cycle().take(80).collect();
        assert!(doubt(&often, &numbers).is_some(), "eight labels and two texts, ten times each");
    }
}
