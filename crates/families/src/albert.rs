//! ALBERT (Lan et al. 2019): one layer, many times, and a narrow input.

use glassformer_formula::check::limits;
use glassformer_formula::{
    Activation, Counting, Dense, Depth, Formula, Head, Norm, Pool, Pooler, Position, Side, Stack, Tokens,
};
use serde_json::json;

use crate::bert::{encoder, unknown_head};
use crate::blocks::{activation, input, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `AlbertModel` and its heads.
pub(crate) fn albert(config: &Config) -> Result<Family, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = Norm::Layer { epsilon: config.float("layer_norm_eps")? as f32, bias: true };
    let position = Position::Learned {
        max: config.size("max_position_embeddings")?,
        offset: 0,
        counting: Counting::Every,
    };
    let layers = config.size("num_hidden_layers")?;
    let groups = config.size("num_hidden_groups")?;
    let inner = config.size("inner_group_num")?.min(limits::SUBLAYERS + 1); // the formula's check refuses more
    let stack = encoder(config, position, norm)?;
    let depth = if groups == 1 { Depth::Shared { times: layers } } else { Depth::Groups { layers, groups } };
    let stack = Stack { depth, block: (0..inner).flat_map(|_| stack.block.clone()).collect(), ..stack };
    let act = activation(config, "hidden_act")?;
    let tied = config.flag("tie_word_embeddings")?;
    let dense = |act, norm| Dense { act: Some(act), bias: true, norm };
    let pooler =
        Some(Pooler { pool: Pool::First, dense: Some(dense(Activation::Tanh, None)), then: Vec::new() });
    let masked = Head::Words { tied, bias: true, dense: Some(dense(act, Some(norm))), scale: None };
    let labels = config.labels();
    let (pooler, head) = match config.architecture() {
        "AlbertForMaskedLM" => (None, masked),
        "AlbertForPreTraining" => (pooler, masked),
        "AlbertForSequenceClassification" => (pooler, Head::Classes { count: labels, bias: true }),
        "AlbertForTokenClassification" => (None, Head::Tags { count: labels, dense: None }),
        "AlbertForQuestionAnswering" => (None, Head::Spans),
        "AlbertModel" | "" => (pooler, Head::Rows),
        other => return Err(unknown_head("Albert", other)),
    };
    let tokens = Tokens {
        types: Some(config.size("type_vocab_size")?),
        width: Some(config.size("embedding_size")?),
        norm: Some(norm),
        ..tokens(config.size("vocab_size")?)
    };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules(inner));
    family.prefixes = &["albert."];
    family.skipped = &[
        "predictions.decoder.weight",
        "predictions.decoder.bias",
        "predictions.bias",
        "pooler.weight",
        "pooler.bias",
        "sop_classifier.classifier.weight",
        "sop_classifier.classifier.bias",
    ];
    Ok(family)
}

fn rules(inner: usize) -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "embeddings.word_embeddings.weight"),
        rule("source.embed.positions", "embeddings.position_embeddings.weight"),
        rule("source.embed.types", "embeddings.token_type_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.LayerNorm.{norm}"),
        rule("source.embed.project.{wb}", "encoder.embedding_hidden_mapping_in.{wb}"),
        rule("pooler.dense.{wb}", "pooler.{wb}"),
        rule("head.dense.{wb}", "predictions.dense.{wb}"),
        rule("head.norm.{norm}", "predictions.LayerNorm.{norm}"),
        rule("head.bias", "predictions.decoder.bias"), // where the two differ, this one is added
        rule("head.bias", "predictions.bias"),
        rule("head.weight", "predictions.decoder.weight"),
        rule("head.{wb}", "classifier.{wb}"),
        rule("head.{wb}", "qa_outputs.{wb}"),
    ];
    for layer in 0..inner {
        let again = if layer == 0 { String::new() } else { (layer + 1).to_string() };
        let parts = [
            (format!("attend{again}.query.{{wb}}"), "attention.query.{wb}"),
            (format!("attend{again}.key.{{wb}}"), "attention.key.{wb}"),
            (format!("attend{again}.value.{{wb}}"), "attention.value.{wb}"),
            (format!("attend{again}.output.{{wb}}"), "attention.dense.{wb}"),
            (format!("attend{again}.norm_out.{{norm}}"), "attention.LayerNorm.{norm}"),
            (format!("feed{again}.up.{{wb}}"), "ffn.{wb}"),
            (format!("feed{again}.down.{{wb}}"), "ffn_output.{wb}"),
            (format!("feed{again}.norm_out.{{norm}}"), "full_layer_layer_norm.{norm}"),
        ];
        for (ours, theirs) in parts {
            let groups = "encoder.albert_layer_groups";
            let theirs = format!("albert_layers.{layer}.{theirs}");
            rules.push(rule(&format!("source.shared.{ours}"), &format!("{groups}.0.{theirs}")));
            rules.push(rule(&format!("source.shared{{n}}.{ours}"), &format!("{groups}.{{n}}.{theirs}")));
        }
    }
    rules
}
