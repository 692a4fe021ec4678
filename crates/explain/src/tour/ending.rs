//! What came of a text, step by step: each word with those that it was chosen from, the class, the tags, the span.

use std::collections::HashSet;

use glassformer_tensor::Tensor;

use super::{Ending, Telling};
use crate::equation::Equations;
use crate::names::Path;
use crate::trace::PROBABILITIES;
use crate::{Axis, Choice, Error, Fact, Labels, Shown, Step, Style, Text, Traced};

/// Words that a word was chosen from, as many as are shown.
pub(super) const CANDIDATES: usize = 5;

impl Telling<'_> {
    /// The steps after the layers.
    pub(super) fn endings(
        &self,
        equations: &Equations<'_>,
        seen: &mut HashSet<String>,
    ) -> Result<Vec<Step>, Error> {
        let detail = self.tour.detail;
        let mut steps = Vec::new();
        match &self.tour.ending {
            Ending::Written { count, .. } => {
                let told = (1..=*count).filter(|&word| detail.tells_word(word));
                for (k, word) in told.enumerate() {
                    steps.push(self.word(equations, word, k == 0)?);
                }
            }
            Ending::Blanks { places } => {
                let told = places.iter().filter(|_| detail.tells_word(0));
                for (k, &place) in told.enumerate() {
                    steps.push(self.blank(equations, place, k == 0)?);
                }
            }
            Ending::Classes { .. } | Ending::Tags { .. } | Ending::Span { .. } | Ending::Rows => {}
        }
        for step in &mut steps {
            let mut tensors = Vec::new();
            for shown in &step.tensors {
                tensors.extend(self.inputs(shown, seen)?);
            }
            tensors.append(&mut step.tensors);
            step.tensors = tensors;
        }
        if detail.is_whole() {
            steps.extend(self.result()?);
        }
        Ok(steps)
    }

    /// How the word number `word` was written.
    fn word(&self, equations: &Equations<'_>, word: usize, opens: bool) -> Result<Step, Error> {
        let target = &self.tour.sequence.target;
        let at = target.len() - self.tour.ending.count() + word - 1;
        let chosen = target[at];
        let mut best = self.best(at - 1, CANDIDATES)?;
        if !best.contains(&(chosen as usize)) {
            best.push(chosen as usize);
        }
        let mut tensors: Vec<Shown> = self.looks(at - 1)?.into_iter().collect();
        tensors.extend(self.scores(equations, at - 1, &best)?);
        let before: Vec<String> = target[..at].iter().map(|&id| self.tour.name(id)).collect();
        let name = self.tour.name(chosen);
        Ok(Step {
            section: format!("step.{word}"),
            chapter: opens.then(|| Text { en: "Words are written".into(), zh: "逐词写出".into() }),
            title: Text {
                en: format!("After {} comes {name}", before.join(" ")),
                zh: format!("{} 之后是 {name}", before.join(" ")),
            },
            text: self.note().filter(|_| opens).into_iter().collect(),
            facts: vec![Fact {
                name: Text { en: "chosen".into(), zh: "选中".into() },
                text: Text::same(format!("{name}  {:.4}", self.probability(at - 1, chosen as usize)?)),
            }],
            tensors,
            claims: Vec::new(),
        })
    }

    /// What could stand at `place`.
    fn blank(&self, equations: &Equations<'_>, place: usize, opens: bool) -> Result<Step, Error> {
        let best = self.best(place, CANDIDATES)?;
        let name = self.last().1.get(place).cloned().unwrap_or_default();
        Ok(Step {
            section: format!("token.{}", place + 1),
            chapter: opens.then(|| Text { en: "Words are guessed".into(), zh: "猜出词".into() }),
            title: Text { en: format!("What {name} could be"), zh: format!("{name} 可能是什么") },
            text: Vec::new(),
            facts: Vec::new(),
            tensors: self.scores(equations, place, &best)?,
            claims: Vec::new(),
        })
    }

    /// The scores of `columns` in row `row`, and their probabilities.
    fn scores(&self, equations: &Equations<'_>, row: usize, columns: &[usize]) -> Result<Vec<Shown>, Error> {
        let names: Vec<String> = columns.iter().map(|&id| self.tour.name(id as u32)).collect();
        let named = |shown: Shown| {
            let shown = shown.rows(vec![row]).columns(columns.to_vec());
            Shown { labels: vec![shown.labels[0].clone(), Labels::Names(names.clone())], ..shown }
        };
        let mut shown = self.shown(equations, "logits")?;
        shown.extend(self.shown(equations, PROBABILITIES)?);
        let bars = |shown: Shown| match shown.name.as_str() {
            PROBABILITIES => Shown { style: Style::Bars, ..shown },
            _ => shown,
        };
        Ok(shown.into_iter().map(named).map(bars).collect())
    }

    fn probabilities(&self) -> Result<&Tensor, Error> {
        let missing = || Error::NoTensor { name: PROBABILITIES.to_owned(), nearest: "logits".to_owned() };
        self.trace.value(PROBABILITIES).map(|traced| &traced.tensor).ok_or_else(missing)
    }

    /// The largest of row `row` of the probabilities, as many as `most`, the largest first.
    pub(super) fn best(&self, row: usize, most: usize) -> Result<Vec<usize>, Error> {
        let tensor = self.probabilities()?;
        let width = tensor.shape().last().copied().unwrap_or(0);
        Ok(largest(&tensor.data()[row * width..(row + 1) * width], most))
    }

    /// The probability of `id` in row `row`.
    pub(super) fn probability(&self, row: usize, id: usize) -> Result<f32, Error> {
        let tensor = self.probabilities()?;
        let width = tensor.shape().last().copied().unwrap_or(0);
        Ok(tensor.data().get(row * width + id).copied().unwrap_or(0.0))
    }

    /// The last attention between the last stack and the source, or else within the last stack.
    pub(super) fn last_attention(&self) -> Option<&Traced> {
        let values = || self.trace.values().iter().rev();
        let crossing = values().find(|traced| traced.name.ends_with("cross.probs"));
        let (side, _) = self.last();
        let own = || {
            values().find(|traced| {
                traced.name.starts_with(&side.to_string())
                    && Path::of(&traced.name).last == "probs"
                    && !traced.name.contains(".global.")
            })
        };
        crossing.or_else(own)
    }

    /// Which words of the source the row `row` of the target looks at, in the last layer that looks there: a line for each head.
    fn looks(&self, row: usize) -> Result<Option<Shown>, Error> {
        let Some(traced) = self.last_attention().filter(|traced| traced.name.contains(".cross")) else {
            return Ok(None);
        };
        let [rows, keys, heads] = traced.tensor.shape()[..] else { return Ok(None) };
        if row >= rows || traced.axes.last() != Some(&Axis::Heads) {
            return Ok(None);
        }
        let shown = Shown::of(&self.trace, &traced.name, "A", &self.words)?.rows(vec![row]);
        let at = |head: usize, key: usize| shown.numbers[key * heads + head];
        let numbers = (0..heads).flat_map(|head| (0..keys).map(move |key| (head, key)));
        let numbers = numbers.map(|(head, key)| at(head, key)).collect();
        let labels = vec![
            Labels::Names((1..=heads).map(|head| format!("h{head}")).collect()),
            shown.labels[1].clone(),
        ];
        Ok(Some(Shown { style: Style::Heat, shape: vec![heads, keys], numbers, labels, ..shown }))
    }

    /// The end of the story.
    fn result(&self) -> Result<Option<Step>, Error> {
        let (title, facts) = match &self.tour.ending {
            Ending::Written { answer, .. } => (Text::same(*answer), Vec::new()),
            Ending::Blanks { .. } | Ending::Rows => return Ok(None),
            Ending::Classes { .. } | Ending::Tags { .. } | Ending::Span { .. } => {
                let summary = self.summary()?;
                let facts = summary.choices.into_iter().map(|Choice { place, chosen, score, .. }| Fact {
                    name: place,
                    text: Text::same(format!("{chosen}  {score:.4}")),
                });
                (Text { en: "What the model says".into(), zh: "模型的回答".into() }, facts.collect())
            }
        };
        Ok(Some(Step {
            section: "answer".to_owned(),
            chapter: Some(Text { en: "The answer".into(), zh: "结果".into() }),
            title,
            text: Vec::new(),
            facts,
            tensors: Vec::new(),
            claims: Vec::new(),
        }))
    }
}

/// The places of the largest numbers, as many as `most`, the largest first; of equal ones the first.
pub(crate) fn largest(row: &[f32], most: usize) -> Vec<usize> {
    let most = most.min(row.len());
    let mut best: Vec<(f32, usize)> = Vec::with_capacity(most + 1);
    for (place, &number) in row.iter().enumerate() {
        if best.len() == most && best.last().is_none_or(|last| number.total_cmp(&last.0).is_le()) {
            continue;
        }
        let at = best.partition_point(|(other, _)| other.total_cmp(&number).is_ge());
        best.insert(at, (number, place));
        best.truncate(most);
    }
    best.into_iter().map(|(_, place)| place).collect()
}
