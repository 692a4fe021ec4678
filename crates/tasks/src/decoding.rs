//! What a model's files say about generating, as the engine's options.

use std::path::Path;

use glassformer_engine::{Decoding, EarlyStopping, Sampling};
use glassformer_families::{Checkpoint, Generation, generation};
use serde_json::Value;

use crate::Error;

/// How the checkpoint at `path` generates unless the user says otherwise: as its `generation_config.json` says, or its
/// configuration; where neither says anything, the most likely token at each step.
///
/// # Errors
/// If a file cannot be read, or says something that may change results and is not understood.
pub fn decoding(path: impl AsRef<Path>, checkpoint: &Checkpoint) -> Result<Decoding, Error> {
    let path = path.as_ref();
    decoding_of(&generation(path, &checkpoint.config)?, checkpoint)
}

/// The same of what is said about generating.
pub(crate) fn decoding_of(given: &Generation, checkpoint: &Checkpoint) -> Result<Decoding, Error> {
    let mut decoding = read(given)?;
    let target = checkpoint.model.formula().target.as_ref();
    decoding.positions = decoding.positions.or(target.and_then(|side| side.stack.position.count()));
    Ok(decoding)
}

/// The options that `given` says; the reference's defaults for all others.
///
/// # Errors
/// If a value is of another type than its key's.
pub fn read(given: &Generation) -> Result<Decoding, Error> {
    let keys = Keys(given);
    let plain = Decoding::default();
    let end = keys.ids("eos_token_id")?;
    let number = |key, default| Ok::<_, Error>(keys.number(key)?.unwrap_or(default));
    let whole = |key, default| Ok::<_, Error>(keys.whole(key)?.unwrap_or(default));
    Ok(Decoding {
        max_new_tokens: keys.whole("max_new_tokens")?,
        max_length: keys.whole("max_length")?,
        min_new_tokens: keys.whole("min_new_tokens")?,
        min_length: whole("min_length", plain.min_length)?,
        positions: given.positions,
        beams: whole("num_beams", plain.beams)?,
        length_penalty: number("length_penalty", plain.length_penalty)?,
        early_stopping: keys.early_stopping()?,
        groups: whole("num_beam_groups", plain.groups)?,
        diversity_penalty: number("diversity_penalty", plain.diversity_penalty)?,
        returns: whole("num_return_sequences", plain.returns)?,
        sampling: if keys.flag("do_sample")? { Some(keys.sampling()?) } else { None },
        guidance: number("guidance_scale", plain.guidance)?,
        repetition_penalty: number("repetition_penalty", plain.repetition_penalty)?,
        encoder_repetition_penalty: number("encoder_repetition_penalty", plain.encoder_repetition_penalty)?,
        presence_penalty: plain.presence_penalty,
        frequency_penalty: plain.frequency_penalty,
        no_repeat_ngram: whole("no_repeat_ngram_size", plain.no_repeat_ngram)?,
        encoder_no_repeat_ngram: whole("encoder_no_repeat_ngram_size", plain.encoder_no_repeat_ngram)?,
        bad_words: keys.runs("bad_words_ids")?,
        sequence_bias: keys.biases()?,
        suppress: keys.ids("suppress_tokens")?,
        begin_suppress: keys.ids("begin_suppress_tokens")?,
        forced_first: keys.id("forced_bos_token_id")?,
        forced_last: keys.ids("forced_eos_token_id")?,
        length_decay: keys.length_decay()?,
        renormalize: keys.flag("renormalize_logits")?,
        remove_invalid: keys.flag("remove_invalid_values")?,
        start: keys.id("decoder_start_token_id")?.or(keys.id("bos_token_id")?),
        pad: keys.id("pad_token_id")?.or(end.first().copied()),
        end,
        stop: Vec::new(),
        logprobs: None,
        draft: plain.draft,
    })
}

/// The texts that end a text, where the files name some; who has a tokenizer looks for them.
///
/// # Errors
/// If they are not texts.
pub fn stop_strings(given: &Generation) -> Result<Vec<String>, Error> {
    let key = "stop_strings";
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(key, value, "text"));
    match given.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(value) => Ok(vec![text(value)?]),
    }
}

fn wrong(option: &'static str, found: &Value, wanted: &str) -> Error {
    let shown: String = found.to_string().chars().take(60).collect();
    let hint = "check generation_config.json".to_owned();
    Error::Option { option, what: format!("is {shown}, and should be {wanted}"), hint }
}

/// An id; nothing for a negative one, which the reference lets never come.
fn id(key: &'static str, value: &Value) -> Result<Option<u32>, Error> {
    match value.as_i64() {
        Some(negative) if negative < 0 => Ok(None),
        Some(id) => u32::try_from(id).map(Some).map_err(|_| wrong(key, value, "a token id")),
        None => Err(wrong(key, value, "a token id")),
    }
}

/// A list of ids.
fn run(key: &'static str, value: &Value) -> Result<Vec<u32>, Error> {
    let list = value.as_array().ok_or_else(|| wrong(key, value, "a list of token ids"))?;
    let one = |value: &Value| id(key, value)?.ok_or_else(|| wrong(key, value, "a token id"));
    list.iter().map(one).collect()
}

/// Typed reading of the keys.
struct Keys<'g>(&'g Generation);

impl Keys<'_> {
    fn get<T>(
        &self,
        key: &'static str,
        wanted: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| wrong(key, value, wanted))
    }

    fn number(&self, key: &'static str) -> Result<Option<f64>, Error> {
        self.get(key, "a number", Value::as_f64)
    }

    fn whole(&self, key: &'static str) -> Result<Option<usize>, Error> {
        self.get(key, "a whole number", |value| value.as_u64().and_then(|n| usize::try_from(n).ok()))
    }

    fn flag(&self, key: &'static str) -> Result<bool, Error> {
        Ok(self.get(key, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    fn id(&self, key: &'static str) -> Result<Option<u32>, Error> {
        self.0.get(key).map_or(Ok(None), |value| id(key, value))
    }

    /// One id or a list.
    fn ids(&self, key: &'static str) -> Result<Vec<u32>, Error> {
        match self.0.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => {
                let ids: Result<Vec<Option<u32>>, Error> = list.iter().map(|value| id(key, value)).collect();
                Ok(ids?.into_iter().flatten().collect())
            }
            Some(value) => Ok(id(key, value)?.into_iter().collect()),
        }
    }

    /// A list of lists of ids.
    fn runs(&self, key: &'static str) -> Result<Vec<Vec<u32>>, Error> {
        let Some(value) = self.0.get(key) else { return Ok(Vec::new()) };
        let runs = value.as_array().ok_or_else(|| wrong(key, value, "a list of lists of token ids"))?;
        runs.iter().map(|value| run(key, value)).collect()
    }

    fn biases(&self) -> Result<Vec<(Vec<u32>, f32)>, Error> {
        let key = "sequence_bias";
        let Some(value) = self.0.get(key) else { return Ok(Vec::new()) };
        let bad = || wrong(key, value, "a list of pairs of token ids and a number");
        let mut biases: Vec<(Vec<u32>, f32)> = Vec::new();
        for pair in value.as_array().ok_or_else(bad)? {
            let run = run(key, pair.get(0).ok_or_else(bad)?)?;
            let bias = pair.get(1).and_then(Value::as_f64).ok_or_else(bad)? as f32;
            // Of two for the same run, the last counts.
            biases.retain(|(other, _)| *other != run);
            biases.push((run, bias));
        }
        Ok(biases)
    }

    fn early_stopping(&self) -> Result<EarlyStopping, Error> {
        let read = |value: &Value| match value {
            Value::Bool(false) => Some(EarlyStopping::Likely),
            Value::Bool(true) => Some(EarlyStopping::Full),
            Value::String(word) if word == "never" => Some(EarlyStopping::Never),
            _ => None,
        };
        Ok(self.get("early_stopping", "true, false or \"never\"", read)?.unwrap_or_default())
    }

    fn length_decay(&self) -> Result<Option<(usize, f64)>, Error> {
        let read = |value: &Value| Some((value.get(0)?.as_u64()? as usize, value.get(1)?.as_f64()?));
        self.get("exponential_decay_length_penalty", "a whole number and a factor", read)
    }

    fn sampling(&self) -> Result<Sampling, Error> {
        let plain = Sampling::default();
        let number = |key, default| Ok::<_, Error>(self.number(key)?.unwrap_or(default));
        Ok(Sampling {
            temperature: number("temperature", plain.temperature)?,
            top_h: self.number("top_h")?,
            top_k: self.whole("top_k")?.unwrap_or(plain.top_k),
            top_p: number("top_p", plain.top_p)?,
            min_p: number("min_p", plain.min_p)?,
            typical_p: number("typical_p", plain.typical_p)?,
            epsilon: number("epsilon_cutoff", plain.epsilon)?,
            eta: number("eta_cutoff", plain.eta)?,
            seed: plain.seed,
        })
    }
}
