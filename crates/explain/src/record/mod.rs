//! A run as files: `trace.json`, a small manifest of everything that happened, and `trace.safetensors`, the numbers.
//!
//! [`record_written`](crate::Follow::record_written) and [`record_read`](crate::Follow::record_read) of `Follow` make a [`Recording`] of
//! any text and model. The manifest has the model, its formula, the tokens with their bytes and places, a [`Step`] for each operation
//! that ran (its formula, its inputs and outputs by name), and how each token was chosen ([`Decode`]). [`Checked::of`] reads both
//! files back, trusts neither, and computes every step again.

mod alias;
mod answer;
mod asked;
mod build;
mod decode;
mod files;
mod formula;
mod steps;
mod tokens;
mod verify;
mod watch;
mod words;

use std::collections::BTreeMap;

use glassformer_tensor::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Summary, Text};

pub use build::About;
pub use files::{JSON, TENSORS};
pub use verify::{Checked, Outcome, StepOutcome};

/// The version of the manifest. Fields may be added within a version, never renamed or removed.
pub const SCHEMA: u32 = 1;

/// How much of a run is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The manifest alone: tokens, steps, and how each token was chosen.
    Summary,
    /// Also every value that was computed, but for scores of a large vocabulary.
    #[default]
    Steps,
    /// Also those, and the vectors among the weights.
    Full,
}

/// A run: the manifest, and the numbers that its level stores.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What `trace.json` says.
    pub record: Record,
    /// What `trace.safetensors` holds, by name.
    pub numbers: BTreeMap<String, Tensor>,
    /// How many tokens were written, where the answer goes on after them.
    pub goes_on: Option<usize>,
}

/// What `trace.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What ran.
    pub engine: Engine,
    /// How much is stored.
    pub level: Level,
    /// Which model.
    pub model: Model,
    /// Its formula.
    pub formula: Formula,
    /// What was read.
    pub input: Input,
    /// What came of it.
    pub answer: Answer,
    /// The tokens of both sides.
    pub tokens: Tokens,
    /// The ids that ran: the target is without the last token that was written, which nobody read.
    pub sequence: Sequence,
    /// What happened, in the order of computation.
    pub steps: Vec<Step>,
    /// The tensors that steps name.
    pub tensors: Vec<Named>,
    /// How each token was chosen; nothing where none was.
    pub decode: Option<Decode>,
    /// What the rows after each sublayer would have written.
    #[serde(default)]
    pub lens: Value,
    /// What the heads look at, in few numbers.
    #[serde(default)]
    pub attention: Value,
    /// Which source word each target word looks at.
    #[serde(default)]
    pub alignment: Value,
    /// How long it took.
    pub timings: Timings,
    /// What was checked when the trace was written.
    pub checks: Vec<Check>,
    /// What was changed in the run; nothing in one that only shows.
    #[serde(default)]
    pub edits: Vec<Value>,
}

/// The program that wrote a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A model, as a trace knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// What it was opened by.
    pub name: String,
    /// Its `model_type`; nothing where a formula alone says what it is.
    pub kind: Option<String>,
    /// `encoder`, `decoder` or `encoder-decoder`.
    pub family: String,
    /// How many parameters it has.
    pub parameters: usize,
    /// What it computed in.
    pub precision: String,
    /// SHA-256 of its weights, where it is known.
    pub hash: Option<String>,
    /// Its sizes in words.
    pub facts: Vec<Said>,
}

/// Something that is known, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Of what.
    pub name: Text,
    /// What.
    pub text: Text,
}

/// A formula in each notation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formula {
    /// In one line of text.
    pub unicode: String,
    /// As LaTeX.
    pub latex: String,
    /// As `MathML`, in which steps point at operators by `id`.
    pub mathml: String,
    /// What its symbols stand for.
    pub definitions: Vec<Definition>,
}

/// What a symbol of the formula stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The symbol.
    pub symbol: String,
    /// The line that says it.
    pub text: Text,
    /// The same as `MathML`.
    pub mathml: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The text.
    pub text: String,
    /// The second text of a pair.
    pub second: Option<String>,
}

/// What came of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// `written`, `blanks`, `classes`, `tags`, `span` or `rows`.
    pub kind: String,
    /// The text, where one was written.
    pub text: Option<String>,
    /// Why it ended: `eos`, `length` or `stop`.
    pub finish: Option<String>,
    /// Which probabilities the scores mean: `softmax`, `sigmoid` or `scores`.
    pub likely: String,
    /// Which tokens are asked about: the blanks, or the first and the last token of an answer.
    pub places: Vec<usize>,
    /// The classes or tags, where there are some.
    pub labels: Vec<String>,
    /// All of it on one screen.
    #[serde(flatten)]
    pub summary: Summary,
}

/// The tokens of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// What an encoder reads.
    pub source: Vec<Token>,
    /// What a decoder reads and writes: the last one was written and not read.
    pub target: Vec<Token>,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its text, as people read it.
    pub text: String,
    /// The bytes that it adds to a text, where it is bytes.
    pub bytes: Option<Vec<u8>>,
    /// Where it lies in the text, in characters.
    pub span: Option<[usize; 2]>,
    /// Which text of a pair it is from: 0 or 1.
    pub part: Option<usize>,
    /// Whether it is no part of the text.
    pub special: bool,
    /// Whether the model wrote it.
    pub written: bool,
    /// The word that it belongs to, or the character where several tokens make one; counted over its side.
    pub group: usize,
}

/// The ids that ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// Of the source.
    pub source: Vec<u32>,
    /// Of the target.
    pub target: Vec<u32>,
    /// Types of the source's tokens; empty where all are 0.
    pub types: Vec<u32>,
    /// Rows of the source that see and are seen by all.
    pub global: Vec<usize>,
}

/// An operation that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its name: that of its first output.
    pub id: String,
    /// What it does, in a word.
    pub kind: String,
    /// `source`, `target` or `head`.
    pub part: String,
    /// Its layer, counted from 0.
    pub layer: Option<usize>,
    /// What of the layer: `attend`, `cross`, `feed`; `embed`, `norm`, `pooler`, `head`.
    pub sublayer: String,
    /// What happens, in a few words.
    pub title: Text,
    /// What it is for.
    pub note: Option<Text>,
    /// What other models do in its place.
    pub elsewhere: Option<Text>,
    /// The same as a formula.
    pub equation: Option<Formulated>,
    /// The tensors that it reads: values and weights.
    pub inputs: Vec<String>,
    /// The tensors that it makes.
    pub outputs: Vec<String>,
    /// The operator of the model's formula that it belongs to, by `id`.
    pub lit: Option<String>,
    /// How far it is from its formula in `f64`, where that was computed.
    pub checks: Option<Replayed>,
}

/// A step's formula.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formulated {
    /// In one line of text.
    pub text: String,
    /// As `MathML`.
    pub mathml: String,
    /// What its symbols stand for.
    pub operands: Vec<Operand>,
}

/// What a symbol of a step's formula stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operand {
    /// The symbol.
    pub symbol: String,
    /// The tensor.
    pub tensor: String,
    /// Whether the formula writes the tensor with rows and columns exchanged.
    pub transposed: bool,
}

/// A step beside its formula in `f64`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The largest difference.
    pub max_error: f64,
    /// Which number differs the most.
    pub at: Vec<usize>,
    /// The largest number, which the difference is measured by.
    pub scale: f64,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What TransformerLens calls it.
    pub alias: Option<String>,
    /// Its symbol in formulas.
    pub symbol: String,
    /// The same as `MathML`.
    pub symbol_mathml: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// What its axes count: `source`, `target`, `vocabulary`, `heads`, `labels` or `numbers`.
    pub axes: Vec<String>,
    /// Into how many heads its columns divide.
    pub heads: Option<usize>,
    /// Whether its numbers are in `trace.safetensors`.
    pub stored: bool,
    /// Whether it is a weight of the model.
    pub weight: bool,
    /// `softmax` where rows are shares of one.
    pub normalised: Option<String>,
    /// Whether some of its numbers stand for what may not be seen.
    pub masked: bool,
}

/// How tokens were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decode {
    /// `greedy`, `beams`, `groups` or `sampled`.
    pub search: String,
    /// The options that are not their defaults, in words.
    pub options: Vec<Said>,
    /// The same by name.
    pub values: BTreeMap<String, Value>,
    /// Each token that was written, in order.
    pub steps: Vec<Written>,
    /// The tree of a beam search.
    pub beams: Option<Beams>,
}

/// A token that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Its number, counted from 1.
    pub t: usize,
    /// The row of the logits that it was chosen from.
    pub position: usize,
    /// The token.
    pub chosen: Candidate,
    /// Its rank among all tokens by the model's own scores, counted from 1.
    pub rank: usize,
    /// How uncertain the model was, in bits.
    pub entropy: f64,
    /// The logarithm of the token's probability, as the model gives it.
    pub logprob: f64,
    /// The likeliest tokens, by the model's own scores, the likeliest first; the one that was chosen is among them.
    pub candidates: Vec<Candidate>,
    /// What each rule made of them, in order; the first is the model's own scores.
    pub stages: Vec<Stage>,
}

/// What could be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The token.
    pub id: u32,
    /// Its text, as people read it.
    pub text: String,
    /// Its score; nothing where it may not come.
    pub logit: Option<f32>,
    /// Its probability.
    pub p: f64,
}

/// What a rule made of the candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Which rule.
    pub kind: String,
    /// Its name.
    pub name: Text,
    /// How many tokens can still come.
    pub alive: usize,
    /// The same candidates as those of the token, after it.
    pub candidates: Vec<Candidate>,
}

/// A beam search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beams {
    /// How many beams there are.
    pub width: usize,
    /// The power of the length that sums are divided by.
    pub length_penalty: f64,
    /// When the search is over: `true`, `false` or `never`.
    pub early_stopping: String,
    /// Every continuation that was looked at.
    pub nodes: Vec<Node>,
    /// Those that ended and were kept for some time, the best first.
    pub finished: Vec<Finished>,
    /// Which of them won.
    pub winner: usize,
    /// Why it won.
    pub why: Text,
}

/// A beam, continued by one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its number.
    pub id: usize,
    /// The node that it continues; nothing for the first tokens.
    pub parent: Option<usize>,
    /// How many tokens it has.
    pub t: usize,
    /// Its last token.
    pub token: Candidate,
    /// What the token added to the sum.
    pub logprob: f32,
    /// The sum of log-probabilities.
    pub sum: f32,
    /// Whether the search went on from here.
    pub kept: bool,
    /// Whether it ended here.
    pub finished: bool,
    /// Its place among the continuations of its step, counted from 1.
    pub rank: usize,
}

/// A beam that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Its last node.
    pub node: usize,
    /// The sum of its log-probabilities.
    pub sum: f32,
    /// How many tokens it has.
    pub length: usize,
    /// What the sum is divided by.
    pub penalty: f64,
    /// The quotient.
    pub score: f32,
    /// Whether it was still among the best when the search was over.
    pub kept: bool,
    /// Its text.
    pub text: String,
    /// The arithmetic in a line.
    pub arithmetic: String,
}

/// How long a trace took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// To open the model.
    pub load_ms: f64,
    /// To write the answer.
    pub run_ms: f64,
    /// To run again with everything shown, and to put it in order.
    pub trace_ms: f64,
}

/// Something that must hold in every run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// What holds.
    pub title: Text,
    /// Whether it does.
    pub ok: bool,
    /// The largest deviation.
    pub worst: f64,
    /// The largest that is allowed.
    pub bound: f64,
    /// The tensor or step that deviates the most.
    #[serde(default)]
    pub at: Option<String>,
}
