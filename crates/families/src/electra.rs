//! ELECTRA (Clark et al. 2020): BERT that tells real words from replaced ones.

use glassformer_formula::{Activation, Dense, Formula, Head, Norm, Pool, Pooler, Position, Side, Tokens};
use serde_json::json;

use crate::bert::{encoder, layer_rules, unknown_head};
use crate::blocks::{activation, input, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `ElectraModel` and its heads.
pub(crate) fn electra(config: &Config) -> Result<Family, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = Norm::Layer { epsilon: config.float_or("layer_norm_eps", 1e-12)? as f32, bias: true };
    let position = Position::Learned { max: config.size_or("max_position_embeddings", 512)?, offset: 0 };
    let stack = encoder(config, position, norm, "gelu")?;
    let act = activation(config, "hidden_act", "gelu")?;
    let narrow = config.size_or("embedding_size", 128)?;
    let tied = config.flag_or("tie_word_embeddings", true)?;
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
        types: Some(config.size_or("type_vocab_size", 2)?),
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
