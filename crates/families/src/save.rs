//! Writing: a formula as the `config.json` of a family, and our parameters under that family's names, so that what was
//! trained here loads elsewhere.
//!
//! Nothing is believed: a configuration counts only if reading it gives back the very formula that it was made from.

use std::collections::BTreeMap;
use std::path::Path;

use glassformer_formula::{
    Activation, Counting, Depth, FeedForward, Formula, Head, Input, InputScale, Mix, Norm, Pool, Position,
    Side,
};
use glassformer_model::{Parameter, parameters};
use glassformer_tensor::Tensor;
use serde_json::{Map, Value, json};

use crate::{Config, Error, Family, How, Rule, known, positions};

/// How a model is written.
#[derive(Clone, Debug)]
pub struct Layout {
    config: Map<String, Value>,
    family: Family,
}

impl Layout {
    /// The layout of a family in which `formula` can be written, where there is one. `more` are keys that say nothing of the
    /// formula: ids of special tokens, names of labels, how long texts may be.
    pub fn of_formula(formula: &Formula, more: &Map<String, Value>) -> Option<Self> {
        candidates(formula).into_iter().find_map(|mut config| {
            config.extend(more.clone());
            let layout = Self::of_config(config).ok()?;
            let read = &layout.family.formula;
            (read == formula || unpadded(read) == *formula).then_some(layout)
        })
    }

    /// The layout that a `config.json` describes.
    ///
    /// # Errors
    /// If the architecture is not known, or a key is missing, wrong or not understood.
    pub fn of_config(config: Map<String, Value>) -> Result<Self, Error> {
        let family = known::read(&Config::of(config.clone()))?;
        Ok(Self { config, family })
    }

    /// The same layout with the tables of positions that `formula` has where this one would compute them: its checkpoint's file
    /// holds them.
    #[must_use]
    pub fn with_tables_of(mut self, formula: &Formula) -> Self {
        self.family.formula = positions::with_tables_of(self.family.formula, formula);
        self
    }

    /// The same layout for another head, with the names of its labels: what a checkpoint is trained for need not be what it was
    /// trained for before.
    ///
    /// # Errors
    /// If the family has no such head.
    pub fn with_head(&self, end: &str, labels: &[String]) -> Result<Self, Error> {
        let mut config = self.config.clone();
        let kind = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let name =
            class(kind).ok_or_else(|| Error::Unknown { name: format!("{kind}{end}"), nearest: None })?;
        config.insert("architectures".into(), json!([format!("{name}{end}")]));
        if !labels.is_empty() {
            let names = labels.iter().enumerate();
            let by_id: Map<String, Value> =
                names.clone().map(|(id, label)| (id.to_string(), label.clone().into())).collect();
            let by_name: Map<String, Value> = names.map(|(id, label)| (label.clone(), id.into())).collect();
            config.insert("id2label".into(), by_id.into());
            config.insert("label2id".into(), by_name.into());
            config.remove("num_labels");
        }
        Ok(Self::of_config(config)?.with_tables_of(&self.family.formula))
    }

    /// The formula that it writes.
    pub fn formula(&self) -> &Formula {
        &self.family.formula
    }

    /// Positions of the source that see all when what it writes is run.
    pub fn global(&self) -> &[usize] {
        &self.family.global
    }

    /// Its `config.json`.
    pub fn config(&self) -> &Map<String, Value> {
        &self.config
    }

    /// The parameters of its formula, as the family's files hold them. `ours` gives each by our name.
    ///
    /// # Errors
    /// If a parameter is missing, or files of this family hold it in a way that cannot be written.
    pub fn tensors(&self, ours: impl Fn(&str) -> Option<Tensor>) -> Result<BTreeMap<String, Tensor>, Error> {
        let mut parts: BTreeMap<String, Vec<(How, Tensor)>> = BTreeMap::new();
        for Parameter { name, .. } in parameters(&self.family.formula)? {
            let missing = |what: &str| Error::Tensors(vec![format!("{what} (our {name})")]);
            let rule = self.rule(&name).ok_or_else(|| missing("this family's files have no place for it"))?;
            let tensor = ours(&name).ok_or_else(|| missing("there is no such parameter"))?;
            let theirs = rule.theirs(&name).unwrap_or_default();
            parts.entry(self.full(&theirs)).or_default().push((rule.how, tensor));
        }
        let join = |(name, parts): (String, Vec<(How, Tensor)>)| {
            let joined = join(parts).ok_or_else(|| {
                Error::Tensors(vec![format!("{name} is held in a way that can be read and not written")])
            })?;
            Ok((name.clone(), if name == "final_logits_bias" { row(joined) } else { joined }))
        };
        parts.into_iter().map(join).collect()
    }

    /// Writes `config.json` and `model.safetensors` to `folder`, which is there.
    ///
    /// # Errors
    /// As [`Layout::tensors`], or if the system refuses.
    pub fn save(&self, folder: impl AsRef<Path>, ours: impl Fn(&str) -> Option<Tensor>) -> Result<(), Error> {
        let folder = folder.as_ref();
        let path = folder.join("config.json");
        let text = format!("{:#}\n", Value::Object(self.config.clone()));
        std::fs::write(&path, text).map_err(Error::write(&path))?;
        let tensors = self.tensors(ours)?;
        let named = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
        // Readers of the reference want to be told which program's conventions the names follow.
        let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
        Ok(glassformer_weights::save(folder.join("model.safetensors"), named, &metadata)?)
    }

    /// The rule by which `name` is written: of several, the one that the head asks for, or else the first.
    fn rule(&self, name: &str) -> Option<&Rule> {
        let of_head = name.starts_with("head.") || name.starts_with("pooler.");
        let fits = |rule: &&Rule| rule.theirs(name).is_some_and(|theirs| !of_head || self.head_fits(&theirs));
        self.family.rules.iter().find(fits)
    }

    /// Whether a tensor `theirs` can belong to the head that there is.
    fn head_fits(&self, theirs: &str) -> bool {
        let formula = &self.family.formula;
        let begins = |start: &str| theirs.starts_with(start);
        let pair = formula.source.is_some() && formula.target.is_some();
        let classes = match formula.head {
            Head::Classes { .. } if pair => begins("classification_head"),
            Head::Classes { .. } if formula.target.is_some() => begins("score"),
            Head::Classes { .. } | Head::Tags { .. } => begins("classifier") || begins("pre_classifier"),
            Head::Spans => begins("qa_outputs"),
            Head::Rows | Head::Words { .. } | Head::Adaptive { .. } => false,
        };
        let labelled = ["score", "classifier", "pre_classifier", "qa_outputs", "classification_head"];
        // A bias over words has two names, and the older is the one that every program knows.
        let second_name = theirs.ends_with(".decoder.bias");
        classes
            || !labelled.iter().any(|start| begins(start))
                && !second_name
                && (matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. }) || begins("pooler"))
    }

    /// A name with the family's prefix, which heads do not have.
    fn full(&self, theirs: &str) -> String {
        const HEADS: [&str; 9] = [
            "cls.",
            "lm_head",
            "final_logits_bias",
            "classifier",
            "pre_classifier",
            "qa_outputs",
            "score",
            "classification_head",
            "predictions",
        ];
        let head = HEADS.iter().any(|start| theirs.starts_with(start));
        let prefix = if head { "" } else { self.family.prefixes.first().copied().unwrap_or_default() };
        format!("{prefix}{theirs}")
    }
}

/// What `formula` is for texts without padding. Texts here never have any; what is written will leave it out where others add it.
fn unpadded(formula: &Formula) -> Formula {
    let mut formula = formula.clone();
    if let Some(pooler) = &mut formula.pooler
        && let Pool::LastBut(_) = pooler.pool
    {
        pooler.pool = Pool::Last;
    }
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        if let Position::Sinusoidal { counting, .. } | Position::Learned { counting, .. } =
            &mut side.stack.position
        {
            *counting = Counting::Every;
        }
    }
    formula
}

/// What the reference's classes for a `model_type` begin with.
fn class(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "albert" => "Albert",
        "bart" => "Bart",
        "bert" => "Bert",
        "camembert" => "Camembert",
        "distilbert" => "DistilBert",
        "electra" => "Electra",
        "gpt2" => "GPT2",
        "gpt_neox" => "GPTNeoX",
        "llama" => "Llama",
        "longformer" => "Longformer",
        "mistral" => "Mistral",
        "modernbert" => "ModernBert",
        "mpnet" => "MPNet",
        "qwen2" => "Qwen2",
        "qwen3" => "Qwen3",
        "roberta" => "Roberta",
        "xlm-roberta" => "XLMRoberta",
        _ => return None,
    })
}

/// Parts of one tensor put together, the other way round than they were taken out.
fn join(mut parts: Vec<(How, Tensor)>) -> Option<Tensor> {
    let place = |how: &How| match *how {
        How::Part { part, .. } | How::TransposedPart { part, .. } | How::HeadPart { part, .. } => part,
        How::Rows { from, .. } => from,
        How::Same
        | How::Transposed
        | How::Flattened
        | How::PlusOne
        | How::RowMore(_)
        | How::Noughts
        | How::NoughtsThen(_) => 0,
    };
    parts.sort_by_key(|(how, _)| place(how));
    let (how, first) = parts.first()?;
    match *how {
        How::Same if parts.len() == 1 => Some(parts.remove(0).1),
        How::PlusOne if parts.len() == 1 => {
            let mut tensor = parts.remove(0).1;
            tensor.data_mut().iter_mut().for_each(|x| *x -= 1.0);
            Some(tensor)
        }
        How::Transposed => transposed(first),
        How::Part { of, .. } if parts.len() == of => stacked(&parts),
        How::Rows { .. } => stacked(&parts),
        How::TransposedPart { of, .. } if parts.len() == of => {
            let all = stacked(&parts)?;
            if all.shape().len() == 1 { Some(all) } else { transposed(&all) }
        }
        How::HeadPart { heads, of, .. } if parts.len() == of => interleaved(&parts, heads),
        How::Same
        | How::PlusOne
        | How::Part { .. }
        | How::TransposedPart { .. }
        | How::HeadPart { .. }
        | How::Flattened
        | How::RowMore(_)
        | How::Noughts
        | How::NoughtsThen(_) => None,
    }
}

/// All parts, one below the other.
fn stacked(parts: &[(How, Tensor)]) -> Option<Tensor> {
    let mut shape = parts.first()?.1.shape().to_vec();
    shape[0] = parts.iter().map(|(_, tensor)| tensor.shape()[0]).sum();
    Tensor::new(&shape, parts.iter().flat_map(|(_, tensor)| tensor.data().iter().copied()).collect())
}

fn transposed(tensor: &Tensor) -> Option<Tensor> {
    let [rows, columns] = *tensor.shape() else { return None };
    let data = tensor.data();
    let turned = (0..columns).flat_map(|column| (0..rows).map(move |row| data[row * columns + column]));
    Tensor::new(&[columns, rows], turned.collect())
}

/// The rows of each head of each part in turn.
fn interleaved(parts: &[(How, Tensor)], heads: usize) -> Option<Tensor> {
    let size = parts.first()?.1.data().len() / heads;
    let head = |head: usize| {
        parts.iter().flat_map(move |(_, tensor)| &tensor.data()[head * size..(head + 1) * size])
    };
    let mut shape = parts.first()?.1.shape().to_vec();
    shape[0] *= parts.len();
    Tensor::new(&shape, (0..heads).flat_map(head).copied().collect())
}

/// A vector as a matrix of one row.
fn row(tensor: Tensor) -> Tensor {
    let shape = [1, tensor.data().len()];
    Tensor::new(&shape, tensor.data().to_vec()).unwrap_or(tensor)
}

/// Configurations that may describe `formula`; the one that reads back as it does.
fn candidates(formula: &Formula) -> Vec<Map<String, Value>> {
    let list = match (&formula.source, &formula.target) {
        (Some(source), Some(target)) => pair(formula, source, target),
        (None, Some(target)) => decoder(formula, target),
        (Some(source), None) => encoder(formula, source),
        (None, None) => None,
    };
    let object = |value: Value| if let Value::Object(map) = value { Some(map) } else { None };
    list.unwrap_or_default().into_iter().filter_map(object).collect()
}

/// What a stack says, in plain numbers.
struct Facts {
    width: usize,
    layers: usize,
    query: usize,
    key: usize,
    size: usize,
    hidden: usize,
    act: &'static str,
    norm: Norm,
    vocabulary: usize,
    scaled: bool,
    types: Option<usize>,
    max: usize,
}

impl Facts {
    fn of(side: &Side) -> Option<Self> {
        let stack = &side.stack;
        let Depth::Layers(layers) = stack.depth else { return None };
        let Input::Tokens(tokens) = &side.input else { return None };
        let attention = stack.block.iter().find_map(|sublayer| match &sublayer.mix {
            Mix::Attend(attention) => Some(attention),
            Mix::Feed(_) => None,
        })?;
        let (hidden, act) = stack.block.iter().find_map(|sublayer| match sublayer.mix {
            Mix::Feed(FeedForward::Plain { hidden, act, .. } | FeedForward::Gated { hidden, act, .. }) => {
                Some((hidden, act))
            }
            Mix::Attend(_) => None,
        })?;
        let sites = stack.block.first()?.norm;
        let max = match stack.position {
            Position::Learned { max, .. } => max,
            _ => 1024,
        };
        Some(Self {
            width: stack.width,
            layers,
            query: attention.heads.query,
            key: attention.heads.key,
            size: attention.heads.size,
            hidden,
            act: activation(act),
            norm: sites.output.or(sites.input).or(sites.branch)?,
            vocabulary: tokens.vocabulary,
            scaled: tokens.scale == InputScale::RootWidth,
            types: tokens.types,
            max,
        })
    }

    fn epsilon(&self) -> f64 {
        let (Norm::Layer { epsilon, .. } | Norm::Rms { epsilon }) = self.norm;
        // The shortest decimal that is this number, not all the digits of its binary form.
        epsilon.to_string().parse().unwrap_or_else(|_| f64::from(epsilon))
    }
}

fn activation(act: Activation) -> &'static str {
    match act {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
        Activation::Silu => "silu",
        Activation::Tanh => "tanh",
        Activation::Sigmoid => "sigmoid",
    }
}

fn tied(formula: &Formula) -> bool {
    matches!(formula.head, Head::Words { tied: true, .. })
}

/// How many labels a head has.
fn labels(formula: &Formula) -> usize {
    match formula.head {
        Head::Classes { count, .. } | Head::Tags { count, .. } => count,
        Head::Rows | Head::Words { .. } | Head::Adaptive { .. } | Head::Spans => 2,
    }
}

/// The end of an architecture's name, where words are `words`.
fn end(formula: &Formula, words: &'static str) -> &'static str {
    match formula.head {
        Head::Words { .. } | Head::Adaptive { .. } => words,
        Head::Classes { .. } => "ForSequenceClassification",
        Head::Tags { .. } => "ForTokenClassification",
        Head::Spans => "ForQuestionAnswering",
        Head::Rows => "Model",
    }
}

fn pair(formula: &Formula, source: &Side, target: &Side) -> Option<Vec<Value>> {
    let (from, to) = (Facts::of(source)?, Facts::of(target)?);
    let kinds = [
        ("marian", "MarianMTModel"),
        ("pegasus", "PegasusForConditionalGeneration"),
        ("bart", "BartForConditionalGeneration"),
        ("mbart", "MBartForConditionalGeneration"),
        ("m2m_100", "M2M100ForConditionalGeneration"),
    ];
    let config = |(kind, name): (&str, &str)| {
        json!({
            "model_type": kind, "architectures": [name], "is_encoder_decoder": true,
            "vocab_size": from.vocabulary, "d_model": from.width,
            "encoder_layers": from.layers, "decoder_layers": to.layers,
            "encoder_attention_heads": from.query, "decoder_attention_heads": to.query,
            "encoder_ffn_dim": from.hidden, "decoder_ffn_dim": to.hidden,
            "activation_function": from.act, "scale_embedding": from.scaled,
            "max_position_embeddings": from.max, "tie_word_embeddings": tied(formula),
        })
    };
    Some(kinds.map(config).into())
}

fn decoder(formula: &Formula, target: &Side) -> Option<Vec<Value>> {
    let facts = Facts::of(target)?;
    let gpt2 = json!({
        "model_type": "gpt2", "architectures": [format!("GPT2{}", end(formula, "LMHeadModel"))],
        "vocab_size": facts.vocabulary, "n_embd": facts.width, "n_layer": facts.layers, "n_head": facts.query,
        "n_inner": facts.hidden, "n_positions": facts.max, "activation_function": facts.act,
        "layer_norm_epsilon": facts.epsilon(), "tie_word_embeddings": tied(formula), "num_labels": labels(formula),
    });
    let rotary = |kind: &str, class: &str| {
        let mut config = json!({
            "model_type": kind, "architectures": [format!("{class}{}", end(formula, "ForCausalLM"))],
            "vocab_size": facts.vocabulary, "hidden_size": facts.width, "num_hidden_layers": facts.layers,
            "num_attention_heads": facts.query, "num_key_value_heads": facts.key, "head_dim": facts.size,
            "intermediate_size": facts.hidden, "hidden_act": facts.act, "rms_norm_eps": facts.epsilon(),
            "max_position_embeddings": facts.max, "tie_word_embeddings": tied(formula), "num_labels": labels(formula),
        });
        if let Position::Rotary(rotary) = &target.stack.position {
            config["rope_theta"] = json!(rotary.base);
        }
        config
    };
    Some(vec![gpt2, rotary("llama", "Llama"), rotary("qwen2", "Qwen2")])
}

fn encoder(formula: &Formula, source: &Side) -> Option<Vec<Value>> {
    let facts = Facts::of(source)?;
    let config = |kind: &str, class: &str| {
        json!({
            "model_type": kind, "architectures": [format!("{class}{}", end(formula, "ForMaskedLM"))],
            "vocab_size": facts.vocabulary, "hidden_size": facts.width, "num_hidden_layers": facts.layers,
            "num_attention_heads": facts.query, "intermediate_size": facts.hidden, "hidden_act": facts.act,
            "layer_norm_eps": facts.epsilon(), "max_position_embeddings": facts.max,
            "type_vocab_size": facts.types.unwrap_or(2), "num_labels": labels(formula),
        })
    };
    Some(vec![config("bert", "Bert"), config("electra", "Electra")])
}
