//! A text followed through any model: from its tokens to the words that are written, to the class, to the tags.
//!
//! First comes a summary of one screen, then the steps that were asked for. Every number is the run's; nothing is computed here
//! but which numbers are the largest. Every formula is made from the operation that ran ([`crate::equation`]).

mod ending;
pub(crate) mod place;
mod select;
mod summary;

use std::collections::{HashMap, HashSet};

use glassformer_engine::Sequence;
use glassformer_formula::print;
use glassformer_graph::{Backend, Side};
use glassformer_model::Model;

use self::place::Place;
use crate::equation::{Equations, Given};
use crate::names::Path;
use crate::trace::PROBABILITIES;
use crate::{Error, Fact, Labels, Layout, Likely, Shown, Step, Style, Text, Trace, Walkthrough, Words};

pub(crate) use ending::largest;
pub use select::Detail;
pub use summary::{Candidate, Choice, Look, Seen, Summary, Token};

/// A text that a model read, and what came of it.
pub struct Tour<'t> {
    /// What was read, as people write it.
    pub text: &'t str,
    /// What the model read: for one that writes, up to the last token that it wrote.
    pub sequence: Sequence,
    /// What came of it.
    pub ending: Ending<'t>,
    /// What a token is called, so that people can read it.
    pub token: &'t dyn Fn(u32) -> String,
    /// What is told besides the summary.
    pub detail: Detail,
}

/// What comes of a text.
pub enum Ending<'t> {
    /// An answer was written: the last `count` tokens of the target.
    Written {
        /// The answer as a text.
        answer: &'t str,
        /// How many tokens were written.
        count: usize,
        /// How many beams the search followed; 1 where it took the most likely token each time.
        beams: usize,
    },
    /// Words for these places of the text.
    Blanks {
        /// Which tokens stand for words that are to be guessed; all of them where none does.
        places: Vec<usize>,
    },
    /// One of these classes, or several.
    Classes {
        /// What the classes are called.
        names: &'t [String],
        /// What their scores mean.
        likely: Likely,
    },
    /// A tag for each token.
    Tags {
        /// What the tags are called.
        names: &'t [String],
        /// What their scores mean.
        likely: Likely,
    },
    /// Where an answer begins and ends in the text.
    Span {
        /// The first token of the answer, and the last.
        best: Option<(usize, usize)>,
    },
    /// The rows themselves, and what they are pooled to.
    Rows,
}

/// A run and what is needed to tell it.
pub(crate) struct Telling<'t> {
    tour: &'t Tour<'t>,
    pub trace: Trace,
    words: Words,
}

impl Tour<'_> {
    /// Runs `model` over the text and what was written, and tells the run.
    ///
    /// # Errors
    /// If the model cannot run, or lacks what was asked for: a layer, a head, a word.
    pub fn walk(&self, model: &Model, backend: &dyn Backend) -> Result<Walkthrough, Error> {
        let telling = self.run(model, backend)?;
        self.detail.check(&telling)?;
        let steps = match self.detail {
            Detail::Summary => Vec::new(),
            Detail::Part { .. } | Detail::All => telling.steps()?,
        };
        Ok(Walkthrough { title: self.title(), summary: Some(telling.summary()?), steps })
    }

    /// Runs `model` over the text and what was written.
    pub(crate) fn run(&self, model: &Model, backend: &dyn Backend) -> Result<Telling<'_>, Error> {
        if let Ending::Written { count, .. } = self.ending
            && count >= self.sequence.target.len()
        {
            return Err(Error::Written { written: count, target: self.sequence.target.len() });
        }
        let sequence = self.read();
        let trace = Trace::likely(model, backend, &sequence, self.ending.likely())?;
        let words = Words {
            source: self.names(&sequence.source),
            target: self.names(&sequence.target),
            vocabulary: self.ending.vocabulary(),
        };
        Ok(Telling { tour: self, trace, words })
    }

    /// What the model read: the last token was written and never read.
    pub(crate) fn read(&self) -> Sequence {
        let mut sequence = self.sequence.clone();
        if self.ending.count() > 0 {
            sequence.target.pop();
        }
        sequence
    }

    pub(crate) fn title(&self) -> Text {
        match self.ending {
            Ending::Written { answer, .. } => Text::same(format!("“{}” → “{answer}”", self.text)),
            Ending::Blanks { .. }
            | Ending::Classes { .. }
            | Ending::Tags { .. }
            | Ending::Span { .. }
            | Ending::Rows => Text::same(format!("“{}”", self.text)),
        }
    }

    pub(crate) fn name(&self, id: u32) -> String {
        (self.token)(id)
    }

    pub(crate) fn names(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|&id| self.name(id)).collect()
    }
}

impl Ending<'_> {
    /// How many tokens were written.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Written { count, .. } => *count,
            Self::Blanks { .. }
            | Self::Classes { .. }
            | Self::Tags { .. }
            | Self::Span { .. }
            | Self::Rows => 0,
        }
    }

    /// What the scores of the head mean.
    pub(crate) fn likely(&self) -> Likely {
        match self {
            Self::Written { .. } | Self::Blanks { .. } => Likely::Softmax,
            Self::Classes { likely, .. } | Self::Tags { likely, .. } => *likely,
            Self::Span { .. } | Self::Rows => Likely::Scores,
        }
    }

    /// What the head scores, where it is few enough to be shown.
    pub(crate) fn vocabulary(&self) -> Vec<String> {
        match self {
            Self::Classes { names, .. } | Self::Tags { names, .. } => names.to_vec(),
            Self::Span { .. } => ["s", "e"].map(str::to_owned).into(),
            Self::Written { .. } | Self::Blanks { .. } | Self::Rows => Vec::new(),
        }
    }
}

impl<'t> Telling<'t> {
    /// The text that is told.
    pub(crate) fn tour(&self) -> &'t Tour<'t> {
        self.tour
    }
}

impl Telling<'_> {
    /// All steps that were asked for.
    fn steps(&self) -> Result<Vec<Step>, Error> {
        let equations = Equations::of(&self.trace, &HashMap::new());
        let mut steps =
            if self.tour.detail.is_whole() { vec![self.tokens(), self.formula()] } else { Vec::new() };
        let mut chapter = String::new();
        let mut said = Vec::new();
        let mut seen = HashSet::new();
        for (section, names) in self.sections() {
            let place = Place::of(&section);
            let tensors = self.tensors(&equations, &names, &mut seen)?;
            if tensors.is_empty() {
                continue;
            }
            let opens = place.chapter != chapter;
            chapter.clone_from(&place.chapter);
            let mut text = place.text(&tensors);
            if matches!(self.tour.ending, Ending::Span { .. }) && place.part == "head" {
                text.push(Text {
                    en: "Column s scores that the answer starts at a token, column e that it ends there."
                        .into(),
                    zh: "s 列是答案从该词元开始的得分，e 列是在该词元结束的得分。".into(),
                });
            }
            text.retain(|note| !said.contains(note));
            said.extend_from_slice(&text);
            steps.push(Step {
                text,
                title: place.title(&tensors),
                chapter: opens.then(|| place.heading()),
                section,
                facts: Vec::new(),
                tensors,
                claims: Vec::new(),
            });
        }
        steps.extend(self.endings(&equations, &mut seen)?);
        Ok(steps)
    }

    /// What is told of the values `names`, each behind what its formula needs and was not `seen` yet.
    fn tensors(
        &self,
        equations: &Equations<'_>,
        names: &[String],
        seen: &mut HashSet<String>,
    ) -> Result<Vec<Shown>, Error> {
        let mut tensors = Vec::new();
        for name in names.iter().filter(|name| self.is_told(name)) {
            for shown in self.shown(equations, name)? {
                let Some(shown) = self.tour.detail.part(self, shown) else { continue };
                tensors.extend(self.inputs(&shown, seen)?);
                if seen.insert(shown.name.clone()) {
                    tensors.push(shown);
                }
            }
        }
        Ok(tensors)
    }

    /// What the formula of `shown` needs and was not `seen` yet.
    fn inputs(&self, shown: &Shown, seen: &mut HashSet<String>) -> Result<Vec<Shown>, Error> {
        let mut inputs = Vec::new();
        for operand in &shown.operands {
            // Weights are shown nowhere, and whole vocabularies of scores only in part.
            let is_value = self.trace.values().iter().any(|value| value.name == operand.tensor);
            if is_value && operand.tensor != "logits" && seen.insert(operand.tensor.clone()) {
                inputs.push(Shown::of(&self.trace, &operand.tensor, &operand.symbol, &self.words)?);
            }
        }
        Ok(inputs)
    }

    /// The names of the values of each part of the model, in the order of computation.
    fn sections(&self) -> Vec<(String, Vec<String>)> {
        let mut sections: Vec<(String, Vec<String>)> = Vec::new();
        for traced in self.trace.values() {
            let section = place::section(&traced.name);
            match sections.last_mut() {
                Some((last, names)) if *last == section => names.push(traced.name.clone()),
                _ => match sections.iter_mut().find(|(known, _)| *known == section) {
                    Some((_, names)) => names.push(traced.name.clone()),
                    None => sections.push((section, vec![traced.name.clone()])),
                },
            }
        }
        sections
    }

    /// Whether the value is told among the layers: the scores of a large vocabulary are told with the words that were chosen.
    fn is_told(&self, name: &str) -> bool {
        let head = name == "logits" || name == PROBABILITIES;
        if head && self.words.vocabulary.is_empty() {
            return false;
        }
        self.tour.detail.tells(&Path::of(name))
    }

    /// The value with its formula, after the numbers that the formula needs and that stand nowhere else; nothing for what is no
    /// step of its own.
    fn shown(&self, equations: &Equations<'_>, name: &str) -> Result<Vec<Shown>, Error> {
        let Some((equation, given)) = equations.equation(name) else { return Ok(Vec::new()) };
        let is_shares = Path::of(name).last == "probs" || name == PROBABILITIES;
        let style = if is_shares { Style::Heat } else { Style::Matrix };
        let shown = Shown::of(&self.trace, name, &equation.text, &self.words)?;
        let shown = Shown { style, operands: equation.operands, ..shown };
        Ok(given.into_iter().map(own).chain([shown]).collect())
    }

    fn tokens(&self) -> Step {
        let sequence = self.trace.sequence();
        let fact =
            |&id: &u32| Fact { name: Text::same(self.tour.name(id)), text: Text::same(id.to_string()) };
        let begins = |id: &u32| Fact {
            text: Text {
                en: format!("{id}  the decoder begins with it"),
                zh: format!("{id}  解码器以它开始"),
            },
            ..fact(id)
        };
        let target = sequence.target[..self.given()].iter();
        let target: Vec<Fact> = if sequence.source.is_empty() {
            target.map(fact).collect()
        } else {
            target.map(begins).collect()
        };
        Step {
            section: "tokens".to_owned(),
            chapter: Some(Text { en: "Text becomes tokens".into(), zh: "文本变为词元".into() }),
            title: Text {
                en: "Each token has a number, its id: a row in the table of embeddings".into(),
                zh: "每个词元有一个编号：嵌入表中的行号".into(),
            },
            text: vec![Text::same(format!("“{}”", self.tour.text))],
            facts: sequence.source.iter().map(fact).chain(target).collect(),
            tensors: Vec::new(),
            claims: Vec::new(),
        }
    }

    fn formula(&self) -> Step {
        let formula = print::unicode(self.trace.model().formula());
        Step {
            section: "formula".to_owned(),
            chapter: Some(Text { en: "The formula".into(), zh: "公式".into() }),
            title: Text {
                en: "All that follows is this, from right to left".into(),
                zh: "以下全部计算，即此式从右到左".into(),
            },
            text: formula.lines().map(Text::same).collect(),
            facts: Vec::new(),
            tensors: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// How many tokens of the target were given, before any was written.
    pub(crate) fn given(&self) -> usize {
        // The last token that was written is not read.
        let read = self.tour.ending.count().saturating_sub(1);
        self.trace.sequence().target.len() - read
    }

    /// The side that the last stack belongs to, and what its tokens are called.
    fn last(&self) -> (Side, &[String]) {
        if self.words.target.is_empty() {
            (Side::Source, &self.words.source)
        } else {
            (Side::Target, &self.words.target)
        }
    }
}

/// Numbers that an operation has of its own.
fn own(given: Given) -> Shown {
    let count = given.numbers.len();
    Shown {
        name: given.name,
        symbol: given.symbol.to_owned(),
        operands: Vec::new(),
        rows: None,
        columns: None,
        style: Style::Matrix,
        layout: Layout::AsHeld,
        shape: vec![1, count],
        labels: vec![Labels::Count(1), Labels::Count(count)],
        numbers: given.numbers,
    }
}
