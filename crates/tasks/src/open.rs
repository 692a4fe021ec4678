//! A model at a path, whatever it is: a folder of ours, of a model hub, of CTranslate2, or a file.

use std::path::Path;
use std::sync::Arc;

use glassformer_engine::Sequence;
use glassformer_families::{self as families, Checkpoint};
use glassformer_formula::Head;
use glassformer_tokens::{ChatTemplate, Tokenizer};
use glassformer_weights::{Format, Gguf, Weights};

use crate::{Error, gguf};

/// Opens the model at `path`.
///
/// # Errors
/// If a file cannot be read or is not understood, or tensors do not fit.
pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, Error> {
    let path = path.as_ref();
    let has_formula = path.join("formula.toml").exists();
    Ok(if has_formula { families::open_formula(path)? } else { families::open(path)? })
}

/// Opens the tokenizer of the model at `path`.
///
/// # Errors
/// If there is none, or it is not understood.
pub fn tokenizer(path: impl AsRef<Path>) -> Result<Tokenizer, Error> {
    let path = path.as_ref();
    match in_file(path)? {
        Some(file) => Ok(Tokenizer::from_gguf(&gguf::vocabulary(&file))?),
        None => Ok(Tokenizer::open(path)?),
    }
}

/// The chat templates of the model at `path`, where it has some.
///
/// # Errors
/// If a template does not parse.
pub fn chat_template(path: impl AsRef<Path>, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, Error> {
    let path = path.as_ref();
    let Some(file) = in_file(path)? else { return Ok(ChatTemplate::open(path)?) };
    let Some(text) = file.string("tokenizer.chat_template") else { return Ok(None) };
    let special = tokenizer.special();
    let named = [("bos_token", special.bos), ("eos_token", special.eos), ("pad_token", special.pad)];
    let with = |template: ChatTemplate, (name, id): (&str, Option<u32>)| match id
        .and_then(|id| tokenizer.token(id))
    {
        Some(text) => template.with_token(name, text),
        None => template,
    };
    Ok(Some(named.into_iter().fold(ChatTemplate::new(text)?, with)))
}

/// The GGUF file that says everything, where the model is one, alone or in its folder.
fn in_file(path: &Path) -> Result<Option<Arc<Gguf>>, Error> {
    if path.is_dir() && path.join("config.json").exists() {
        return Ok(None);
    }
    match Weights::open(path).map_err(families::Error::from)?.format() {
        Format::Gguf(file) => Ok(Some(file.clone())),
        Format::Memory | Format::Safetensors | Format::Torch | Format::Ctranslate2(_) => Ok(None),
    }
}

/// Fills in what a model's files say of a sequence and the user left out: rows that see all, and what the decoder of a
/// model that classifies or answers reads, which is the source behind the start token. Classes are read off the row of the last
/// end token, and rows after it are seen by none before it: so they are left out.
///
/// # Errors
/// If classes are asked for and the source has no end token; all its rows are filled in then.
pub fn complete(sequence: &mut Sequence, checkpoint: &Checkpoint) -> Result<(), Error> {
    let formula = checkpoint.model.formula();
    if sequence.global.is_empty() {
        let rows = sequence.source.len();
        sequence.global = checkpoint.global.iter().copied().filter(|&place| place < rows).collect();
    }
    let both = formula.source.is_some() && formula.target.is_some();
    if both && sequence.target.is_empty() && matches!(formula.head, Head::Classes { .. } | Head::Spans) {
        sequence.target = checkpoint.shifted(&sequence.source);
        if let (Head::Classes { .. }, Some(end)) = (&formula.head, checkpoint.end()) {
            let last = sequence.source.iter().rposition(|&id| id == end);
            let Some(last) = last else {
                let what = format!("has no end token (id {end}), at which this model reads off classes");
                let hint = "end it with that token, as the model's tokenizer does".to_owned();
                return Err(Error::Text { text: 0, what, hint });
            };
            sequence.target.truncate(last + 1);
        }
    }
    Ok(())
}
