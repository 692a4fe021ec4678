//! What a checkpoint says about generating: `generation_config.json`, or the keys that older ones keep in `config.json`.
//!
//! Which file counts, and what a missing key means, is as Hugging Face transformers 5.22.2 has it. This is data alone; what
//! the options do is known to who generates.

use std::path::Path;

use serde_json::{Map, Value};

use crate::Error;
use crate::open::read_text;
use crate::reference;

/// What a checkpoint's files say about generating, by the reference's names; nothing where they say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    keys: Map<String, Value>,
    /// How long a text may be where no length is given (`max_position_embeddings`).
    pub positions: Option<usize>,
}

/// Keys with a meaning here.
const KNOWN: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "encoder_repetition_penalty",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "guidance_scale",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "min_p",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "pad_token_id",
    "remove_invalid_values",
    "renormalize_logits",
    "repetition_penalty",
    "sequence_bias",
    "stop_strings",
    "suppress_tokens",
    "temperature",
    "top_h",
    "top_k",
    "top_p",
    "typical_p",
];

/// Keys that change how fast a text is written, what is told about it, or what only one task asks for, but not the tokens.
const HARMLESS: &[&str] = &[
    "_commit_hash",
    "_from_model_config",
    "alignment_heads",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "cache_config",
    "compile_config",
    "disable_compile",
    "forced_decoder_ids",
    "is_assistant",
    "is_multilingual",
    "lang_to_id",
    "language",
    "low_memory",
    "max_cache_len",
    "max_initial_timestamp_index",
    "max_matching_ngram_size",
    "median_filter_width",
    "no_timestamps_token_id",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "prev_sot_token_id",
    "prompt_lookup_num_tokens",
    "return_dict_in_generate",
    "return_timestamps",
    "target_lookbehind",
    "task",
    "task_to_id",
    "transformers_version",
    "use_cache",
    "use_mtp",
];

/// What a checkpoint at `path` with the configuration `config` says about generating. The configuration is not asked where
/// there is a file for generating: a key that this one lacks is then unset.
///
/// # Errors
/// If a file cannot be read, or a key may change results and is not understood.
pub fn generation(path: impl AsRef<Path>, config: &Map<String, Value>) -> Result<Generation, Error> {
    let path = path.as_ref();
    let own = "generation_config.json";
    if path.join(own).exists() {
        return Generation::of(own, object(&path.join(own))?, config);
    }
    Generation::of("config.json", legacy(config), config)
}

impl Generation {
    /// What the text of a `generation_config.json` says about a checkpoint with the configuration `config`.
    ///
    /// # Errors
    /// If it is no JSON object, or a key may change results and is not understood.
    pub fn parse(text: &str, config: &Map<String, Value>) -> Result<Self, Error> {
        let file = "generation_config.json";
        let bad = |error: serde_json::Error| Error::File { path: file.to_owned(), why: error.to_string() };
        Self::of(file, serde_json::from_str(text).map_err(bad)?, config)
    }

    /// What `keys`, which stand in `file`, say.
    fn of(file: &str, keys: Map<String, Value>, config: &Map<String, Value>) -> Result<Self, Error> {
        let mut generation = Self { positions: positions(config), ..Self::default() };
        generation.put(keys).map_err(|keys| Error::Options { file: file.to_owned(), keys })?;
        Ok(generation)
    }

    /// Adds options by the reference's names; they win over what is there, and null unsets.
    ///
    /// # Errors
    /// All keys that are not known.
    pub fn set(&mut self, options: Map<String, Value>) -> Result<(), Error> {
        self.put(options).map_err(|keys| Error::Options { file: "the options".to_owned(), keys })
    }

    fn put(&mut self, keys: Map<String, Value>) -> Result<(), Vec<String>> {
        let unknown: Vec<String> = keys.iter().filter(changes).map(|(key, _)| key.clone()).collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        self.keys.extend(keys.into_iter().filter(|(key, _)| KNOWN.contains(&key.as_str())));
        Ok(())
    }

    /// The value of `key`; nothing for null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        debug_assert!(KNOWN.contains(&key), "{key} is not among the known keys");
        self.keys.get(key).filter(|value| !value.is_null())
    }
}

/// Whether `key` is about generating: it does not change a forward pass.
pub(crate) fn is_known(key: &str) -> bool {
    KNOWN.contains(&key) || HARMLESS.contains(&key)
}

/// Whether a key may change results and is not understood.
fn changes((key, value): &(&String, &Value)) -> bool {
    let unset = value.is_null() || **value == Value::Bool(false);
    match key.as_str() {
        _ if unset => false,
        // A cache of another kind holds the same numbers, unless it rounds them.
        "cache_implementation" => value.as_str() == Some("quantized"),
        "penalty_alpha" => value.as_f64() != Some(0.0),
        key => !KNOWN.contains(&key) && !HARMLESS.contains(&key),
    }
}

/// The keys about generating of a `config.json`, the decoder's own where the outer ones say nothing.
fn legacy(config: &Map<String, Value>) -> Map<String, Value> {
    let inner =
        ["decoder", "generator", "text_config"].iter().find_map(|name| config.get(*name)?.as_object());
    let wanted = |key: &&&str| config.get(**key).is_some_and(|value| !value.is_null());
    let mut keys: Map<String, Value> = Map::new();
    if let Some(inner) = inner {
        let known = KNOWN.iter().filter_map(|key| Some(((*key).to_owned(), inner.get(*key)?.clone())));
        keys.extend(known);
    }
    keys.extend(KNOWN.iter().filter(wanted).map(|key| ((*key).to_owned(), config[*key].clone())));
    if config.get("force_bos_token_to_be_generated") == Some(&Value::Bool(true))
        && let Some(first) = keys.get("bos_token_id").cloned()
    {
        keys.insert("forced_bos_token_id".to_owned(), first);
    }
    keys
}

/// `max_position_embeddings`, or what the reference takes for it where the file has none.
fn positions(config: &Map<String, Value>) -> Option<usize> {
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("");
    let size = |key: &str| config.get(key).and_then(Value::as_u64).map(|n| n as usize);
    let given = size("max_position_embeddings").or_else(|| size("n_positions").filter(|_| kind == "gpt2"));
    given.or_else(|| reference::positions(kind))
}

fn object(path: &Path) -> Result<Map<String, Value>, Error> {
    let bad = |why: String| Error::File { path: path.display().to_string(), why };
    match serde_json::from_str(&read_text(path)?) {
        Ok(Value::Object(keys)) => Ok(keys),
        Ok(_) => Err(bad("is not a JSON object".into())),
        Err(error) => Err(bad(error.to_string())),
    }
}
