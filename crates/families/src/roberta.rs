//! RoBERTa, XLM-R and `CamemBERT` (Liu et al. 2019): BERT whose positions begin after the padding token.

use glassformer_formula::{
    Activation, Counting, Dense, Formula, Head, Norm, Pool, Pooler, Position, Side, Stack, Tokens,
};
use serde_json::json;

use crate::bert::{encoder, layer_rules, unknown_head};
use crate::blocks::{input, padding, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `RobertaModel` and its heads.
pub(crate) fn roberta(config: &Config) -> Result<Family, Error> {
    let norm = norm(config)?;
    let stack = encoder(config, positions(config)?, norm)?;
    let mut family = headed(config, stack, types(config)?, norm)?;
    family.rules.extend(layer_rules("encoder.layer.{n}"));
    family.prefixes = &["roberta."];
    Ok(family)
}

pub(crate) fn norm(config: &Config) -> Result<Norm, Error> {
    Ok(Norm::Layer { epsilon: config.float("layer_norm_eps")? as f32, bias: true })
}

/// Learned positions of all tokens but padding.
pub(crate) fn positions(config: &Config) -> Result<Position, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    behind(config, padding(config)?)
}

/// Learned positions of all tokens but `padding`, in whose row of the table stands that token's own; those before it are unused.
pub(crate) fn behind(config: &Config, padding: u32) -> Result<Position, Error> {
    let offset = (padding as usize).saturating_add(1);
    let max = config.size("max_position_embeddings")?.saturating_sub(offset);
    Ok(Position::Learned { max, offset, counting: Counting::But(padding) })
}

/// How many types of tokens there are.
pub(crate) fn types(config: &Config) -> Result<Option<usize>, Error> {
    config.size("type_vocab_size").map(Some)
}

/// The heads that this family and its kin have, over `stack`, whose input may tell `types` of tokens apart.
pub(crate) fn headed(
    config: &Config,
    stack: Stack,
    types: Option<usize>,
    norm: Norm,
) -> Result<Family, Error> {
    let tokens = Tokens { types, norm: Some(norm), ..tokens(config.size("vocab_size")?) };
    let dense = |act, norm| Dense { act: Some(act), bias: true, norm };
    let pooler =
        Some(Pooler { pool: Pool::First, dense: Some(dense(Activation::Tanh, None)), then: Vec::new() });
    let tied = config.flag("tie_word_embeddings")?;
    let labels = config.labels();
    let name = config.architecture();
    let (pooler, head) = match name {
        _ if name.ends_with("ForMaskedLM") => {
            let dense = Some(dense(Activation::Gelu, Some(norm)));
            (None, Head::Words { tied, bias: true, dense, scale: None })
        }
        _ if name.ends_with("ForSequenceClassification") => {
            (pooler, Head::Classes { count: labels, bias: true })
        }
        _ if name.ends_with("ForTokenClassification") => (None, Head::Tags { count: labels, dense: None }),
        _ if name.ends_with("ForQuestionAnswering") => (None, Head::Spans),
        _ if name.is_empty() || name.ends_with("Model") => (pooler, Head::Rows),
        // All that are built like RoBERTa come here, each with a name of its own.
        other => return Err(unknown_head(other.split("For").next().unwrap_or(other), other)),
    };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules());
    family.skipped = &[
        "lm_head.decoder.weight",
        "lm_head.decoder.bias",
        "lm_head.bias",
        "pooler.dense.weight",
        "pooler.dense.bias",
    ];
    Ok(family)
}

fn rules() -> Vec<Rule> {
    vec![
        rule("source.embed.tokens", "embeddings.word_embeddings.weight"),
        rule("source.embed.positions", "embeddings.position_embeddings.weight"),
        rule("source.embed.types", "embeddings.token_type_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.LayerNorm.{norm}"),
        rule("pooler.dense.{wb}", "classifier.dense.{wb}"),
        rule("pooler.dense.{wb}", "pooler.dense.{wb}"),
        rule("head.dense.{wb}", "lm_head.dense.{wb}"),
        rule("head.norm.{norm}", "lm_head.layer_norm.{norm}"),
        rule("head.weight", "lm_head.decoder.weight"),
        rule("head.bias", "lm_head.decoder.bias"), // where the two differ, this one is added
        rule("head.bias", "lm_head.bias"),
        rule("head.{wb}", "classifier.out_proj.{wb}"),
        rule("head.{wb}", "classifier.{wb}"),
        rule("head.{wb}", "qa_outputs.{wb}"),
    ]
}
