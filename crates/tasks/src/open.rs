//! A model at a path, whatever it is: a folder of ours, of a model hub, of CTranslate2, or a file.

use std::path::Path;

use glassformer_engine::Sequence;
use glassformer_families::{self as families, Checkpoint};
use glassformer_formula::Head;
use glassformer_model::Model;
use glassformer_tokens::Tokenizer;

use crate::Error;

/// Opens the model at `path`.
///
/// # Errors
/// If a file cannot be read or is not understood, or tensors do not fit.
pub fn open(path: &Path) -> Result<Checkpoint, Error> {
    if !path.join("formula.toml").exists() {
        return Ok(families::open(path)?);
    }
    let model = Model::open(path).map_err(families::Error::from)?;
    Ok(Checkpoint::plain(model))
}

/// Opens the tokenizer of the model at `path`.
///
/// # Errors
/// If there is none, or it is not understood.
pub fn tokenizer(path: &Path) -> Result<Tokenizer, Error> {
    Ok(Tokenizer::open(path)?)
}

/// Fills in what a model's files say of a sequence and the user left out: rows that see all, and what the decoder of a
/// classifier reads, which is the source behind the start token.
pub fn complete(sequence: &mut Sequence, checkpoint: &Checkpoint) {
    let formula = checkpoint.model.formula();
    if sequence.global.is_empty() {
        let rows = sequence.source.len();
        sequence.global = checkpoint.global.iter().copied().filter(|&place| place < rows).collect();
    }
    let both = formula.source.is_some() && formula.target.is_some();
    if both && sequence.target.is_empty() && matches!(formula.head, Head::Classes { .. }) {
        let start = checkpoint.config.get("decoder_start_token_id").and_then(serde_json::Value::as_u64);
        let shifted = start.into_iter().map(|id| id as u32).chain(sequence.source.iter().copied());
        sequence.target = shifted.take(sequence.source.len()).collect();
    }
}
