//! Where training begins: a model, its tokenizer, and how it is written.

use std::fs;
use std::path::{Path, PathBuf};

use glassformer_families::{self as families, Checkpoint, Layout};
use glassformer_formula::named::{Sizes, sized};
use glassformer_formula::{Formula, Head, Input, NAMES};
use glassformer_model::{Model, initialise, parameters};
use glassformer_tokens::{self as tokens, Learn, Marks, Pieces, Tokenizer};
use glassformer_weights::Weights;
use serde_json::{Map, Value, json};

use crate::checkpoint::Written;
use crate::config::{Config, FormulaText, Objective, Shape, Vocabulary, VocabularyKind};
use crate::data::{labels, sample_lines};
use crate::task::About;
use crate::{Error, Event, Task, disk};

/// Files that belong to a model besides its weights and its configuration.
const BESIDE: [&str; 18] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "source.spm",
    "target.spm",
    "spiece.model",
    "tokenizer.model",
    "spm.model",
    "sentencepiece.model",
    "chat_template.jinja",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
];

/// What a vocabulary was learned by, in its folder.
const LEARNED: &str = "learned.json";

/// A beginning.
pub(crate) struct Begun {
    pub model: Model,
    pub task: Task,
    pub written: Written,
    /// Files to be written beside the model, with what they hold.
    pub beside: Vec<(String, Vec<u8>)>,
    /// The parameters that are new to a checkpoint, and those of a head whose labels are.
    pub drawn: Vec<String>,
}

/// Makes or opens what `config` begins with.
pub(crate) fn begin(config: &Config, tell: &mut dyn FnMut(Event)) -> Result<Begun, Error> {
    let labels = match config.objective {
        Objective::Classify | Objective::Tag => labels(config, tell)?,
        Objective::Translate
        | Objective::Generate
        | Objective::Fill
        | Objective::Answer
        | Objective::Embed => Vec::new(),
    };
    let model = &config.model;
    match (&model.formula, &model.shape, &model.checkpoint) {
        (Some(text), _, _) => from_formula(config, read_formula(text)?, labels, tell),
        (None, Some(shape), _) => from_formula(config, of_shape(shape, config)?, labels, tell),
        (None, None, Some(path)) => from_checkpoint(config, path, labels),
        (None, None, None) => {
            Err(Error::config("[model] names nothing to begin with", "give formula, shape or checkpoint"))
        }
    }
}

fn from_formula(
    config: &Config,
    mut formula: Formula,
    labels: Vec<String>,
    tell: &mut dyn FnMut(Event),
) -> Result<Begun, Error> {
    let folder = match &config.tokenizer.folder {
        Some(folder) => folder.clone(),
        None => learned(config, tell)?,
    };
    let tokenizer = Tokenizer::open(&folder)?;
    let words = rows(tokenizer.vocabulary(), &folder)?;
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        if let Input::Tokens(tokens) = &mut side.input {
            tokens.vocabulary = words;
        }
    }
    match &mut formula.head {
        Head::Classes { count, .. } | Head::Tags { count, .. } => *count = labels.len(),
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Spans => {}
    }
    long_enough(&formula, config)?;
    let about = About { global: families::global_rows(&formula), ..About::default() };
    let task = Task::new(config, tokenizer, labels, &formula, about)?;
    let keys = keys(config, &task, &formula);
    let written = match Layout::of_formula(&formula, &keys) {
        Some(layout) => Written::Layout(Box::new(layout), None),
        None => Written::Formula(formula.clone()),
    };
    let mut beside = files(&folder)?;
    if matches!(written, Written::Formula(_)) {
        beside.extend(label_file(&task));
    }
    if config.objective == Objective::Translate {
        beside.push(("generation_config.json".into(), generation(config, &task).into_bytes()));
    }
    let model = Model::random(formula, config.seed)?;
    Ok(Begun { model, task, written, beside, drawn: Vec::new() })
}

/// How many rows the embedding of a vocabulary has. A file may give a token any id: one that is far behind the others would ask for
/// more memory than all of them.
fn rows(vocabulary: &tokens::Vocabulary, folder: &Path) -> Result<usize, Error> {
    const GAPS: usize = 1 << 20;
    let (rows, tokens) = (vocabulary.size(), vocabulary.len());
    if rows - tokens > GAPS {
        return Err(Error::config(
            format!("{}: the last of {tokens} tokens has id {}", folder.display(), rows - 1),
            "an embedding has a row for each id; give tokens ids without large gaps",
        ));
    }
    Ok(rows)
}

fn read_formula(text: &FormulaText) -> Result<Formula, Error> {
    let (place, text) = match text {
        FormulaText::File(path) => {
            (path.display().to_string(), fs::read_to_string(path).map_err(Error::io("read", path))?)
        }
        FormulaText::Table(table) => ("model.formula".to_owned(), table.to_string()),
    };
    Formula::from_toml(&text).map_err(|error| Error::Config {
        place,
        what: error.to_string(),
        hint: "`glassformer formula --name original --notation toml` prints a formula that works".into(),
    })
}

/// The formula of a named shape. Its vocabulary and its labels are those of the data, later on.
pub(crate) fn of_shape(shape: &Shape, config: &Config) -> Result<Formula, Error> {
    let Shape { name, width, layers, heads, hidden, length } = shape;
    let marks = usize::from(config.objective == Objective::Fill) * 2;
    let sizes = Sizes {
        width: *width,
        layers: *layers,
        heads: *heads,
        hidden: *hidden,
        length: Some(length.unwrap_or(config.data.length + marks)),
        ..Sizes::default()
    };
    let formula = sized(name, &sizes).ok_or_else(|| {
        let near = families::nearest(NAMES.into_iter(), name)
            .map_or(String::new(), |near| format!("did you mean {near}? "));
        Error::config(
            format!("model.shape.name {name:?} is not known"),
            format!("{near}There are {}", NAMES.join(", ")),
        )
    })?;
    formula
        .check()
        .map_err(|problems| Error::config(format!("model.shape: {problems}"), "give other sizes"))?;
    Ok(formula)
}

/// Refuses positions that end before the texts do.
fn long_enough(formula: &Formula, config: &Config) -> Result<(), Error> {
    let marks = usize::from(config.objective == Objective::Fill) * 2;
    for side in [&formula.source, &formula.target].into_iter().flatten() {
        let known = side.stack.position.count();
        if let Some(max) = known.filter(|&max| max < config.data.length + marks) {
            return Err(Error::config(
                format!(
                    "the formula has {max} positions, and texts have up to {}",
                    config.data.length + marks
                ),
                "raise position.learned.max or model.shape.length, or lower data.length",
            ));
        }
    }
    Ok(())
}

/// The folder of the vocabulary that is learned from the data, if it is not there yet.
fn learned(config: &Config, tell: &mut dyn FnMut(Event)) -> Result<PathBuf, Error> {
    let folder = config.out.join("tokenizer");
    let asked = &config.tokenizer;
    let told = serde_json::to_string(asked).unwrap_or_default();
    if folder.exists() {
        // Where nothing says how it was learned, an older program wrote it.
        if fs::read_to_string(folder.join(LEARNED)).map_or(true, |known| known == told) {
            return Ok(folder);
        }
        if config.begun_with().exists() {
            return Err(Error::config(
                format!("tokenizer differs from what {} was learned with", folder.display()),
                "write to another folder: the weights of this one are for its own tokens",
            ));
        }
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
    }
    let lines = sample_lines(config, asked.lines)?;
    let size = (asked.kind != VocabularyKind::Characters).then_some(asked.size);
    tell(Event::Learning { lines: lines.len(), size });
    let vocabulary = learning(asked, config.objective).from_lines(lines.iter().map(String::as_str))?;
    // Whole or not at all, as checkpoints are: a run that goes on must find the same tokens.
    let hidden = config.out.join(".tokenizer");
    let _ = fs::remove_dir_all(&hidden);
    fs::create_dir_all(&hidden).map_err(Error::io("create", &hidden))?;
    for (name, text) in vocabulary.files() {
        disk::write(&hidden.join(name), text.as_bytes())?;
    }
    disk::write(&hidden.join(LEARNED), told.as_bytes())?;
    fs::rename(&hidden, &folder).map_err(Error::io("rename", &hidden))?;
    disk::synchronise(&config.out)?;
    Ok(folder)
}

/// How a vocabulary is learned that is asked for.
pub(crate) fn learning(asked: &Vocabulary, objective: Objective) -> Learn {
    Learn {
        pieces: match asked.kind {
            VocabularyKind::Unigram => Pieces::Unigram,
            VocabularyKind::Bpe => Pieces::Pairs,
            VocabularyKind::ByteBpe => Pieces::BytePairs,
            VocabularyKind::Characters => Pieces::Characters,
        },
        size: asked.size,
        coverage: asked.coverage,
        around: match objective {
            Objective::Translate => Marks::End,
            Objective::Generate => Marks::None,
            Objective::Fill | Objective::Classify | Objective::Tag | Objective::Answer | Objective::Embed => {
                Marks::Around
            }
        },
    }
}

fn from_checkpoint(config: &Config, path: &Path, labels: Vec<String>) -> Result<Begun, Error> {
    let folder = config.tokenizer.folder.as_deref().unwrap_or(path);
    let tokenizer = Tokenizer::open(folder)?;
    let mut beside = files(path)?;
    if folder != path {
        beside.retain(|(name, _)| !name.contains("token") && !name.contains("vocab"));
        beside.extend(files(folder)?);
    }
    if let Ok(bytes) = fs::read(path.join("generation_config.json")) {
        beside.push(("generation_config.json".into(), bytes));
    }
    if path.join("formula.toml").exists() {
        let Checkpoint { model, labels: known, .. } = families::open_formula(path)?;
        let formula = model.formula().clone();
        long_enough(&formula, config)?;
        if let Head::Classes { count, .. } | Head::Tags { count, .. } = formula.head
            && !labels.is_empty()
            && labels.len() != count
        {
            return Err(Error::config(
                format!(
                    "the data have {} labels, and the head of the checkpoint's formula has {count}",
                    labels.len()
                ),
                "change count of the head in its formula.toml, or the data",
            ));
        }
        let about = About { global: families::global_rows(&formula), ..About::default() };
        let task = Task::new(config, tokenizer, labels, &formula, about)?;
        beside.extend(label_file(&task));
        let drawn = if known == task.labels() { Vec::new() } else { head_names(&formula)? };
        return Ok(Begun { model, task, written: Written::Formula(formula), beside, drawn });
    }
    let embeds = config.objective == Objective::Embed;
    let opened = if embeds { families::open_for_embedding(path)? } else { families::open(path)? };
    let id = |key: &str| opened.config.get(key).and_then(Value::as_u64).map(|id| id as u32);
    let start = id("decoder_start_token_id");
    let old = Layout::of_config(opened.config.clone())?.with_tables_of(opened.model.formula());
    let end = match config.objective {
        Objective::Classify => Some("ForSequenceClassification"),
        Objective::Tag => Some("ForTokenClassification"),
        Objective::Answer => Some("ForQuestionAnswering"),
        Objective::Fill if !matches!(opened.model.formula().head, Head::Words { .. }) => Some("ForMaskedLM"),
        Objective::Translate | Objective::Generate | Objective::Fill | Objective::Embed => None,
    };
    let (model, layout, global, drawn) = match end {
        None => (opened.model, old, opened.global, Vec::new()),
        Some(end) => {
            let layout = old.with_head(end, &labels)?;
            // Not the positions that the old head asks for: the model learns as it will run.
            let global = layout.global().to_vec();
            let (model, mut drawn) = grown(&opened.model, layout.formula(), config.seed)?;
            if opened.labels != labels {
                drawn.extend(head_names(layout.formula())?);
            }
            (model, layout, global, drawn)
        }
    };
    long_enough(model.formula(), config)?;
    if parameters(model.formula())?.iter().any(|parameter| embeds && parameter.name.starts_with("pooler.")) {
        return Err(Error::config(
            "this sentence encoder has modules with weights after its pooling, which would not be written",
            "train one whose vectors are pooled rows",
        ));
    }
    let about = About { start, global };
    let task = Task::new(config, tokenizer, labels, model.formula(), about)?;
    // A sentence encoder's file may hold a pooler that its vectors do not use.
    let rest = if embeds { families::open(path).ok().map(|opened| opened.model) } else { None };
    Ok(Begun { model, task, written: Written::Layout(Box::new(layout), rest), beside, drawn })
}

/// The names of the parameters of a formula's head.
fn head_names(formula: &Formula) -> Result<Vec<String>, Error> {
    let names = parameters(formula)?.into_iter().map(|parameter| parameter.name);
    Ok(names.filter(|name| name.starts_with("head.")).collect())
}

/// The weights of `model` for another formula, drawn where it has none of that name and shape; and the names of those that were drawn.
fn grown(model: &Model, formula: &Formula, seed: u64) -> Result<(Model, Vec<String>), Error> {
    let mut tensors = initialise(formula, seed)?;
    let mut drawn = Vec::new();
    for parameter in parameters(formula)? {
        // A head for words is none for labels, even where the shapes are the same.
        let labels = parameter.name.starts_with("head.");
        let same = formula.head == model.formula().head;
        if let Some(tensor) = model.tensor(&parameter.name).filter(|_| !labels || same)
            && tensor.shape() == parameter.shape
        {
            tensors.insert(parameter.name, tensor);
        } else {
            drawn.push(parameter.name);
        }
    }
    Ok((Model::new(formula.clone(), Weights::from_tensors(tensors))?, drawn))
}

/// Keys of `config.json` that say nothing of the formula.
fn keys(config: &Config, task: &Task, formula: &Formula) -> Map<String, Value> {
    let special = task.tokenizer().special();
    let mut keys = Map::new();
    let ids = [
        ("pad_token_id", special.pad),
        ("eos_token_id", special.eos),
        ("bos_token_id", special.bos),
        ("decoder_start_token_id", (config.objective == Objective::Translate).then(|| task.start())),
    ];
    keys.extend(ids.into_iter().filter_map(|(name, id)| Some((name.to_owned(), id?.into()))));
    if !task.labels().is_empty() {
        let names = task.labels().iter().enumerate();
        let by_id: Map<String, Value> =
            names.clone().map(|(id, label)| (id.to_string(), label.clone().into())).collect();
        let by_name: Map<String, Value> = names.map(|(id, label)| (label.clone(), id.into())).collect();
        keys.insert("id2label".into(), by_id.into());
        keys.insert("label2id".into(), by_name.into());
    }
    // Positions that are not counted have no end, but a model is no good at lengths that it has never seen.
    let mut sides = [&formula.source, &formula.target].into_iter().flatten();
    if sides.all(|side| side.stack.position.count().is_none()) {
        keys.insert("max_position_embeddings".into(), (2 * config.data.length).into());
    }
    keys.insert("dropout".into(), json!(config.regularise.dropout));
    keys
}

/// The file with the names of labels beside a formula, which has no place for them.
fn label_file(task: &Task) -> Option<(String, Vec<u8>)> {
    let names = Some(task.labels()).filter(|labels| !labels.is_empty())?;
    Some((families::LABELS.to_owned(), format!("{:#}\n", json!(names)).into_bytes()))
}

/// How a translator writes unless told otherwise.
fn generation(config: &Config, task: &Task) -> String {
    let special = task.tokenizer().special();
    // The start token is never written again, nor what stands for the unknown.
    let never: Vec<[u32; 1]> = [special.pad, special.unk].into_iter().flatten().map(|id| [id]).collect();
    let value = json!({
        "decoder_start_token_id": task.start(),
        "eos_token_id": special.eos,
        "pad_token_id": special.pad,
        "bad_words_ids": never,
        "max_length": 2 * config.data.length,
        "num_beams": 4,
    });
    format!("{value:#}\n")
}

/// The small files of a model's folder.
fn files(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut all = Vec::new();
    for name in BESIDE {
        let path = folder.join(name);
        if path.is_file() {
            all.push((name.to_owned(), fs::read(&path).map_err(Error::io("read", &path))?));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use glassformer_formula::named::{self, Size};
    use glassformer_tensor::Random;

    use super::*;
    use crate::data::prepare;

    /// Which rows of the first example see all, for a checkpoint that was trained to fill gaps.
    fn seeing(objective: &str, data: &str) -> Vec<bool> {
        let folder = std::env::temp_dir().join(format!("glassformer-{objective}-{}", std::process::id()));
        fs::create_dir_all(folder.join("tokens")).unwrap();
        fs::write(folder.join("data.tsv"), data).unwrap();
        let learn = Learn { pieces: Pieces::Characters, around: Marks::Around, ..Learn::default() };
        learn.from_lines(["abc"]).unwrap().save(folder.join("tokens")).unwrap();
        let checkpoint = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hf/longformer-mlm");
        let text = format!(
            r#"
            out = "out"
            objective = "{objective}"
            model.checkpoint = "{checkpoint}"
            tokenizer.folder = "tokens"
            data = {{ train = [{{ path = "data.tsv" }}], length = 16 }}
            schedule = {{ steps = 1, rate = 1e-3 }}
            "#
        );
        fs::write(folder.join("config.toml"), text).unwrap();
        let config = Config::open(folder.join("config.toml")).unwrap();
        let begun = begin(&config, &mut |_| {}).unwrap();
        let data = prepare(&config, &begun.task, &folder.join("data"), &mut |_| {}).unwrap();
        let batch = begun.task.batch(&data.train, &[0], &mut Random::new(1)).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        batch.source.global
    }

    /// The length of such a model was 1024, whatever it had learned from.
    #[test]
    fn a_decoder_without_counted_positions_reads_what_it_was_trained_on() {
        let size = Size { layers: 1, width: 8, heads: 2, hidden: 16, vocabulary: 9, length: 4 };
        let formula = named::llama(size, 1);
        let text = r#"
            out = "out"
            objective = "generate"
            model.formula = "formula.toml"
            data = { train = [{ path = "data.txt" }], length = 2000 }
            schedule = { steps = 1, rate = 1e-3 }
        "#;
        let config = Config::parse(text, "config").unwrap();
        let folder = std::env::temp_dir().join(format!("glassformer-rotary-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let learn = Learn { pieces: Pieces::Characters, around: Marks::None, ..Learn::default() };
        learn.from_lines(["abc"]).unwrap().save(&folder).unwrap();
        let tokenizer = Tokenizer::open(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let task = Task::new(&config, tokenizer, Vec::new(), &formula, About::default()).unwrap();
        let layout = Layout::of_formula(&formula, &keys(&config, &task, &formula)).unwrap();
        assert_eq!(layout.config()["max_position_embeddings"], 4000);
    }

    /// They were those of the head that the checkpoint had before: a classifier learned with other rows than it was run with.
    #[test]
    fn rows_that_see_all_are_those_that_the_trained_model_runs_with() {
        let classes = seeing("classify", "abc\ta\nbca\tb\n");
        assert_eq!(classes.iter().filter(|row| **row).count(), 1);
        assert!(classes[0], "what a classifier reads");
        // [CLS] a b [SEP] c a b c [SEP]: up to the end of the question
        let answer = seeing("answer", "ab\tcabc\tbc\n");
        assert_eq!(answer.iter().position(|row| !row), Some(3));
        assert!(answer[3..].iter().all(|row| !row));
    }
}
