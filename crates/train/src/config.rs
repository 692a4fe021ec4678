//! What `train` is told: a TOML file with the model, the data, the objective and how to go about it.
//!
//! A key that is not known is an error that names the nearest one. Paths are relative to the file.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

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

/// Where training begins: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Start {
    /// A formula, as a file or as a table right here. Its vocabulary is that of the tokenizer, whatever it says.
    pub formula: Option<FormulaText>,
    /// A model's folder, to go on from.
    pub checkpoint: Option<PathBuf>,
    /// Which weights of the checkpoint learn: all of them, or small ones beside them.
    pub lora: Option<Lora>,
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
    /// label; words and tags; question, context and answer; two texts.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// How many lines at its beginning are no data: 1 where the first names the columns.
    #[serde(default)]
    pub skip: usize,
    /// How often each example comes in an epoch; a fraction is drawn anew for each epoch.
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

impl Config {
    /// Reads the configuration at `path`.
    ///
    /// # Errors
    /// If it cannot be read, has a key that is not known, or says what cannot be.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        let mut config = Self::parse(&text, &path.display().to_string())?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        config.resolve(&folder);
        Ok(config)
    }

    /// Reads a configuration from `text`; `place` names it in errors.
    ///
    /// # Errors
    /// If it has a key that is not known, or says what cannot be.
    pub fn parse(text: &str, place: &str) -> Result<Self, Error> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or(place.to_owned(), |line| format!("{place}, line {line}"));
            let (what, hint) = explain(error.message());
            Error::Config { place, what, hint }
        })?;
        config.check()?;
        Ok(config)
    }

    /// Makes all paths relative to `folder`, and straight.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        let fix = |path: &mut PathBuf| *path = straight(&folder.join(&*path));
        fix(&mut self.out);
        self.tokenizer.folder.iter_mut().for_each(fix);
        self.model.checkpoint.iter_mut().for_each(fix);
        if let Some(FormulaText::File(path)) = &mut self.model.formula {
            fix(path);
        }
        self.data.train.iter_mut().chain(&mut self.data.valid).for_each(|source| fix(&mut source.path));
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |wrong: bool, what: &str, hint: &str| {
            if wrong { Err(Error::config(what, hint)) } else { Ok(()) }
        };
        let model = &self.model;
        wrong(
            model.formula.is_some() == model.checkpoint.is_some(),
            "[model] needs either formula or checkpoint",
            "give exactly one of the two",
        )?;
        wrong(
            model.lora.is_some() && model.checkpoint.is_none(),
            "model.lora needs a checkpoint",
            "train all weights of a formula, or name a checkpoint",
        )?;
        wrong(model.lora.as_ref().is_some_and(|l| l.rank == 0), "model.lora.rank is 0", "8 is usual")?;
        wrong(self.data.train.is_empty(), "data.train is empty", "name a file to learn from")?;
        wrong(self.schedule.steps == 0, "schedule.steps is 0", "say how many steps to train for")?;
        let positive = |x: f32| x.is_finite() && x > 0.0;
        wrong(!positive(self.schedule.rate), "schedule.rate is not a positive number", "0.001 is usual")?;
        let longest = match self.objective {
            Objective::Embed => self.data.length.saturating_mul(2),
            _ => self.data.length.saturating_add(2),
        };
        wrong(
            self.batch.tokens < longest,
            "batch.tokens is less than the longest text with its marks, or than both texts of a pair",
            "raise batch.tokens or lower data.length",
        )?;
        wrong(self.batch.accumulate == 0 || self.batch.pool == 0, "a batch setting is 0", "1 is the least")?;
        wrong(self.data.length < 4, "data.length is less than 4", "128 is usual")?;
        wrong(!(0.0..1.0).contains(&self.data.held_out), "data.held_out is not in [0, 1)", "0.01 is usual")?;
        wrong(
            !(self.data.hidden > 0.0 && self.data.hidden < 1.0),
            "data.hidden is not between 0 and 1",
            "0.15 is usual",
        )?;
        let share = |x: f32| (0.0..1.0).contains(&x);
        let Optimiser { beta1, beta2, epsilon, decay, clip, group } = &self.optimiser;
        wrong(
            !share(*beta1) || !share(*beta2),
            "a beta of the optimiser is not in [0, 1)",
            "0.9 and 0.98 are usual",
        )?;
        wrong(!positive(*epsilon), "optimiser.epsilon is not a positive number", "1e-8 is usual")?;
        let finite = |x: f32| x.is_finite() && x >= 0.0;
        let decays = group.iter().filter_map(|group| group.decay).chain([*decay, *clip]);
        wrong(
            !decays.into_iter().chain(group.iter().map(|group| group.rate)).all(finite),
            "a decay, clip or rate of the optimiser is not a number from 0 on",
            "0.01, 1.0 and 1.0 are usual",
        )?;
        wrong(!(0.0..=1.0).contains(&self.schedule.last), "schedule.last is not in [0, 1]", "0.1 is usual")?;
        let alpha = model.lora.as_ref().map_or(0.0, |lora| lora.alpha);
        wrong(!alpha.is_finite(), "model.lora.alpha is not a number", "twice the rank is usual")?;
        let Regularise { dropout, smoothing, average } = self.regularise;
        wrong(!share(dropout), "regularise.dropout is not in [0, 1)", "0.1 is usual")?;
        wrong(!share(smoothing), "regularise.smoothing is not in [0, 1)", "0.1 is usual")?;
        wrong(!share(average), "regularise.average is not in [0, 1)", "0.999 is usual")?;
        let kept = &self.checkpoint;
        wrong(
            kept.every == 0 || kept.check == 0 || kept.keep == 0,
            "a checkpoint setting is 0",
            "1 is the least",
        )?;
        let bad = |source: &Source| !(source.weight >= 0.0 && source.weight <= 1000.0);
        wrong(self.data.train.iter().any(bad), "a weight of data.train is not in 0 to 1000", "1 is usual")
    }
}

/// The same path without `x/..`, where x is no link to elsewhere: people read it.
fn straight(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for part in path.components() {
        let back = part == Component::ParentDir
            && matches!(all.components().next_back(), Some(Component::Normal(_)))
            && !all.is_symlink();
        if back {
            all.pop();
        } else if part != Component::CurDir {
            all.push(part);
        }
    }
    if all.as_os_str().is_empty() { PathBuf::from(".") } else { all }
}

/// What serde says, in our words: a key that is not known, and the nearest one that is.
fn explain(message: &str) -> (String, String) {
    let first = message.lines().next().unwrap_or(message);
    let quoted: Vec<&str> = first.split('`').skip(1).step_by(2).collect();
    let unknown = first.starts_with("unknown field") || first.starts_with("unknown variant");
    if let (true, Some((found, expected))) = (unknown, quoted.split_first()) {
        let nearest = expected.iter().min_by_key(|known| distance(known, found));
        let kind = if first.starts_with("unknown field") { "key" } else { "value" };
        let hint = match nearest {
            Some(nearest) => format!("did you mean {nearest}? There are {}", expected.join(", ")),
            None => "leave it out".to_owned(),
        };
        return (format!("the {kind} {found} is not known"), hint);
    }
    (first.to_owned(), "`glassformer train --help` shows a whole configuration".to_owned())
}

/// How many letters must change to make one name of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#"
        out = "out"
        objective = "translate"
        model.formula = "formula.toml"
        data.train = [{ path = "a.tsv" }]
        schedule = { steps = 10, rate = 1e-3 }
    "#;

    fn refused(text: &str) -> String {
        Config::parse(text, "c.toml").expect_err("it is wrong").to_string()
    }

    #[test]
    fn the_least_configuration_has_defaults() {
        let config = Config::parse(LEAST, "c.toml").unwrap();
        assert_eq!(config.schedule.decay, Decay::InverseSquareRoot);
        assert_eq!(config.batch.tokens, 4096);
        assert!(config.data.filter.duplicates);
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_key() {
        let error = refused(&format!("sed = 3\n{LEAST}"));
        assert!(error.starts_with("c.toml, line 1: the key sed is not known; did you mean seed?"), "{error}");
        let error = refused(&LEAST.replace("rate = 1e-3", "rate = 1e-3, warmpu = 4"));
        assert!(error.contains("did you mean warmup?"), "{error}");
        let error = refused(&LEAST.replace("translate", "translation"));
        assert!(error.contains("did you mean translate?"), "{error}");
    }

    #[test]
    fn paths_are_shown_without_detours() {
        let shown = |path: &str| straight(Path::new(path)).display().to_string();
        assert_eq!(shown("no-such/example/../../runs/a"), "runs/a");
        assert_eq!(shown("../../runs"), "../../runs");
        assert_eq!(shown("/no-such/../x/./y"), "/x/y");
        assert_eq!(shown("a/.."), ".");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_a_path_is_followed_before_going_back() {
        let folder = std::env::temp_dir().join(format!("glassformer-link-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("far/inside")).unwrap();
        std::os::unix::fs::symlink("far/inside", folder.join("link")).unwrap();
        let path = folder.join("link/../x");
        assert_eq!(straight(&path), path);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(refused(&LEAST.replace("steps = 10", "steps = 0")).contains("schedule.steps"));
        assert!(refused(&LEAST.replace("1e-3", "nan")).contains("schedule.rate"));
        assert!(refused(&format!("{LEAST}\nmodel.checkpoint = \"x\"")).contains("exactly one"));
        assert!(refused(&format!("{LEAST}\nbatch.tokens = 64")).contains("batch.tokens"));
    }
}
