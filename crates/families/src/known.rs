//! The architectures that are known, and who reads each.

use serde_json::json;
use strsim::levenshtein;

use crate::{Config, Error, Family};

/// Reads a configuration of one `model_type`.
pub(crate) type Read = fn(&Config) -> Result<Family, Error>;

/// Every `model_type` that is known, with who reads it.
const FAMILIES: &[(&str, Read)] = &[
    ("albert", crate::albert::albert),
    ("bart", crate::bart::bart),
    ("bert", crate::bert::bert),
    ("camembert", crate::roberta::roberta),
    ("distilbert", crate::distilbert::distilbert),
    ("electra", crate::electra::electra),
    ("gemma", crate::llama::gemma),
    ("gpt2", crate::gpt2::gpt2),
    ("gpt_neox", crate::gpt_neox::gpt_neox),
    ("llama", crate::llama::llama),
    ("longformer", crate::longformer::longformer),
    ("m2m_100", crate::bart::m2m_100),
    ("marian", crate::bart::marian),
    ("mbart", crate::bart::mbart),
    ("mistral", crate::llama::mistral),
    ("modernbert", crate::modernbert::modernbert),
    ("mpnet", crate::mpnet::mpnet),
    ("mt5", crate::t5::t5),
    ("pegasus", crate::bart::pegasus),
    ("qwen2", crate::llama::qwen2),
    ("qwen3", crate::llama::qwen3),
    ("roberta", crate::roberta::roberta),
    ("t5", crate::t5::t5),
    ("transfo-xl", crate::transfo_xl::transfo_xl),
    ("xlm-roberta", crate::roberta::roberta),
];

/// The names of all known model types.
pub fn known() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// What `config` describes; keys that may change results and that nobody read are refused.
///
/// # Errors
/// If the architecture is not known, or a key is missing, wrong or not understood.
pub(crate) fn read(config: &Config) -> Result<Family, Error> {
    let name = config.text("model_type")?;
    let Some((_, read)) = FAMILIES.iter().find(|(known, _)| *known == name) else {
        return Err(unknown(known(), name));
    };
    let family = read(config)?;
    if family.formula.source.is_some() {
        config.only("is_decoder", &[json!(false)])?; // an encoder with a mask, which no checkpoint has
    } else {
        config.get("is_decoder"); // what has no encoder is one, whatever this says
    }
    config.finish()?;
    Ok(family)
}

/// The error for an architecture that is none of `known`.
pub(crate) fn unknown<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Error {
    Error::Unknown { name: name.to_owned(), nearest: nearest(known, name).map(str::to_owned) }
}

/// The one of `known` most like `name`, if it is like it: at most a third of the letters differ.
pub fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect(); // a file may call itself anything
    let all = known.map(|known| (levenshtein(known, &name), known));
    let (letters, best) = all.min_by_key(|(letters, _)| *letters)?;
    (3 * letters <= best.chars().count().max(name.chars().count())).then_some(best)
}
