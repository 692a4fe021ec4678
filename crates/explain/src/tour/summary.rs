//! A run on one screen: the tokens, who looks at whom, and what each word was chosen from.

use glassformer_formula::print;
use serde::{Deserialize, Serialize};

use super::ending::{CANDIDATES, largest};
use super::{Ending, Telling};
use crate::names::Path;
use crate::{Error, Text};

/// A run on one screen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The tokens that were read: those of the source, or of the prompt.
    pub tokens: Vec<Token>,
    /// The model's formula.
    pub formula: String,
    /// Which attention the looks are from: its name in the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<String>,
    /// Which layer that is, counted from 1, and whether it looks at the source.
    pub layer: usize,
    /// Who looks at whom there.
    pub looks: Vec<Look>,
    /// What was chosen, and from what.
    pub choices: Vec<Choice>,
    /// The first numbers of the vector that the text became, where nothing is chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vector: Vec<f32>,
    /// What a reader should know of the choices.
    pub note: Option<Text>,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
}

/// What a token looks at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The token.
    pub token: String,
    /// What it looks at the most, each by the head that does.
    pub seen: Vec<Seen>,
}

/// A token that is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The token.
    pub token: String,
    /// The head that looks at it the most, counted from 1.
    pub head: usize,
    /// That head's share.
    pub share: f32,
}

/// What the two scores of a token are for, where an answer is marked: in English, in Chinese.
const SIDES: [[&str; 2]; 2] = [["start", "起点"], ["end", "终点"]];

/// Something that was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// For which place.
    pub place: Text,
    /// What.
    pub chosen: String,
    /// Its score, as a candidate's; 0 where nothing was chosen.
    pub score: f32,
    /// From what, the likeliest first.
    pub candidates: Vec<Candidate>,
}

/// What could be chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// What.
    pub text: String,
    /// Its probability; its score where the model's scores are what is asked for.
    pub score: f32,
}

/// Tokens that are looked at, as many as are told.
const SEEN: usize = 3;
/// Numbers of a vector, as many as are told.
const VECTOR: usize = 8;

impl Telling<'_> {
    pub(crate) fn summary(&self) -> Result<Summary, Error> {
        let sequence = self.trace.sequence();
        let given = self.given();
        let read = if sequence.source.is_empty() { &sequence.target[..given] } else { &sequence.source };
        let (attention, layer, looks) = self.all_looks(given);
        Ok(Summary {
            tokens: read.iter().map(|&id| Token { id, text: self.tour.name(id) }).collect(),
            formula: print::unicode(self.trace.model().formula()),
            attention,
            layer,
            looks,
            choices: self.choices(given)?,
            vector: self.vector(),
            note: self.note(),
        })
    }

    /// Who looks at whom in the last layer: each written word at the source or at the words before it, each token at the others.
    fn all_looks(&self, given: usize) -> (Option<String>, usize, Vec<Look>) {
        let Some(traced) = self.last_attention() else { return (None, 0, Vec::new()) };
        let [rows, keys, heads] = traced.tensor.shape()[..] else { return (None, 0, Vec::new()) };
        let crossing = traced.name.contains(".cross");
        let (_, own) = self.last();
        let names = if crossing { &self.words.source[..] } else { own };
        let first = if self.tour.ending.count() > 0 { given - 1 } else { 0 };
        // Where rows are squeezed into few, or earlier ones are remembered, keys are no tokens of this text.
        if names.len() != keys {
            return (None, 0, Vec::new());
        }
        let share =
            |row: usize, key: usize, head: usize| traced.tensor.data()[(row * keys + key) * heads + head];
        let look = |row: usize| {
            let strongest = |key: usize| {
                let all: Vec<f32> = (0..heads).map(|head| share(row, key, head)).collect();
                let head = largest(&all, 1).first().copied().unwrap_or(0);
                (head, all.get(head).copied().unwrap_or(0.0))
            };
            let by_key: Vec<(usize, f32)> = (0..keys).map(strongest).collect();
            let shares: Vec<f32> = by_key.iter().map(|(_, share)| *share).collect();
            let seen = largest(&shares, SEEN).into_iter().filter(|&key| shares[key] > 0.0);
            let seen = seen.map(|key| Seen {
                token: names[key].clone(),
                head: by_key[key].0 + 1,
                share: shares[key],
            });
            Look { token: self.looker(row, own), seen: seen.collect() }
        };
        let layer = Path::of(&traced.name).layer.map_or(0, |layer| layer + 1);
        let looking: Vec<usize> = match &self.tour.ending {
            Ending::Blanks { places } => places.clone(),
            Ending::Written { .. }
            | Ending::Classes { .. }
            | Ending::Tags { .. }
            | Ending::Span { .. }
            | Ending::Rows => (first..rows).collect(),
        };
        (Some(traced.name.clone()), layer, looking.into_iter().map(look).collect())
    }

    /// Who looks in row `row`: for a model that writes, the word that is written there.
    fn looker(&self, row: usize, own: &[String]) -> String {
        let written = self.tour.sequence.target.get(row + 1).filter(|_| self.tour.ending.count() > 0);
        written.map_or_else(|| own.get(row).cloned().unwrap_or_default(), |&id| self.tour.name(id))
    }

    fn choices(&self, given: usize) -> Result<Vec<Choice>, Error> {
        let word = |row: usize, place: &str, chosen: Option<u32>| -> Result<Choice, Error> {
            let best = self.best(row, CANDIDATES)?;
            let candidate = |id: usize| {
                Ok(Candidate { text: self.tour.name(id as u32), score: self.probability(row, id)? })
            };
            let candidates = best.iter().map(|&id| candidate(id)).collect::<Result<Vec<_>, Error>>()?;
            let chosen = chosen.or_else(|| best.first().map(|&id| id as u32));
            let score = chosen.map_or(Ok(0.0), |id| self.probability(row, id as usize))?;
            let chosen = chosen.map_or_else(String::new, |id| self.tour.name(id));
            Ok(Choice { place: Text::same(place), chosen, score, candidates })
        };
        let (_, own) = self.last();
        match &self.tour.ending {
            Ending::Written { count, .. } => (1..=*count)
                .map(|number| {
                    let row = given - 2 + number;
                    word(row, &number.to_string(), Some(self.tour.sequence.target[row + 1]))
                })
                .collect(),
            Ending::Blanks { places } => places.iter().map(|&place| word(place, &own[place], None)).collect(),
            Ending::Classes { names, likely } => {
                let name = match likely {
                    crate::Likely::Scores => "logits",
                    crate::Likely::Softmax | crate::Likely::Sigmoid => crate::trace::PROBABILITIES,
                };
                Ok(vec![self.labelled(name, 0, "", names)?])
            }
            Ending::Tags { names, .. } => (0..own.len())
                .map(|row| self.labelled(crate::trace::PROBABILITIES, row, &own[row], names))
                .collect(),
            Ending::Span { best } => self.span(*best),
            Ending::Rows => Ok(Vec::new()),
        }
    }

    /// The labels of row `row` of the tensor `name`, the largest first.
    fn labelled(&self, name: &str, row: usize, place: &str, names: &[String]) -> Result<Choice, Error> {
        let tensor = self.trace.get(name)?.tensor;
        let width = tensor.shape().last().copied().unwrap_or(0);
        let numbers = &tensor.data()[row * width..(row + 1) * width];
        let called = |label: usize| names.get(label).cloned().unwrap_or_else(|| format!("LABEL_{label}"));
        let best = largest(numbers, CANDIDATES);
        let candidates = best.iter().map(|&label| Candidate { text: called(label), score: numbers[label] });
        Ok(Choice {
            place: Text::same(place),
            chosen: best.first().map_or_else(String::new, |&label| called(label)),
            score: best.first().map_or(0.0, |&label| numbers[label]),
            candidates: candidates.collect(),
        })
    }

    /// Where the answer begins and ends, with the places that score the most.
    fn span(&self, best: Option<(usize, usize)>) -> Result<Vec<Choice>, Error> {
        let tensor = self.trace.get("logits")?.tensor;
        let (_, own) = self.last();
        let side = |k: usize, at: Option<usize>| {
            let [en, zh] = SIDES[k].map(str::to_owned);
            let numbers: Vec<f32> = tensor.data().iter().skip(k).step_by(2).copied().collect();
            let called =
                |token: usize| format!("{} {}", token + 1, own.get(token).map_or("", String::as_str));
            let candidates = largest(&numbers, CANDIDATES).into_iter();
            let candidates =
                candidates.map(|token| Candidate { text: called(token), score: numbers[token] }).collect();
            let (chosen, score) = at.map_or((String::new(), 0.0), |token| (called(token), numbers[token]));
            Choice { place: Text { en, zh }, chosen, score, candidates }
        };
        Ok(vec![side(0, best.map(|(start, _)| start)), side(1, best.map(|(_, end)| end))])
    }

    /// What the text became, where nothing is chosen: the pooled row, or the first of all.
    fn vector(&self) -> Vec<f32> {
        let Ending::Rows = self.tour.ending else { return Vec::new() };
        let outputs = self.trace.outputs();
        let find =
            |wanted: &str| outputs.iter().find(|(name, _)| name == wanted).map(|(_, node)| node.as_str());
        let tensor = find("pooled").or_else(|| find("hidden")).and_then(|node| self.trace.get(node).ok());
        tensor.map_or_else(Vec::new, |traced| traced.tensor.data().iter().take(VECTOR).copied().collect())
    }

    /// What a reader should know of the choices.
    pub(super) fn note(&self) -> Option<Text> {
        match self.tour.ending {
            Ending::Written { beams, .. } if beams > 1 => Some(Text {
                en: format!(
                    "The search followed {beams} beams and took the best text as a whole: a word need not be the likeliest at its place."
                ),
                zh: format!(
                    "束搜索同时跟踪 {beams} 条路径，取整体最佳的一条：其中的词不一定是该处概率最大的。"
                ),
            }),
            Ending::Span { best: Some(_) } => Some(Text {
                en: "Start and end are chosen together: the pair in the second text with the largest sum of scores.".to_owned(),
                zh: "起点和终点一起选：取第二段文本中得分之和最大的一对。".to_owned(),
            }),
            Ending::Span { best: None } => Some(Text {
                en: "The model finds no answer in the second text.".to_owned(),
                zh: "模型在第二段文本中没有找到答案。".to_owned(),
            }),
            Ending::Written { .. }
            | Ending::Blanks { .. }
            | Ending::Classes { .. }
            | Ending::Tags { .. }
            | Ending::Rows => None,
        }
    }
}
