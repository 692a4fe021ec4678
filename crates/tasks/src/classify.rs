//! Classes of texts and of pairs: sentiment, topics, entailment, relevance.

use glassformer_engine::Asked;
use glassformer_formula::Head;
use glassformer_graph::ops::Activation;

use crate::score::{best, sigmoid, softmax};
use crate::{Error, Input, Long, TextEncoder};

/// How texts are classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classify {
    /// How many labels are given for each text, the likeliest first.
    pub top: usize,
    /// What is done with a text that is too long.
    pub long: Long,
}

impl Default for Classify {
    fn default() -> Self {
        Self { top: 1, long: Long::Refuse }
    }
}

/// A label of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// Its name.
    pub label: String,
    /// Its probability; where the model measures something (`regression`), what it measured.
    pub score: f32,
}

/// What is made of scores: as sentence-transformers' files name a function, as `problem_type` says, or the number of labels suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// One label is right.
    Single,
    /// Each label is right or wrong by itself; a single one always is.
    Several,
    /// Scores are what is asked for.
    Measure,
    /// The activation is applied to each score by itself.
    Activated(Activation),
}

impl TextEncoder {
    /// The likeliest classes of every input.
    ///
    /// # Errors
    /// If the model has no classes, or an input is too long.
    pub fn classify<'t>(
        &self,
        inputs: &[impl Into<Input<'t>> + Copy],
        options: &Classify,
    ) -> Result<Vec<Vec<Label>>, Error> {
        self.needs("classify", "a head for classes", |head| matches!(head, Head::Classes { .. }))?;
        let problem = self.problem()?;
        let inputs: Vec<Input<'_>> = inputs.iter().map(|&input| input.into()).collect();
        let encodings = self.encode(&inputs, options.long, self.longest())?;
        let names = &self.checkpoint().labels;
        let mut results = Vec::with_capacity(inputs.len());
        self.run(
            &encodings,
            "logits",
            |_| Asked::All,
            |_, logits| {
                let scores = match problem {
                    Problem::Single => softmax(logits),
                    Problem::Several => logits.iter().map(|&x| sigmoid(x)).collect(),
                    Problem::Measure => logits.to_vec(),
                    Problem::Activated(act) => {
                        logits.iter().map(|&x| act.value(f64::from(x)) as f32).collect()
                    }
                };
                let label = |place: usize| Label {
                    label: names.get(place).cloned().unwrap_or_else(|| format!("LABEL_{place}")),
                    score: scores[place],
                };
                results.push(best(&scores, options.top).into_iter().map(label).collect());
            },
        )?;
        Ok(results)
    }

    /// What the model says of every class of every input, before any function.
    ///
    /// # Errors
    /// As [`TextEncoder::classify`].
    pub fn class_scores(&self, inputs: &[Input<'_>], long: Long) -> Result<Vec<Vec<f32>>, Error> {
        self.needs("classify", "a head for classes", |head| matches!(head, Head::Classes { .. }))?;
        let encodings = self.encode(inputs, long, self.longest())?;
        let mut scores = Vec::with_capacity(inputs.len());
        self.run(&encodings, "logits", |_| Asked::All, |_, logits| scores.push(logits.to_vec()))?;
        Ok(scores)
    }

    /// What the scores of the model's classes mean.
    ///
    /// # Errors
    /// If its configuration says something that is not known.
    pub fn problem(&self) -> Result<Problem, Error> {
        if let Some(name) = &self.checkpoint().score_function {
            return applied(name);
        }
        match self.checkpoint().config.get("problem_type").and_then(|value| value.as_str()) {
            Some("regression") => Ok(Problem::Measure),
            Some("single_label_classification") | None if self.checkpoint().labels.len() != 1 => {
                Ok(Problem::Single)
            }
            Some("single_label_classification" | "multi_label_classification") | None => Ok(Problem::Several),
            Some(other) => Err(Error::Option {
                option: "problem_type",
                what: format!("of config.json is {other:?}"),
                hint: "it is regression, single_label_classification or multi_label_classification"
                    .to_owned(),
            }),
        }
    }
}

/// What a function of torch makes of scores.
fn applied(name: &str) -> Result<Problem, Error> {
    let known = match name.strip_prefix("torch.").and_then(|inside| inside.rsplit('.').next()) {
        Some("Identity") => Some(Problem::Measure),
        Some("Sigmoid") => Some(Problem::Several),
        Some("Softmax") => Some(Problem::Single),
        Some("Tanh") => Some(Problem::Activated(Activation::Tanh)),
        Some("ReLU") => Some(Problem::Activated(Activation::Relu)),
        Some("GELU") => Some(Problem::Activated(Activation::Gelu)),
        Some("SiLU") => Some(Problem::Activated(Activation::Silu)),
        Some(_) | None => None,
    };
    known.ok_or_else(|| Error::Option {
        option: "activation_fn",
        what: format!("of the model's files is {name:?}, which is not known"),
        hint: "write Identity, Sigmoid, Softmax, Tanh, ReLU, GELU or SiLU of torch, such as torch.nn.modules.linear.Identity"
            .to_owned(),
    })
}
