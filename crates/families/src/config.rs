//! `config.json`, read key by key, so that what nobody read can be refused.

use std::cell::RefCell;
use std::collections::BTreeSet;

use glassformer_formula::check::limits;
use serde_json::{Map, Value};

use crate::Error;

/// A configuration that remembers which of its keys were read.
#[derive(Debug)]
pub struct Config {
    keys: Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

/// Keys that cannot change the result of a forward pass, whatever they say.
const HARMLESS: &[&str] = &[
    "_name_or_path",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "add_bos_token",
    "add_cross_attention",
    "adapters",
    "architectures",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classif_dropout",
    "cls_token_id",
    "condition_on_chain",
    "condition_on_species",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "eos_token_ids",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "force_bos_token_to_be_generated",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "init_std",
    "is_encoder_decoder",
    "is_llama_config",
    "keys_to_ignore_at_inference",
    "label2id",
    "language",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "min_length",
    "model_type",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "predict_special_tokens",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "uniem_embedding_strategy",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "xla_device",
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "n_positions",
    "max_position_embeddings",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "gen_head",
    "save_step",
    "sbert_ce_default_activation_function",
    "sentence_transformers",
    "static_position_embeddings",
    "extra_pos_embeddings",
    "_num_labels",
    "num_hidden_layers",
    "reorder_and_upcast_attn",
    "sequence_classif_dropout",
    "tie_encoder_decoder",
    "vocab_size",
];

impl Config {
    /// The configuration in `text`.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::File { path: "config.json".into(), why };
        match serde_json::from_str(text) {
            Ok(Value::Object(keys)) => Ok(Self::of(keys)),
            Ok(_) => Err(bad("is not a JSON object".into())),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// The configuration of these keys.
    pub(crate) fn of(keys: Map<String, Value>) -> Self {
        Self { keys, read: RefCell::default() }
    }

    /// The same configuration without a head: the rows are the result.
    pub(crate) fn without_head(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.remove("architectures");
        Self::of(keys)
    }

    /// The value of `key`, marked as read; nothing for null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.read.borrow_mut().insert(key.to_owned());
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Whether `key` is there, be it null: what is missing may mean something else.
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    fn wrong(key: &str, found: &Value, wanted: &str) -> Error {
        let mut shown = found.to_string();
        shown.truncate(shown.char_indices().nth(60).map_or(shown.len(), |(at, _)| at));
        Error::Key { key: key.to_owned(), why: format!("is {shown}, and should be {wanted}") }
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    /// If it is missing or not a whole number.
    pub fn size(&self, key: &str) -> Result<usize, Error> {
        self.optional_size(key)?.ok_or_else(|| Error::Key { key: key.to_owned(), why: "is missing".into() })
    }

    /// A whole number that must be there, as `key` or under the other name that the reference has for it, which wins there.
    ///
    /// # Errors
    /// If both are missing, or what counts is not a whole number.
    pub fn size_named(&self, key: &str, other: &str) -> Result<usize, Error> {
        let _ = self.get(key); // read, whichever counts
        match self.optional_size(other)? {
            Some(size) => Ok(size),
            None => self.size(key),
        }
    }

    /// A number of layers, low enough that they can be counted out one by one.
    ///
    /// # Errors
    /// If it is missing, not a whole number, or more than any formula may have.
    pub fn layers(&self, key: &str) -> Result<usize, Error> {
        let layers = self.size(key)?;
        if layers > limits::LAYERS {
            return Err(Self::wrong(key, &layers.into(), &format!("at most {}", limits::LAYERS)));
        }
        Ok(layers)
    }

    /// A whole number, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not a whole number.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize, Error> {
        Ok(self.optional_size(key)?.unwrap_or(default))
    }

    /// A whole number, if it is there.
    ///
    /// # Errors
    /// If it is there and not a whole number.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, Error> {
        let whole = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
        match self.get(key) {
            None => Ok(None),
            Some(value) => whole(value).map(Some).ok_or_else(|| Self::wrong(key, value, "a whole number")),
        }
    }

    /// A number, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not a number.
    pub fn float_or(&self, key: &str, default: f64) -> Result<f64, Error> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_f64().ok_or_else(|| Self::wrong(key, value, "a number")),
        }
    }

    /// True or false, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and neither.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| Self::wrong(key, value, "true or false")),
        }
    }

    /// Text, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not text.
    pub fn text_or<'a>(&'a self, key: &str, default: &'a str) -> Result<&'a str, Error> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.as_str().ok_or_else(|| Self::wrong(key, value, "text")),
        }
    }

    /// Demands that `key`, if it is there, is one of `allowed`: other values would need code that is not there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn only(&self, key: &str, allowed: &[Value]) -> Result<(), Error> {
        match self.get(key) {
            Some(value) if !allowed.contains(value) => {
                let list = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
                Err(Self::wrong(key, value, &format!("{list}: nothing else is supported")))
            }
            _ => Ok(()),
        }
    }

    /// The first name in `architectures`, such as `BertForMaskedLM`.
    pub fn architecture(&self) -> &str {
        let names = self.get("architectures").and_then(Value::as_array);
        names.and_then(|names| names.first()).and_then(Value::as_str).unwrap_or("")
    }

    /// How many labels a classifier has: as many as `id2label` names, `num_labels`, or the reference's own: three for BART, which
    /// tells entailment, and else two.
    pub fn labels(&self) -> usize {
        let named = self.get("id2label").and_then(Value::as_object).map(Map::len);
        let counted = || self.get("num_labels").and_then(Value::as_u64).map(|n| n as usize);
        let usual = if self.get("model_type").is_some_and(|kind| kind == "bart") { 3 } else { 2 };
        named.or_else(counted).unwrap_or(usual)
    }

    /// The names of `count` labels, in order; `LABEL_0`… where they have none.
    pub fn label_names(&self, count: usize) -> Vec<String> {
        let named = self.get("id2label").and_then(Value::as_object);
        let name = |i: usize| {
            let given = named.and_then(|names| names.get(&i.to_string())).and_then(Value::as_str);
            given.map_or_else(|| format!("LABEL_{i}"), str::to_owned)
        };
        (0..count).map(name).collect()
    }

    /// All keys.
    pub fn into_keys(self) -> Map<String, Value> {
        self.keys
    }

    /// Refuses keys that nobody read and that are not known to be harmless. Dropout is harmless: nothing is left out here; null
    /// says nothing.
    ///
    /// # Errors
    /// All such keys.
    pub fn finish(&self) -> Result<(), Error> {
        let read = self.read.borrow();
        let harmless = |key: &str| {
            HARMLESS.contains(&key)
                || key.contains("dropout")
                || key.ends_with("pdrop")
                || key.ends_with("_drop")
                || key.starts_with("layerdrop")
                || key.ends_with("layerdrop")
        };
        let says =
            |(key, value): &(&String, &Value)| !value.is_null() && !read.contains(*key) && !harmless(key);
        let unread: Vec<String> = self.keys.iter().filter(says).map(|(key, _)| key.clone()).collect();
        if unread.is_empty() { Ok(()) } else { Err(Error::Unread(unread)) }
    }
}

/// What the reference takes for `max_position_embeddings` where a configuration of `kind` has none.
pub(crate) fn usual_positions(kind: &str) -> Option<usize> {
    match kind {
        "bart" | "gpt2" | "m2m_100" | "marian" | "mbart" | "pegasus" => Some(1024),
        "gpt_neox" | "llama" => Some(2048),
        "gemma" | "gemma2" => Some(8192),
        "qwen2" | "qwen3" => Some(32_768),
        "mistral" => Some(131_072),
        _ => None,
    }
}
