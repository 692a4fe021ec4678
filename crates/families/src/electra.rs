//! ELECTRA (Clark et al. 2020): BERT that tells real words from replaced ones.

use glassformer_formula::{
    Activation, Counting, Dense, Formula, Head, Norm, Pool, Pooler, Position, Side, Tokens,
};
use serde_json::json;

use crate::bert::{encoder, layer_rules, unknown_head};
use crate::blocks::{activation, input, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `ElectraModel` and its heads.
pub(crate) fn electra(config: &Config) -> Result<Family, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = Norm::Layer { epsilon: config.float("layer_norm_eps")? as f32, bias: true };
    let position = Position::Learned {
        max: config.size("max_position_embeddings")?,
        offset: 0,
        counting: Counting::Every,
    };
    let stack = encoder(config, position, norm)?;
    let act = activation(config, "hidden_act")?;
    let narrow = config.size("embedding_size")?;
    let tied = config.flag("tie_word_embeddings")?;
    let dense = |act, norm| Dense { act: Some(act), bias: true, norm };
    let labels = config.labels();
    let (pooler, head) = match config.architecture() {
        "ElectraForPreTraining" => (None, Head::Tags { count: 1, dense: Some(dense(act, None)) }),
        "ElectraForMaskedLM" => {
            let dense = Some(dense(Activation::Gelu, Some(norm)));
            (None, Head::Words { tied, bias: true, dense, scale: None })
        }
        "ElectraForSequenceClassification" => {
            let pooler =
                Pooler { pool: Pool::First, dense: Some(dense(Activation::Gelu, None)), then: Vec::new() };
            (Some(pooler), Head::Classes { count: labels, bias: true })
        }
        "ElectraForTokenClassification" => (None, Head::Tags { count: labels, dense: None }),
        "ElectraForQuestionAnswering" => (None, Head::Spans),
        "ElectraModel" | "" => (None, Head::Rows),
        other => return Err(unknown_head("Electra", other)),
    };
    let tokens = Tokens {
        types: Some(config.size("type_vocab_size")?),
        width: (narrow != stack.width).then_some(narrow),
        norm: Some(norm),
        ..tokens(config.size("vocab_size")?)
    };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["electra."];
    family.skipped = &["generator_lm_head.weight"];
    Ok(family)
}

fn rules() -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "embeddings.word_embeddings.weight"),
        rule("source.embed.positions", "embeddings.position_embeddings.weight"),
        rule("source.embed.types", "embeddings.token_type_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.LayerNorm.{norm}"),
        rule("source.embed.project.{wb}", "embeddings_project.{wb}"),
        rule("pooler.dense.{wb}", "classifier.dense.{wb}"),
        rule("head.dense.{wb}", "generator_predictions.dense.{wb}"),
        rule("head.dense.{wb}", "discriminator_predictions.dense.{wb}"),
        rule("head.norm.{norm}", "generator_predictions.LayerNorm.{norm}"),
        rule("head.{wb}", "generator_lm_head.{wb}"),
        rule("head.{wb}", "discriminator_predictions.dense_prediction.{wb}"),
        rule("head.{wb}", "classifier.out_proj.{wb}"),
        rule("head.{wb}", "classifier.{wb}"),
        rule("head.{wb}", "qa_outputs.{wb}"),
    ];
    rules.extend(layer_rules("encoder.layer.{n}"));
    rules
}
