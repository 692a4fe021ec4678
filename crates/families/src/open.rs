//! A folder or a file as a model hub gives it, opened.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use glassformer_formula::{Formula, Global, Head, Input, Mix, Pattern, Side, Sublayer, Table, Tokens};
use glassformer_model::Model;
use glassformer_weights::{Dtype, Format, View, Weights};
use serde_json::{Map, Value};

use crate::{Bound, Config, Embedding, Error, Family, bind, ctranslate2, embedding, gguf, known, positions};

/// The largest `config.json` that is read: real ones have a few kilobytes, and with many labels some hundred. Parsed it may
/// need sixteen times as much.
const LARGEST: u64 = 2 << 20;

/// A checkpoint: the model, and what else its configuration says.
#[derive(Debug)]
pub struct Checkpoint {
    /// The model.
    pub model: Model,
    /// Its `model_type`, the architecture that a GGUF file names, or CTranslate2's specification.
    pub kind: String,
    /// The names of its labels, where it has a head with labels.
    pub labels: Vec<String>,
    /// Positions of the source that see all unless the user says otherwise.
    pub global: Vec<usize>,
    /// How sentences become vectors, where it was opened for that.
    pub embedding: Option<Embedding>,
    /// The function that sentence-transformers applies to its scores of classes, where its files name one:
    /// `torch.nn.modules.linear.Identity`.
    pub score_function: Option<String>,
    /// The most tokens of a text that are read, where a file beside the model says so (`max_seq_length` of sentence-transformers).
    pub longest: Option<usize>,
    /// The configuration as it stands, for what is not the model's but a task's.
    pub config: Map<String, Value>,
}

impl Checkpoint {
    /// A model whose formula says all.
    pub fn plain(model: Model) -> Self {
        let (labels, global) = (Vec::new(), global_rows(model.formula()));
        Self {
            model,
            kind: String::new(),
            labels,
            global,
            embedding: None,
            score_function: None,
            longest: None,
            config: Map::new(),
        }
    }

    /// The id that the configuration has for `key`.
    fn id(&self, key: &str) -> Option<u32> {
        self.config.get(key).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok())
    }

    /// What an encoder-decoder that classifies or answers reads as its target: `source` behind the token that begins, which is
    /// the reference's own where the configuration names none.
    pub fn shifted(&self, source: &[u32]) -> Vec<u32> {
        let first = match self.kind.as_str() {
            // The language's token, which ends a text there, stands before it.
            "mbart" => {
                let pad = self.id("pad_token_id").unwrap_or(1);
                let last = source.iter().filter(|&&id| id != pad).count().saturating_sub(1);
                source.get(last).copied()
            }
            kind => self.id("decoder_start_token_id").or(match kind {
                "bart" => Some(2),
                "t5" | "mt5" => Some(0),
                _ => None,
            }),
        };
        first.into_iter().chain(source.iter().copied()).take(source.len()).collect()
    }

    /// The token at whose last place such a model reads off the classes, where it has one.
    pub fn end(&self) -> Option<u32> {
        self.id("eos_token_id").or(match self.kind.as_str() {
            "bart" | "mbart" => Some(2),
            "t5" | "mt5" => Some(1),
            _ => None,
        })
    }
}

/// The file with the names of labels beside a formula: a JSON list, in the order of the head's scores.
pub const LABELS: &str = "labels.json";

/// Opens a folder whose formula says all: `formula.toml`, the weights and, where the head has labels, their names in [`LABELS`].
///
/// # Errors
/// If a file cannot be read, or they do not fit.
pub fn open_formula(folder: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let folder = folder.as_ref();
    let model = Model::open_formula(folder)?;
    let labels = match model.formula().head {
        Head::Classes { count, .. } | Head::Tags { count, .. } => label_names(folder, count)?,
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Spans => Vec::new(),
    };
    let longest = embedding::longest(folder)?;
    Ok(Checkpoint { labels, longest, ..Checkpoint::plain(model) })
}

/// The names of the labels of a head that has `count`; none where nobody has written them.
fn label_names(folder: &Path, count: usize) -> Result<Vec<String>, Error> {
    let path = folder.join(LABELS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bad = |why: String| Error::File { path: path.display().to_string(), why };
    let names: Vec<String> = serde_json::from_str(&read_text(&path)?)
        .map_err(|error| bad(format!("is no list of names of labels: {error}")))?;
    if names.len() != count {
        return Err(bad(format!("names {} labels, and the formula's head has {count}", names.len())));
    }
    Ok(names)
}

/// The positions of the source that see and are seen by all where nothing but the formula says it: the first one, where some rows
/// can (Longformer's `[CLS]`).
pub fn global_rows(formula: &Formula) -> Vec<usize> {
    let global = |sublayer: &Sublayer| match &sublayer.mix {
        Mix::Attend(attention) => {
            matches!(attention.pattern, Pattern::Sliding { global: Global::Shared | Global::Separate, .. })
        }
        Mix::Feed(_) => false,
    };
    let stack = formula.source.as_ref().map(|side| &side.stack);
    if stack.is_some_and(|stack| stack.blocks().flatten().any(global)) { vec![0] } else { Vec::new() }
}

/// Opens the checkpoint at `path`: a folder with `config.json` and weights beside it, a GGUF file, alone or in its folder, or
/// a CTranslate2 folder.
///
/// Where the configuration names a head of which the file has nothing, the model is the one without it: sentence encoders
/// keep the configuration of what they were trained from.
///
/// # Errors
/// If a file cannot be read, the architecture is not known, a key is not understood, or tensors do not fit.
pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let path = path.as_ref();
    let mut checkpoint = checkpoint(Parts::read(path)?)?;
    checkpoint.score_function = embedding::score_function(path, &checkpoint.config)?;
    checkpoint.longest = embedding::longest(path)?;
    Ok(checkpoint)
}

/// Opening a model where it lies: `Model::open(path)`.
pub trait Open: Sized {
    /// Opens the model at `path`: a folder with `formula.toml`, one from a model hub, of CTranslate2, or a GGUF file. Weights may be in
    /// one file or in shards with an index, and files may be links to elsewhere.
    ///
    /// # Errors
    /// If a file cannot be read or is not understood, or tensors do not fit.
    fn open(path: impl AsRef<Path>) -> Result<Self, Error>;
}

impl Open for Model {
    fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let has_formula = path.join("formula.toml").exists();
        let checkpoint = if has_formula { open_formula(path)? } else { open(path)? };
        Ok(checkpoint.model)
    }
}

/// A checkpoint whose files are in memory: the text of its `config.json`, and its weights. See [`Weights::from_bytes`].
///
/// # Errors
/// As for [`open`].
pub fn from_parts(config: &str, weights: Weights) -> Result<Checkpoint, Error> {
    checkpoint(Parts::of(Config::parse(config)?, || Ok(weights))?)
}

fn checkpoint(Parts { config, family, weights }: Parts) -> Result<Checkpoint, Error> {
    let bound = Bound::new(&family.formula, &family, weights)?;
    let model = Model::with(family.formula, Arc::new(bound))?;
    let kind = config.text_or("model_type", "")?.to_owned();
    // As many as the head has, which the weights have proved: the configuration alone may claim any number.
    let labels = match model.formula().head {
        Head::Classes { count, .. } | Head::Tags { count, .. } => config.label_names(count),
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Spans => Vec::new(),
    };
    let global = family.global;
    let config = config.into_keys();
    let embedding = None;
    Ok(Checkpoint { model, kind, labels, global, embedding, score_function: None, longest: None, config })
}

/// What a checkpoint consists of, before its weights are bound.
pub(crate) struct Parts {
    pub config: Config,
    pub family: Family,
    pub weights: Weights,
}

impl Parts {
    /// Those of the checkpoint at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let (weights, place) = (Weights::open(path), path.display().to_string());
        if let Ok(weights) = &weights {
            let told = match weights.format() {
                Format::Gguf(gguf) => Some(gguf::read(&place, weights, gguf)?),
                Format::Ctranslate2(model) => Some(ctranslate2::read(&place, weights, model)?),
                Format::Memory | Format::Safetensors | Format::Torch => None,
            };
            if let Some((config, family)) = told {
                return Self::untied(config, family, weights.clone());
            }
        }
        if !path.join("config.json").exists() {
            weights?;
            let why = "it has tensors, but does not say of which model; give a folder with config.json";
            return Err(Error::File { path: place, why: why.into() });
        }
        Self::of(read_config(path)?, || Ok(weights?))
    }

    /// What a configuration says of weights. What is wrong with it comes first: it says which weights there should be.
    fn of(config: Config, weights: impl FnOnce() -> Result<Weights, Error>) -> Result<Self, Error> {
        let mut family = known::read(&config)?;
        let weights = weights()?;
        if bind::lacks_head(&family, &weights)? {
            family = known::read(&config.without_head())?;
        }
        Self::untied(config, family, weights)
    }

    fn untied(config: Config, mut family: Family, weights: Weights) -> Result<Self, Error> {
        untie(&mut family, &weights);
        positions::stored(&mut family, &weights);
        copied(&family, &weights)?;
        Ok(Self { config, family, weights })
    }
}

/// The `config.json` of `folder`.
pub(crate) fn read_config(folder: &Path) -> Result<Config, Error> {
    Config::parse(&read_text(&folder.join("config.json"))?)
}

/// A small file of text.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let bad = |why: String| Error::File { path: path.display().to_string(), why };
    let facts = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?;
    if !facts.is_file() {
        return Err(bad("is not a regular file".into()));
    }
    if facts.len() > LARGEST {
        return Err(bad(format!("has {} bytes, and a configuration at most {LARGEST}", facts.len())));
    }
    std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))
}

/// Gives the head a matrix of its own where the file holds one that is not the embedding table, whatever the configuration says
/// of tying: so the reference does.
fn untie(family: &mut Family, weights: &Weights) {
    if bind::has_our_names(weights) {
        // What was written so has a matrix of its own only if it needs one.
        if let (Head::Words { tied, .. }, Some(_)) = (&mut family.formula.head, weights.get("head.weight")) {
            *tied = false;
        }
        return;
    }
    let theirs = |name: &str| {
        let (name, _) = bind::find(&family.rules, family.prefixes, name, weights).ok()?;
        weights.get(&name)
    };
    let table = match &family.formula.target {
        Some(side) if !borrows(side) => theirs("target.embed.tokens"),
        _ => theirs("source.embed.tokens"),
    };
    let own = theirs("head.weight");
    if let Head::Words { tied: tied @ true, .. } = &mut family.formula.head
        && let Some(own) = own
        && !table.is_some_and(|table| same(table, own))
    {
        *tied = false;
    }
}

/// Refuses a second embedding table that is not the first: each side would read words of its own.
fn copied(family: &Family, weights: &Weights) -> Result<(), Error> {
    let found = |name: &str| bind::find(&family.rules, family.prefixes, name, weights).ok();
    let Some((table, _)) = found("source.embed.tokens") else { return Ok(()) };
    let own = found("target.embed.tokens")
        .filter(|_| family.formula.target.as_ref().is_some_and(|side| !borrows(side)));
    let names = family
        .copies
        .iter()
        .flat_map(|copy| family.prefixes.iter().chain(&[""]).map(move |prefix| format!("{prefix}{copy}")));
    let differs = |name: &String| {
        let second = own.as_ref().is_some_and(|(own, _)| own == name);
        let pair = weights.get(&table).zip(weights.get(name));
        *name != table && !second && pair.is_some_and(|(a, b)| !same(a, b))
    };
    let wrong: Vec<String> = names
        .filter(differs)
        .map(|name| format!("{name} is not {table}, and one table is supported"))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Error::Tensors(wrong)) }
}

/// Whether the words of a target are looked up in the source's table.
fn borrows(side: &Side) -> bool {
    matches!(&side.input, Input::Tokens(Tokens { table: Table::Source, .. }))
}

/// Whether two tensors hold the same numbers. Tables are large, so they are compared as they lie, or else widened some rows at a
/// time.
fn same(a: View<'_>, b: View<'_>) -> bool {
    const ROWS: usize = 256;
    fn bytes(view: View<'_>) -> Option<(Dtype, &[u8])> {
        match (view.dtype(), view.bytes()?) {
            (dtype @ (Dtype::F32 | Dtype::F16 | Dtype::Bf16), Cow::Borrowed(bytes)) => Some((dtype, bytes)),
            _ => None,
        }
    }
    if a.shape() == b.shape() && bytes(a).is_some_and(|all| bytes(b) == Some(all)) {
        return true;
    }
    let count = a.shape().first().copied().unwrap_or(0);
    let rows = |view: View<'_>, from: usize| view.rows(from..(from + ROWS).min(count)).map(Cow::into_owned);
    a.shape() == b.shape() && (0..count).step_by(ROWS).all(|from| rows(a, from) == rows(b, from))
}
