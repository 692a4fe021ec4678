//! A model's card: what it is, how large it is, what it can do.

use std::path::Path;

use glassformer_families::{self as families, Checkpoint};
use glassformer_formula::{Depth, Formula, Head, Mix, Side, Source};
use glassformer_model::{Parameter, parameters};
use glassformer_tokens::{ChatTemplate, Tokenizer};
use glassformer_weights::{Format, Weights};

use crate::Error;
use crate::text_encoder::{longest, marks_answers};

/// What there is to know about a model before it runs.
#[derive(Debug)]
pub struct Card {
    /// Its `model_type`; empty where a formula alone says what it is.
    pub kind: String,
    /// Its formula.
    pub formula: Formula,
    /// How many parameters each part has.
    pub parts: Vec<PartSize>,
    /// The tensors of its files.
    pub tensors: Vec<Stored>,
    /// What kind of file they came in.
    pub format: &'static str,
    /// How many tokens it can read at once, where there is a limit.
    pub longest: Option<usize>,
    /// How much memory the weights take when prepared, for each type that they can be prepared in.
    pub memory: Vec<WeightMemory>,
    /// Bytes of keys and values for each token that is generated or read before, where the model generates.
    pub page_bytes: Option<usize>,
    /// Its tokenizer, or why there is none.
    pub tokenizer: Result<Tokenizer, String>,
    /// The names of its labels, where it has a head with labels.
    pub labels: Vec<String>,
    /// Each task, and what it needs that this model lacks.
    pub tasks: Vec<TaskNeeds>,
}

/// A tensor as a file holds it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its name there.
    pub name: String,
    /// What its numbers are.
    pub dtype: &'static str,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// A part of a model, such as its attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// Its name.
    pub name: &'static str,
    /// How many parameters it has.
    pub parameters: usize,
}

/// What weights take when prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightMemory {
    /// The type that they are prepared in.
    pub dtype: &'static str,
    /// How many bytes they take.
    pub bytes: usize,
}

/// What a task needs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskNeeds {
    /// Its name.
    pub task: &'static str,
    /// What the model lacks for it; nothing where it can do it.
    pub lacks: Option<&'static str>,
}

impl Card {
    /// The card of the model at `path`. Nothing is prepared, and no weight is read.
    ///
    /// # Errors
    /// If the model cannot be opened.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let checkpoint = crate::open(path)?;
        let weights = Weights::open(path).map_err(families::Error::from)?;
        let formula = checkpoint.model.formula().clone();
        let own = parameters(&formula).map_err(families::Error::from)?;
        let tokenizer = crate::tokenizer(path).map_err(|error| error.to_string());
        let template = match &tokenizer {
            Ok(tokenizer) => crate::chat_template(path, tokenizer)?,
            Err(_) => None,
        };
        let stored = |name: &str| {
            let view = weights.get(name)?;
            let (dtype, shape) = (view.dtype().name(), view.shape().to_vec());
            Some(Stored { name: name.to_owned(), dtype, shape })
        };
        Ok(Self {
            parts: parts(&own),
            tensors: weights.names().filter_map(stored).collect(),
            format: match weights.format() {
                Format::Memory => "memory",
                Format::Safetensors => "safetensors",
                Format::Torch => "PyTorch",
                Format::Gguf(_) => "GGUF",
                Format::Ctranslate2(_) => "CTranslate2",
            },
            longest: longest(&checkpoint, tokenizer.as_ref().ok()),
            memory: memory(&own),
            page_bytes: formula.target.as_ref().map(page_bytes),
            tasks: tasks(&checkpoint, tokenizer.as_ref().ok(), template.as_ref()),
            labels: labels(&checkpoint),
            kind: checkpoint.kind,
            tokenizer,
            formula,
        })
    }

    /// How many parameters there are.
    pub fn parameters(&self) -> usize {
        self.parts.iter().map(|part| part.parameters).sum()
    }
}

/// Parameters by what they do.
fn parts(parameters: &[Parameter]) -> Vec<PartSize> {
    const PARTS: [&str; 6] = ["embeddings", "attention", "feed-forward", "norms", "pooler", "head"];
    let part = |name: &str| {
        let has = |word: &str| name.split('.').any(|step| step.starts_with(word));
        match () {
            () if has("norm") => 3,
            () if name.starts_with("pooler.") => 4,
            () if name.starts_with("head.") => 5,
            () if has("attend") || has("cross") => 1,
            () if has("feed") => 2,
            () => 0,
        }
    };
    let mut counts = [0; PARTS.len()];
    for Parameter { name, shape } in parameters {
        counts[part(name)] += shape.iter().product::<usize>();
    }
    let part = |(name, parameters)| PartSize { name, parameters };
    PARTS.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(part).collect()
}

/// Bytes of the prepared weights: matrices in the dtype, with a scale for each row and a step for each group, everything else in f32.
fn memory(parameters: &[Parameter]) -> Vec<WeightMemory> {
    let bytes = |matrix: fn(usize, usize) -> usize| {
        let one = |parameter: &Parameter| match parameter.shape[..] {
            [rows, columns] => matrix(rows, columns),
            _ => 4 * parameter.shape.iter().product::<usize>(),
        };
        parameters.iter().map(one).sum()
    };
    let dtypes = [
        ("f32", bytes(|rows, columns| 4 * rows * columns)),
        ("bf16", bytes(|rows, columns| 2 * rows * columns)),
        ("int8", bytes(|rows, columns| rows * (columns + 4))),
        ("int4", bytes(|rows, columns| rows * (columns.div_ceil(2) + columns.div_ceil(32) + 4))),
    ];
    dtypes.into_iter().map(|(dtype, bytes)| WeightMemory { dtype, bytes }).collect()
}

/// Bytes of keys and values that one token leaves behind.
fn page_bytes(side: &Side) -> usize {
    let layers = match side.stack.depth {
        Depth::Layers(layers) | Depth::Groups { layers, .. } => layers,

        Depth::Shared { times } => times,
        Depth::Adaptive { max, .. } => max,
    };
    let own = |mix: &Mix| match mix {
        Mix::Attend(attention) if attention.source == Source::Own => {
            2 * attention.heads.key * attention.heads.size
        }
        Mix::Attend(_) | Mix::Feed(_) => 0,
    };
    4 * layers * side.stack.block.iter().map(|sublayer| own(&sublayer.mix)).sum::<usize>()
}

fn labels(checkpoint: &Checkpoint) -> Vec<String> {
    match checkpoint.model.formula().head {
        Head::Classes { .. } | Head::Tags { .. } => checkpoint.labels.clone(),
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Spans => Vec::new(),
    }
}

/// What each task needs that there is not.
fn tasks(
    checkpoint: &Checkpoint,
    tokenizer: Option<&Tokenizer>,
    template: Option<&ChatTemplate>,
) -> Vec<TaskNeeds> {
    let formula = checkpoint.model.formula();
    let encoder = formula.target.is_none();
    let both = formula.source.is_some() && !encoder;
    let talks = formula.source.is_none() && template.is_some();
    let needs = |there: bool, what: &'static str| if there { Ok(()) } else { Err(what) };
    let reads: Result<(), &str> = needs(tokenizer.is_some(), "a tokenizer in the folder");
    let masks = tokenizer.is_none_or(|tokenizer| tokenizer.special().mask.is_some());
    let words = matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. });
    let fills = encoder && matches!(formula.head, Head::Words { .. }) && masks;
    let classes = matches!(formula.head, Head::Classes { .. });
    let tags = matches!(formula.head, Head::Tags { .. }) && !marks_answers(checkpoint);
    let tasks = [
        ("embed", needs(encoder, "an encoder alone").and(reads)),
        ("fill", needs(fills, "an encoder with a head for masked words").and(reads)),
        ("classify", needs(classes, "a head for classes").and(reads)),
        ("tag", needs(tags, "a head for tags").and(reads)),
        ("answer", needs(marks_answers(checkpoint), "a head for answers").and(reads)),
        ("score", needs(words, "a head for words").and(reads)),
        ("generate", needs(!encoder && words, "a decoder with a head for words")),
        ("translate", needs(both, "an encoder and a decoder").and(reads)),
        ("summarize", needs(both, "an encoder and a decoder").and(reads)),
        ("chat", needs(talks, "a decoder alone, and a chat template").and(reads)),
    ];
    tasks.into_iter().map(|(task, needs)| TaskNeeds { task, lacks: needs.err() }).collect()
}
