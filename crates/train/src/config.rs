//! What `train` is told: a TOML file with the model, the data, the objective and how to go about it. `read` reads and checks it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod read;

/// A training, described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The folder where everything goes: the vocabulary, the data as tokens, checkpoints, the log.
    pub out: PathBuf,
    /// What is learned, by the verb that uses it.
    pub objective: Objective,
    /// What all draws come from.
    #[serde(default)]
    pub seed: u64,
    /// What products are computed in; the weights that are trained are always `f32`.
    #[serde(default)]
    pub precision: Precision,
    /// Where training begins.
    pub model: Start,
    /// Which tokens there are.
    #[serde(default)]
    pub tokenizer: Vocabulary,
    /// What is learned from.
    pub data: Data,
    /// How much is learned from at once.
    #[serde(default)]
    pub batch: Batches,
    /// How weights move.
    #[serde(default)]
    pub optimiser: Optimiser,
    /// How fast, and for how long.
    pub schedule: Schedule,
    /// What keeps it from learning by heart.
    #[serde(default)]
    pub regularise: Regularise,
    /// What is kept on the way.
    #[serde(default)]
    pub checkpoint: Checkpoints,
}

/// What is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// A target from a source (sequence to sequence, teacher forcing): pairs of texts.
    Translate,
    /// The next token (causal language model): texts.
    Generate,
    /// Tokens that were hidden (masked language model): texts.
    Fill,
    /// The class of a text: texts and labels.
    Classify,
    /// The tag of each word: sentences of words with tags.
    Tag,
    /// Where the answer to a question is: questions, contexts and answers.
    Answer,
    /// Vectors that are near each other for texts that belong together: pairs of texts.
    Embed,
}

/// What products are computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// Factors rounded to 16 bits, sums in 32.
    Bf16,
}

/// Where training begins: exactly one of formula, shape and checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Start {
    /// A formula, as a file or as a table right here. Its vocabulary is that of the tokenizer, whatever it says.
    pub formula: Option<FormulaText>,
    /// A well-known formula, in sizes of one's own.
    pub shape: Option<Shape>,
    /// A model's folder, to go on from.
    pub checkpoint: Option<PathBuf>,
    /// Which weights of the checkpoint learn: all of them, or small ones beside them.
    pub lora: Option<Lora>,
}

/// A well-known formula by its name, as `glassformer formula --name` has it. What is left out is as in the base size, or follows from the
/// width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Its name.
    pub name: String,
    /// Numbers per row.
    pub width: Option<usize>,
    /// Layers of each stack.
    pub layers: Option<usize>,
    /// Heads of attention.
    pub heads: Option<usize>,
    /// Numbers per row inside the feed-forward layers.
    pub hidden: Option<usize>,
    /// The longest text, where the shape has an end: as long as the data's if it is left out.
    pub length: Option<usize>,
}

/// A formula's file, or the formula itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FormulaText {
    /// Its file.
    File(PathBuf),
    /// The formula, as a table.
    Table(toml::Table),
}

/// Low-rank adaptation (Hu et al. 2021): W stays, and `scale · B A` beside it learns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// The rank of B A.
    pub rank: usize,
    /// The scale is this over the rank.
    pub alpha: f32,
    /// Parameters whose names contain one of these get one.
    pub names: Vec<String>,
}

impl Default for Lora {
    fn default() -> Self {
        let names = [".query.weight", ".value.weight"].map(str::to_owned).into();
        Self { rank: 8, alpha: 16.0, names }
    }
}

/// Which tokens there are: those of a folder, of the checkpoint, or learned ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vocabulary {
    /// A folder with a tokenizer.
    pub folder: Option<PathBuf>,
    /// What learned tokens are.
    pub kind: VocabularyKind,
    /// How many of them.
    pub size: usize,
    /// The share of characters that get tokens of their own.
    pub coverage: f64,
    /// The most lines that they are learned from, spread evenly over the data.
    pub lines: usize,
}

impl Default for Vocabulary {
    fn default() -> Self {
        let (kind, size, coverage) = (VocabularyKind::Unigram, 8000, 0.9995);
        Self { folder: None, kind, size, coverage, lines: 500_000 }
    }
}

/// What learned tokens are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VocabularyKind {
    /// The most probable pieces.
    Unigram,
    /// Joined pairs.
    Bpe,
    /// Joined pairs of bytes.
    ByteBpe,
    /// Characters.
    Characters,
}

/// What is learned from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The files to learn from.
    pub train: Vec<Source>,
    /// The files to check with.
    #[serde(default)]
    pub valid: Vec<Source>,
    /// The share of `train` that is held out to check with, where `valid` is empty.
    #[serde(default)]
    pub held_out: f64,
    /// What is left out.
    #[serde(default)]
    pub filter: Filter,
    /// The most tokens of a text. Longer pairs are left out; running text is cut into pieces of this length.
    #[serde(default = "longest")]
    pub length: usize,
    /// The share of tokens that are hidden, for `fill`.
    #[serde(default = "hidden")]
    pub hidden: f64,
}

fn longest() -> usize {
    128
}

fn hidden() -> f64 {
    0.15
}

/// A file of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The file; `.gz` is unpacked.
    pub path: PathBuf,
    /// What it is; by its ending where this is not given.
    #[serde(default)]
    pub format: Option<Format>,
    /// Which columns (numbers from 0, or keys) are what the objective wants, in its order: source and target; text; text and
    /// label, and the other text where texts are pairs; words and tags; question, context and answer; two texts.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// How many lines at its beginning are no data: 1 where the first names the columns.
    #[serde(default)]
    pub skip: usize,
    /// How often each example comes in an epoch; a fraction is drawn anew for each epoch. A piece of running text counts for the file that
    /// it begins in.
    #[serde(default = "once")]
    pub weight: f64,
}

fn once() -> f64 {
    1.0
}

/// What a file of data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Columns with tabs between.
    Tsv,
    /// A JSON object on each line.
    Jsonl,
    /// Text: all of it for `generate` and `fill`, lines for others.
    Text,
    /// A word on each line, its tag in the last column, an empty line between sentences.
    Conll,
    /// Questions in the format of SQuAD.
    Squad,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Column {
    /// By its number, from 0.
    Number(usize),
    /// By its key.
    Key(String),
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Key(key) => f.write_str(key),
        }
    }
}

/// What is left out of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Pairs of which one side has more than this many times the other's tokens (those of up to 4 more are let through).
    pub ratio: Option<f64>,
    /// Sources less than half of whose letters are of this script.
    pub source_script: Option<Script>,
    /// Targets less than half of whose letters are of this script.
    pub target_script: Option<Script>,
    /// Examples that came before.
    pub duplicates: bool,
    /// Pairs of the same text twice.
    pub copies: bool,
}

impl Default for Filter {
    fn default() -> Self {
        Self { ratio: None, source_script: None, target_script: None, duplicates: true, copies: true }
    }
}

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Script {
    /// That of English.
    Latin,
    /// That of Chinese.
    Han,
}

/// How much is learned from at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Batches {
    /// The most tokens of a batch, of each side.
    pub tokens: usize,
    /// How many batches make a step.
    pub accumulate: usize,
    /// Examples of like length come together: they are sorted within pools of this many batches.
    pub pool: usize,
    /// What layers have inside is computed again on the way back instead of kept: less memory, more time, the same bits.
    pub recompute: bool,
}

impl Default for Batches {
    fn default() -> Self {
        Self { tokens: 4096, accumulate: 1, pool: 32, recompute: false }
    }
}

/// AdamW.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Optimiser {
    /// How much of the first moment is kept.
    pub beta1: f32,
    /// How much of the second moment is kept.
    pub beta2: f32,
    /// What keeps the division from zero.
    pub epsilon: f32,
    /// How much of each weight is taken off at every step, times the rate. Biases, gains and tables keep theirs, unless a group
    /// says otherwise.
    pub decay: f32,
    /// Gradients are scaled down to this length if they are longer; 0 for never.
    pub clip: f32,
    /// Parameters that differ; the last one that fits counts.
    pub group: Vec<Group>,
}

impl Default for Optimiser {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.98, epsilon: 1e-8, decay: 0.01, clip: 1.0, group: Vec::new() }
    }
}

/// Parameters that are treated in a way of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Those whose names contain one of these.
    pub names: Vec<String>,
    /// Their rate is this times the rate; 0 leaves them as they are.
    #[serde(default = "same")]
    pub rate: f32,
    /// Their decay, where it is another.
    #[serde(default)]
    pub decay: Option<f32>,
}

fn same() -> f32 {
    1.0
}

/// How fast, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The steps in all.
    pub steps: usize,
    /// The highest rate.
    pub rate: f32,
    /// Steps in which the rate rises from nothing.
    #[serde(default)]
    pub warmup: usize,
    /// How it falls then.
    #[serde(default)]
    pub decay: Decay,
    /// The share of the highest rate that is left at the end, for `cosine` and `linear`.
    #[serde(default)]
    pub last: f32,
}

/// How the rate falls after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decay {
    /// With one over the square root of the step (Vaswani et al. 2017).
    #[default]
    InverseSquareRoot,
    /// Along half a cosine.
    Cosine,
    /// In a straight line.
    Linear,
    /// Not at all.
    Constant,
}

/// What keeps a model from learning by heart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Regularise {
    /// The share of numbers left out after each branch and after the input.
    pub dropout: f32,
    /// What the right label gives up to all.
    pub smoothing: f32,
    /// How much of the average of weights is kept at each step; 0 for no average. The average is what is checked and written.
    pub average: f32,
}

impl Default for Regularise {
    fn default() -> Self {
        Self { dropout: 0.1, smoothing: 0.0, average: 0.0 }
    }
}

/// What is kept on the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checkpoints {
    /// A checkpoint is written every so many steps.
    pub every: usize,
    /// The loss on the data to check with is computed every so many steps.
    pub check: usize,
    /// How many of the last ones are kept, besides the best.
    pub keep: usize,
    /// How many batches of the data to check with are used at most; 0 for all.
    pub batches: usize,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { every: 500, check: 500, keep: 2, batches: 0 }
    }
}
