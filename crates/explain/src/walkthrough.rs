//! A run, told in order.

use glassformer_graph::Side;
use serde::Serialize;

use crate::equation::Operand;
use crate::{Axis, Error, Judged, Summary, Text, Trace, Verdict};

/// A run, told in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Walkthrough {
    /// What is told.
    pub title: Text,
    /// All of it on one screen, where a text was followed through a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// One step of a walkthrough.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Its number: a section of the text that it follows, or an own one.
    pub section: String,
    /// The heading above it, if it begins a chapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chapter: Option<Text>,
    /// What happens.
    pub title: Text,
    /// Why and how, in paragraphs.
    pub text: Vec<Text>,
    /// What is not a number.
    pub facts: Vec<Fact>,
    /// The numbers.
    pub tensors: Vec<Shown>,
    /// What a text claims about them.
    pub claims: Vec<Judged>,
}

/// Something of a run that is not a number: a token, a chosen word, where a weight comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Of what.
    pub name: Text,
    /// What is known of it.
    pub text: Text,
}

/// How a tensor is best looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// As rows of numbers.
    #[default]
    Matrix,
    /// As rows of probabilities, the larger the darker.
    Heat,
    /// The last row alone, one bar a number.
    Bars,
}

/// Whether a tensor is shown as the engine holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// As it is.
    #[default]
    AsHeld,
    /// Rows and columns exchanged: the engine holds W of `y = x Wᵀ`, texts write W of `y = x · W`.
    Transposed,
}

/// What the places along an axis are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Labels {
    /// Each has a name.
    Names(Vec<String>),
    /// That many, without names.
    Count(usize),
    /// That many attention heads.
    Heads(usize),
}

impl Labels {
    /// Those of these places.
    fn only(&self, places: &[usize]) -> Self {
        match self {
            Self::Names(names) => Self::Names(places.iter().map(|&place| names[place].clone()).collect()),
            Self::Count(_) => Self::Count(places.len()),
            Self::Heads(_) => Self::Heads(places.len()),
        }
    }
}

/// A tensor with all that a renderer needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The tensor's name in the engine.
    pub name: String,
    /// What it is called, and what it is: `Q = X · W_Q`.
    pub symbol: String,
    /// What the symbols at the right of `=` stand for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operands: Vec<Operand>,
    /// Which rows of the tensor are shown, where not all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<usize>>,
    /// Which places along its last axis are shown, where not all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<usize>>,
    /// How it is best looked at.
    pub style: Style,
    /// Whether rows and columns were exchanged for showing it.
    pub layout: Layout,
    /// The sizes of its axes.
    pub shape: Vec<usize>,
    /// What the places along each axis are called.
    pub labels: Vec<Labels>,
    /// Its numbers, row-major. In JSON, −∞ (a masked score) is `null`.
    pub numbers: Vec<f32>,
}

/// The words of a run: what the tokens are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The source's tokens.
    pub source: Vec<String>,
    /// The target's tokens.
    pub target: Vec<String>,
    /// The whole vocabulary that the head scores.
    pub vocabulary: Vec<String>,
}

impl Shown {
    /// The tensor `name` of `trace`, called `symbol`, its tokens called as `words` says.
    ///
    /// # Errors
    /// If there is no such tensor.
    pub fn of(trace: &Trace, name: &str, symbol: &str, words: &Words) -> Result<Self, Error> {
        let traced = trace.get(name)?;
        let shape = traced.tensor.shape().to_vec();
        let labels = traced.axes.iter().zip(&shape).map(|(&axis, &size)| labels(axis, size, words)).collect();
        Ok(Self {
            name: traced.name,
            symbol: symbol.to_owned(),
            operands: Vec::new(),
            rows: None,
            columns: None,
            style: Style::Matrix,
            layout: Layout::AsHeld,
            shape,
            labels,
            numbers: traced.tensor.into_data(),
        })
    }

    /// Only these rows: places along the first axis.
    #[must_use]
    pub fn rows(mut self, rows: Vec<usize>) -> Self {
        let size: usize = self.shape.iter().skip(1).product();
        self.numbers =
            rows.iter().flat_map(|row| &self.numbers[row * size..(row + 1) * size]).copied().collect();
        if let Some(first) = self.shape.first_mut() {
            *first = rows.len();
        }
        if let Some(labels) = self.labels.first_mut() {
            *labels = labels.only(&rows);
        }
        self.rows = Some(rows);
        self
    }

    /// Only these columns: places along the last axis.
    #[must_use]
    pub fn columns(mut self, columns: Vec<usize>) -> Self {
        let Some(width) = self.shape.last().copied().filter(|width| *width > 0) else { return self };
        let rows = self.numbers.chunks(width);
        self.numbers = rows.flat_map(|row| columns.iter().map(|&column| row[column])).collect();
        if let Some(last) = self.shape.last_mut() {
            *last = columns.len();
        }
        if let Some(labels) = self.labels.last_mut() {
            *labels = labels.only(&columns);
        }
        self.columns = Some(columns);
        self
    }

    /// The same matrix with rows and columns exchanged; anything but a matrix stays as it is.
    #[must_use]
    pub fn transposed(mut self) -> Self {
        if let [rows, columns] = self.shape[..] {
            let place = |k: usize| (k % rows) * columns + k / rows;
            self.numbers = (0..self.numbers.len()).map(|k| self.numbers[place(k)]).collect();
            self.shape.reverse();
            self.labels.reverse();
            self.layout = match self.layout {
                Layout::AsHeld => Layout::Transposed,
                Layout::Transposed => Layout::AsHeld,
            };
        }
        self
    }
}

/// The names along an axis; none where the words do not match its size.
fn labels(axis: Axis, size: usize, words: &Words) -> Labels {
    let names = match axis {
        Axis::Tokens(Side::Source) => &words.source,
        Axis::Tokens(Side::Target) => &words.target,
        Axis::Vocabulary => &words.vocabulary,
        Axis::Heads => return Labels::Heads(size),
        Axis::Numbers => return Labels::Count(size),
    };
    if names.len() == size { Labels::Names(names.clone()) } else { Labels::Count(size) }
}

/// How many claims of a walkthrough are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Score {
    /// Claims in all.
    pub total: usize,
    /// Right ones.
    pub right: usize,
    /// Wrong ones.
    pub wrong: usize,
}

impl Walkthrough {
    /// All claims, in order.
    pub fn claims(&self) -> impl Iterator<Item = &Judged> {
        self.steps.iter().flat_map(|step| &step.claims)
    }

    /// How many of them are right.
    pub fn score(&self) -> Score {
        let total = self.claims().count();
        let right = self.claims().filter(|judged| judged.verdict == Verdict::Right).count();
        Score { total, right, wrong: total - right }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_exchanges_rows_and_columns() {
        let shown = Shown {
            name: "w".into(),
            symbol: "W".into(),
            operands: Vec::new(),
            rows: None,
            columns: None,
            style: Style::Matrix,
            layout: Layout::AsHeld,
            shape: vec![2, 3],
            labels: vec![Labels::Count(2), Labels::Count(3)],
            numbers: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let turned = shown.clone().transposed();
        assert_eq!(
            (turned.shape.as_slice(), turned.numbers.as_slice()),
            (&[3, 2][..], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0][..])
        );
        assert_eq!(turned.transposed(), shown);
    }
}
