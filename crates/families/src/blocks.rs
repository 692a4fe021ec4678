//! Pieces of formulas that several families share.

use glassformer_formula::{
    Activation, Attention, Dense, FeedForward, Head, Heads, Input, InputScale, Mix, Norm, NormSites, Pattern,
    Pool, Pooler, ProjectionBias, Reach, Reads, Scale, Source, Sublayer, Table, Tokens,
};
use serde_json::Value;

use crate::rules::rule;
use crate::{Config, Error, Rule};

/// The activation that a configuration calls `key`.
pub(crate) fn activation(config: &Config, key: &str) -> Result<Activation, Error> {
    activation_named(key, config.text(key)?)
}

/// The activation `name`, which the configuration's `key` says.
pub(crate) fn activation_named(key: &str, name: &str) -> Result<Activation, Error> {
    Ok(match name {
        "relu" => Activation::Relu,
        "gelu" | "gelu_python" => Activation::Gelu,
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" | "gelu_accurate" => Activation::GeluTanh,
        "silu" | "swish" => Activation::Silu,
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        _ => {
            let why =
                format!("is {name:?}, and should be relu, gelu, gelu_new, gelu_pytorch_tanh, silu or tanh");
            return Err(Error::Key { key: key.to_owned(), why });
        }
    })
}

/// `query` heads of a stack of `width`.
pub(crate) fn heads(width: usize, query: usize, key: usize) -> Result<Heads, Error> {
    Heads::of(width, query, key).map_err(|problem| Error::Key {
        key: "num_attention_heads".into(),
        why: format!("cannot work: {}", problem.why),
    })
}

/// Self-attention with everything as usual; families change what differs.
pub(crate) fn attention(heads: Heads, reach: Reach, bias: ProjectionBias) -> Attention {
    Attention {
        source: Source::Own,
        reach,
        pattern: Pattern::Dense,
        heads,
        scale: Scale::RootSize,
        bias,
        norm: None,
        rotary: None,
    }
}

/// The same across: queries of the target, keys of the source.
pub(crate) fn across(own: &Attention) -> Attention {
    Attention { source: Source::Memory, reach: Reach::Both, pattern: Pattern::Dense, ..own.clone() }
}

/// Sublayers of one block, all with their norm after the sum (post-norm).
pub(crate) fn post_norm(mixes: Vec<Mix>, norm: Norm) -> Vec<Sublayer> {
    let norm = NormSites { output: Some(norm), ..NormSites::default() };
    mixes.into_iter().map(|mix| Sublayer { mix, reads: Reads::Rows, norm }).collect()
}

/// Sublayers of one block, all with their norm before the mix (pre-norm).
pub(crate) fn pre_norm(mixes: Vec<Mix>, norm: Norm) -> Vec<Sublayer> {
    let norm = NormSites { input: Some(norm), ..NormSites::default() };
    mixes.into_iter().map(|mix| Sublayer { mix, reads: Reads::Rows, norm }).collect()
}

/// A plain feed-forward with biases.
pub(crate) fn plain(hidden: usize, act: Activation) -> Mix {
    Mix::Feed(FeedForward::Plain { hidden, act, bias: true })
}

/// What a layer of `layer_types` sees.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// All that its reach allows.
    All,
    /// A window.
    Window,
}

/// The error for `layer_types` that cannot be.
pub(crate) fn wrong_kinds(why: &str) -> Error {
    Error::Key { key: "layer_types".into(), why: why.into() }
}

/// What each layer sees, where `layer_types` says it.
pub(crate) fn layer_kinds(config: &Config) -> Result<Option<Vec<Kind>>, Error> {
    let Some(list) = config.get("layer_types") else { return Ok(None) };
    let list = list.as_array().ok_or_else(|| wrong_kinds("is not a list"))?;
    if list.len() != config.layers("num_hidden_layers")? {
        return Err(wrong_kinds("should name as many as there are layers"));
    }
    let kind = |value: &Value| match value.as_str() {
        Some("full_attention") => Ok(Kind::All),
        Some("sliding_attention") => Ok(Kind::Window),
        _ => Err(wrong_kinds("has a kind that is neither full_attention nor sliding_attention")),
    };
    list.iter().map(kind).collect::<Result<_, _>>().map(Some)
}

/// Token input with everything as usual.
pub(crate) fn tokens(vocabulary: usize) -> Tokens {
    Tokens {
        vocabulary,
        table: Table::Own,
        width: None,
        clusters: None,
        scale: InputScale::One,
        types: None,
        norm: None,
    }
}

/// The token that fills up short texts.
pub(crate) fn padding(config: &Config) -> Result<u32, Error> {
    let id = config.size("pad_token_id")?;
    let bad = |_| Error::Key { key: "pad_token_id".into(), why: format!("is {id}, which no token has") };
    u32::try_from(id).map_err(bad)
}

/// The input of these tokens.
pub(crate) fn input(tokens: Tokens) -> Input {
    Input::Tokens(tokens)
}

/// A head over the words.
pub(crate) fn words(tied: bool, bias: bool) -> Head {
    Head::Words { tied, bias, dense: None, scale: None }
}

/// What a decoder ends in, by the end of its architecture's name: one row of classes off the last token that is not padding, tags,
/// spans, nothing, or else `words`.
pub(crate) fn decoder_head(config: &Config, words: Head) -> Result<(Option<Pooler>, Head), Error> {
    let (pooler, head) = head_of(config, words);
    let pads = config.get("pad_token_id").is_some();
    let last = if pads { Pool::LastBut(padding(config)?) } else { Pool::Last };
    Ok((pooler.map(|pooler| Pooler { pool: last, ..pooler }), head))
}

fn head_of(config: &Config, words: Head) -> (Option<Pooler>, Head) {
    let name = config.architecture();
    let plain = name.ends_with("Model") && !name.ends_with("LMHeadModel") && !name.ends_with("MTModel");
    match name {
        _ if name.ends_with("ForSequenceClassification") => {
            (Some(Pooler::of(Pool::Last)), Head::Classes { count: config.labels(), bias: false })
        }
        _ if name.ends_with("ForTokenClassification") => {
            (None, Head::Tags { count: config.labels(), dense: None })
        }
        _ if name.ends_with("ForQuestionAnswering") => (None, Head::Spans),
        _ if plain => (None, Head::Rows),
        _ => (None, words),
    }
}

/// The same for an encoder-decoder, but that its classes are read off a projection of the last token, whatever it is.
pub(crate) fn pair_head(config: &Config, words: Head) -> (Option<Pooler>, Head) {
    match head_of(config, words) {
        (Some(pooler), Head::Classes { count, .. }) => {
            let dense = Dense { act: Some(Activation::Tanh), bias: true, norm: None };
            (Some(Pooler { dense: Some(dense), ..pooler }), Head::Classes { count, bias: true })
        }
        other => other,
    }
}

/// Where the tensors of those heads are.
pub(crate) fn head_rules() -> Vec<Rule> {
    let names = ["score.{wb}", "classifier.{wb}", "qa_outputs.{wb}", "classification_head.out_proj.{wb}"];
    let mut rules: Vec<Rule> = names.into_iter().map(|theirs| rule("head.{wb}", theirs)).collect();
    rules.push(rule("pooler.dense.{wb}", "classification_head.dense.{wb}"));
    rules
}
