//! What makes one vector of a sentence: the modules that sentence-transformers puts after a model.
//!
//! `modules.json` lists them: the model, then pooling, projections and norms, each with a folder of its own. They become the
//! pooler of the formula, so the vector is an output of the graph like any other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use glassformer_formula::{Activation, Formula, Head, Norm, Pool, Pooler, Then};
use glassformer_graph::Constants;
use glassformer_model::{Model, Source, parameters};
use glassformer_tensor::{Coded, Halves};
use glassformer_weights::{Format, Weights};
use serde_json::{Map, Value, json};

use crate::open::{Parts, read_config};
use crate::{Bound, Checkpoint, Config, Error};

/// How a sentence becomes a vector, besides what the formula says: what a task does before the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Embedding {
    /// Whether the sentence is put into lower case first.
    pub lower: bool,
    /// Texts to put before a sentence, by what it is for (`query`, `document`, …).
    pub prompts: BTreeMap<String, String>,
    /// The name of the one that is put there unless the user says otherwise.
    pub prompt: Option<String>,
    /// Whether the rows of a prompt are pooled like the others.
    pub include_prompt: bool,
    /// How many numbers of a vector are kept, from the first on; all where nothing is said.
    pub dimensions: Option<usize>,
}

impl Embedding {
    /// `text` in the case that the model reads.
    pub fn lowered(&self, text: &str) -> String {
        if self.lower { text.to_lowercase() } else { text.to_owned() }
    }
}

/// Opens the checkpoint in `folder` as a model of sentences: its output `pooled` is their vector.
///
/// Folders without `modules.json` take the mean of the rows, as sentence-transformers does, unless their configuration
/// says otherwise (`uniem_embedding_strategy`); a GGUF file is pooled as it says.
///
/// # Errors
/// As [`open`](crate::open()), and if a module cannot be read or is not known.
pub fn open_for_embedding(folder: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let folder = folder.as_ref();
    if folder.join("formula.toml").exists() {
        return plain(folder);
    }
    let modules = modules(folder)?;
    let inner = first(&modules, folder);
    let Parts { config, family, weights } = Parts::read(&inner)?;
    let mut embedding = Embedding { include_prompt: true, ..Embedding::default() };
    let mut pooler = None;
    let mut found = BTreeMap::new();
    for module in modules.iter().skip(1) {
        module.read(&mut pooler, &mut found, &mut embedding)?;
    }
    let pooler = match (pooler, weights.format()) {
        (Some(pooler), _) => pooler,
        (None, Format::Gguf(_)) => family.formula.pooler.clone().unwrap_or(Pooler::of(Pool::Mean)),
        (None, _) => Pooler::of(strategy(&config)?),
    };
    habits(folder, &inner, &mut embedding)?;
    let alone = Formula { pooler: None, head: Head::Rows, ..family.formula.clone() };
    let target = if alone.source.is_some() { None } else { alone.target };
    let alone = Formula { target, ..alone };
    let source = Joined { model: Bound::new(&alone, &family, weights)?, modules: found };
    let model = Model::with(Formula { pooler: Some(pooler), ..alone }, Arc::new(source))?;
    let kind = config.text_or("model_type", "")?.to_owned();
    Ok(Checkpoint {
        model,
        kind,
        labels: Vec::new(),
        // What a classifier's first row sees, for it alone; rows are pooled as the bare model gives them.
        global: Vec::new(),
        embedding: Some(embedding),
        score_function: None,
        longest: longest(&inner)?,
        config: config.into_keys(),
    })
}

/// Where the model of sentences at `path` keeps the model itself and its tokenizer: in the folder of its first module, such as
/// `0_Transformer`, or else at `path`.
///
/// # Errors
/// If the list of modules cannot be read.
pub fn embedding_folder(path: impl AsRef<Path>) -> Result<PathBuf, Error> {
    let path = path.as_ref();
    Ok(first(&modules(path)?, path))
}

fn first(modules: &[Module], folder: &Path) -> PathBuf {
    modules.first().map_or_else(|| folder.to_owned(), |module| module.folder.clone())
}

/// A folder whose formula says all, how rows become one too; the mean where it does not.
fn plain(folder: &Path) -> Result<Checkpoint, Error> {
    let model = Model::open_formula(folder)?;
    let formula = model.formula().clone();
    let pooler = formula.pooler.clone().or(Some(Pooler::of(Pool::Mean)));
    let formula = Formula { pooler, head: Head::Rows, ..formula };
    let names = parameters(&formula)?.into_iter().map(|parameter| parameter.name);
    let tensors = names.filter_map(|name| Some((name.clone(), model.tensor(&name)?)));
    let model = Model::new(formula.clone(), Weights::from_tensors(tensors))?;
    let embedding = Embedding { include_prompt: true, ..Embedding::default() };
    let longest = longest(folder)?;
    Ok(Checkpoint { embedding: Some(embedding), longest, ..Checkpoint::plain(model) })
}

/// One module of `modules.json`.
pub(crate) struct Module {
    /// The last part of its type: `Pooling`.
    kind: String,
    /// Where its files are.
    pub(crate) folder: PathBuf,
}

/// No file system has longer names, and every message would show them.
const LONGEST_NAME: usize = 255;

/// The modules of `folder`, or none.
pub(crate) fn modules(folder: &Path) -> Result<Vec<Module>, Error> {
    let path = folder.join("modules.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bad = |why: String| Error::File { path: path.display().to_string(), why };
    let list: Value =
        serde_json::from_str(&crate::open::read_text(&path)?).map_err(|error| bad(error.to_string()))?;
    let list = list.as_array().ok_or_else(|| bad("is not a list of modules".into()))?;
    let one = |module: &Value| {
        let text = |key: &str| module.get(key).and_then(Value::as_str);
        let kind = text("type").ok_or_else(|| bad("has a module without a type".into()))?;
        let path = text("path").unwrap_or_default();
        let inside = Path::new(path);
        let long = inside.as_os_str().len() > LONGEST_NAME;
        if long || inside.components().any(|part| !matches!(part, Component::Normal(_))) {
            return Err(bad(format!("names the folder {path:?}, which is not within this one")));
        }
        Ok(Module { kind: kind.rsplit('.').next().unwrap_or(kind).to_owned(), folder: folder.join(inside) })
    };
    let modules = list.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    match modules.first() {
        Some(first) if first.kind == "Transformer" => Ok(modules),
        Some(first) => Err(bad(format!("begins with {:?}, and should with a Transformer", first.kind))),
        None => Err(bad("lists no modules".into())),
    }
}

/// Parameters of modules under our names: the file that holds one, and its name there.
type Found = BTreeMap<String, (Arc<Weights>, String)>;

impl Module {
    /// Appends what this module does to `pooler`, and its weights to `found`.
    fn read(
        &self,
        pooler: &mut Option<Pooler>,
        found: &mut Found,
        embedding: &mut Embedding,
    ) -> Result<(), Error> {
        let unknown = |why: String| Error::File { path: self.folder.display().to_string(), why };
        if self.kind == "Pooling" {
            if pooler.is_some() {
                return Err(unknown("is a second Pooling".into()));
            }
            let config = read_config(&self.folder)?;
            embedding.include_prompt = config.flag_or("include_prompt", true)?;
            config.get("word_embedding_dimension");
            config.get("embedding_dimension");
            *pooler = Some(Pooler::of(pool(&config)?));
            return config.finish();
        }
        let Some(pooler) = pooler else {
            return Err(unknown(format!("is a {} before any Pooling, which is not supported", self.kind)));
        };
        let step = match self.kind.as_str() {
            "Normalize" => Then::Unit,
            "Dense" => dense(&read_config(&self.folder)?)?,
            "LayerNorm" => Then::Norm(Norm::Layer { epsilon: 1e-5, bias: true }),
            "Dropout" => return Ok(()), // nothing is left out here
            other => {
                let known = "Pooling, Dense, LayerNorm, Normalize and Dropout are";
                return Err(unknown(format!("is a module {other:?}, which is not known; {known}")));
            }
        };
        let index = pooler.then.len();
        let names: &[(&str, &str)] = match step {
            Then::Unit => &[],
            Then::Dense { bias: true, .. } => &[("weight", "linear.weight"), ("bias", "linear.bias")],
            Then::Dense { bias: false, .. } => &[("weight", "linear.weight")],
            Then::Norm(_) => &[("gain", "norm.weight"), ("bias", "norm.bias")],
        };
        if !names.is_empty() {
            let weights = Arc::new(Weights::open(&self.folder)?);
            for (ours, theirs) in names {
                found.insert(format!("pooler.{index}.{ours}"), (weights.clone(), (*theirs).to_owned()));
            }
        }
        pooler.then.push(step);
        Ok(())
    }
}

/// What a Pooling reads: one key for each way, in this order, or one key that names them.
fn pool(config: &Config) -> Result<Pool, Error> {
    const WAYS: [(&str, &str, Pool); 6] = [
        ("pooling_mode_cls_token", "cls", Pool::First),
        ("pooling_mode_max_tokens", "max", Pool::Max),
        ("pooling_mode_mean_tokens", "mean", Pool::Mean),
        ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pool::MeanRoot),
        ("pooling_mode_weightedmean_tokens", "weightedmean", Pool::WeightedMean),
        ("pooling_mode_lasttoken", "lasttoken", Pool::Last),
    ];
    let mut ways = Vec::new();
    for (key, _, way) in &WAYS {
        if config.flag_or(key, false)? {
            ways.push(way.clone());
        }
    }
    let named = |name: &Value| {
        let bad =
            || Error::Key { key: "pooling_mode".into(), why: format!("has {name}, which is not known") };
        WAYS.iter().find(|(_, known, _)| name == known).map(|(_, _, way)| way.clone()).ok_or_else(bad)
    };
    match config.get("pooling_mode") {
        None => {}
        Some(Value::Array(names)) => ways = names.iter().map(named).collect::<Result<_, _>>()?,
        Some(name) => ways = vec![named(name)?],
    }
    Ok(match ways.len() {
        0 => Pool::Mean,
        1 => ways.remove(0),
        _ => Pool::Together(ways),
    })
}

fn dense(config: &Config) -> Result<Then, Error> {
    config.get("in_features");
    config.only("use_residual", &[json!(false)])?;
    config.only("module_input_name", &[json!("sentence_embedding")])?;
    config.only("module_output_name", &[json!("sentence_embedding")])?;
    let name = config.text_or("activation_function", "torch.nn.modules.activation.Tanh")?;
    let act = match name.rsplit('.').next().unwrap_or(name) {
        "Identity" => None,
        "Tanh" => Some(Activation::Tanh),
        "ReLU" => Some(Activation::Relu),
        "GELU" => Some(Activation::Gelu),
        "SiLU" => Some(Activation::Silu),
        "Sigmoid" => Some(Activation::Sigmoid),
        _ => {
            let why =
                format!("is {name:?}, and should be Identity, Tanh, ReLU, GELU, SiLU or Sigmoid of torch");
            return Err(Error::Key { key: "activation_function".into(), why });
        }
    };
    let step = Then::Dense { width: config.size("out_features")?, act, bias: config.flag_or("bias", true)? };
    config.finish()?;
    Ok(step)
}

/// How a model without modules is pooled: by the mean, unless its configuration names another way.
fn strategy(config: &Config) -> Result<Pool, Error> {
    Ok(match config.text_or("uniem_embedding_strategy", "last_mean")? {
        "last_mean" => Pool::Mean,
        "cls" => Pool::First,
        "last_weighted" => Pool::WeightedMean,
        other => {
            let why = format!("is {other:?}, and should be last_mean, cls or last_weighted");
            return Err(Error::Key { key: "uniem_embedding_strategy".into(), why });
        }
    })
}

/// What the files beside the modules say about texts: their length, their case, and prompts.
fn habits(folder: &Path, inner: &Path, embedding: &mut Embedding) -> Result<(), Error> {
    if let Some(config) = beside(&inner.join(READ))? {
        embedding.lower = config.flag_or("do_lower_case", false)?;
    }
    let path = folder.join(TOLD);
    if let Some(config) = beside(&path)? {
        let prompts = config.get("prompts").and_then(Value::as_object);
        let texts = prompts
            .into_iter()
            .flatten()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
        embedding.prompts = texts.collect();
        embedding.prompt = config.get("default_prompt_name").and_then(Value::as_str).map(str::to_owned);
        embedding.dimensions = dimensions(&config).map_err(|why| within(&path, why))?;
        for other in
            ["__version__", "requirements", "similarity_fn_name", "activation_fn", "keep_in_fp32_modules"]
        {
            config.get(other); // versions, how vectors are compared, and what is a classifier's or of narrower numbers
        }
        config.finish().map_err(|why| within(&path, why))?;
    }
    Ok(())
}

/// The most tokens of a text that are read of a model in `folder`, where sentence-transformers says so.
///
/// # Errors
/// If its file cannot be read.
pub(crate) fn longest(folder: &Path) -> Result<Option<usize>, Error> {
    let path = folder.join(READ);
    let Some(config) = beside(&path)? else { return Ok(None) };
    config.optional_size("max_seq_length").map_err(|why| within(&path, why))
}

/// How many numbers of a vector are kept.
fn dimensions(config: &Config) -> Result<Option<usize>, Error> {
    let count = config.optional_size("truncate_dim")?;
    if count == Some(0) {
        let why = "is 0, and should be how many numbers of a vector are kept".into();
        return Err(Error::Key { key: "truncate_dim".into(), why });
    }
    Ok(count)
}

/// The configuration at `path`, where there is one.
fn beside(path: &Path) -> Result<Option<Config>, Error> {
    if path.exists() { Config::parse(&crate::open::read_text(path)?).map(Some) } else { Ok(None) }
}

/// An error about a key, told of the file that it stands in.
fn within(path: &Path, error: Error) -> Error {
    let path = path.display().to_string();
    match error {
        Error::Key { key, why } => Error::File { path, why: format!("{key} {why}") },
        Error::Unread(keys) => {
            let why = "not understood, and may change the results; update Glassformer or report it";
            Error::File { path, why: format!("{} {why}", keys.join(", ")) }
        }
        other => other,
    }
}

/// What sentence-transformers writes of how texts are read.
const READ: &str = "sentence_bert_config.json";

/// What sentence-transformers writes beside a model's own configuration.
const TOLD: &str = "config_sentence_transformers.json";

/// The name of the function that sentence-transformers applies to a classifier's scores, as the files in `folder` and `config`,
/// that of the model, give it: `torch.nn.modules.linear.Identity`. What stands beside the model counts where `modules.json` lies
/// there, too.
///
/// # Errors
/// If a file cannot be read, or names a prompt.
pub(crate) fn score_function(folder: &Path, config: &Map<String, Value>) -> Result<Option<String>, Error> {
    let path = folder.join(TOLD);
    let told = if folder.join("modules.json").exists() { beside(&path)? } else { None };
    let ranks = |told: &Config| told.get("model_type").is_some_and(|kind| kind == "CrossEncoder");
    let told = told.filter(ranks);
    if let Some(name) = told.as_ref().and_then(|told| told.get("default_prompt_name")) {
        let why = format!("default_prompt_name is {name}, and prompts of classifiers are not supported");
        return Err(Error::File { path: path.display().to_string(), why });
    }
    let told = told.as_ref().and_then(|told| told.get("activation_fn"));
    let own = || config.get("sentence_transformers")?.get("activation_fn");
    let older = || config.get("sbert_ce_default_activation_function");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(told.or_else(own).or_else(older).filter(|name| !name.is_null()).map(text))
}

/// The weights of the model, and those of the modules after it.
#[derive(Debug)]
struct Joined {
    model: Bound,
    modules: Found,
}

impl Constants for Joined {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        match self.modules.get(name) {
            Some((weights, theirs)) => Some(weights.get(theirs)?.values()),
            None => self.model.get(name),
        }
    }

    fn halves(&self, name: &str) -> Option<Halves<'_>> {
        if self.modules.contains_key(name) { None } else { self.model.halves(name) }
    }

    fn coded(&self, name: &str) -> Option<Box<dyn Coded + '_>> {
        if self.modules.contains_key(name) { None } else { self.model.coded(name) }
    }
}

impl Source for Joined {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match self.modules.get(name) {
            Some((weights, theirs)) => weights.shape(theirs).map(<[usize]>::to_vec),
            None => self.model.shape(name),
        }
    }

    fn names(&self) -> Vec<String> {
        self.model.names().into_iter().chain(self.modules.keys().cloned()).collect()
    }
}
