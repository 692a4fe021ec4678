//! DistilBERT (Sanh et al. 2019): BERT without token types and pooler.

use glassformer_formula::{
    Activation, Counting, Dense, Depth, Formula, Head, Mix, Norm, Pool, Pooler, Position, ProjectionBias,
    Reach, Side, Stack, Tokens,
};

use crate::bert::unknown_head;
use crate::blocks::{activation, attention, heads, input, plain, post_norm, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `DistilBertModel` and its heads.
pub(crate) fn distilbert(config: &Config) -> Result<Family, Error> {
    let norm = Norm::Layer { epsilon: 1e-12, bias: true };
    let width = config.size("dim")?;
    let query = config.size("n_heads")?;
    let act = activation(config, "activation")?;
    let own = attention(heads(width, query, query)?, Reach::Both, ProjectionBias::ALL);
    let stack = Stack {
        width,
        depth: Depth::Layers(config.size("n_layers")?),
        position: Position::Learned {
            max: config.size("max_position_embeddings")?,
            offset: 0,
            counting: Counting::Every,
        },
        block: post_norm(vec![Mix::Attend(own), plain(config.size("hidden_dim")?, act)], norm),
        others: Vec::new(),
        final_norm: None,
    };
    let tied = config.flag("tie_word_embeddings")?;
    let dense = |act, norm| Dense { act: Some(act), bias: true, norm };
    let labels = config.labels();
    let (pooler, head) = match config.architecture() {
        "DistilBertForMaskedLM" => {
            (None, Head::Words { tied, bias: true, dense: Some(dense(act, Some(norm))), scale: None })
        }
        "DistilBertForSequenceClassification" => {
            let pooler =
                Pooler { pool: Pool::First, dense: Some(dense(Activation::Relu, None)), then: Vec::new() };
            (Some(pooler), Head::Classes { count: labels, bias: true })
        }
        "DistilBertForTokenClassification" => (None, Head::Tags { count: labels, dense: None }),
        "DistilBertForQuestionAnswering" => (None, Head::Spans),
        "DistilBertModel" | "" => (None, Head::Rows),
        other => return Err(unknown_head("DistilBert", other)),
    };
    let tokens = Tokens { norm: Some(norm), ..tokens(config.size("vocab_size")?) };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["distilbert."];
    family.skipped = if tied { &["vocab_projector.weight"] } else { &[] };
    Ok(family)
}

fn rules() -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "embeddings.word_embeddings.weight"),
        rule("source.embed.positions", "embeddings.position_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.LayerNorm.{norm}"),
        rule("pooler.dense.{wb}", "pre_classifier.{wb}"),
        rule("head.dense.{wb}", "vocab_transform.{wb}"),
        rule("head.norm.{norm}", "vocab_layer_norm.{norm}"),
        rule("head.{wb}", "vocab_projector.{wb}"),
        rule("head.{wb}", "classifier.{wb}"),
        rule("head.{wb}", "qa_outputs.{wb}"),
    ];
    let layer = [
        ("attend.query.{wb}", "attention.q_lin.{wb}"),
        ("attend.key.{wb}", "attention.k_lin.{wb}"),
        ("attend.value.{wb}", "attention.v_lin.{wb}"),
        ("attend.output.{wb}", "attention.out_lin.{wb}"),
        ("attend.norm_out.{norm}", "sa_layer_norm.{norm}"),
        ("feed.up.{wb}", "ffn.lin1.{wb}"),
        ("feed.down.{wb}", "ffn.lin2.{wb}"),
        ("feed.norm_out.{norm}", "output_layer_norm.{norm}"),
    ];
    rules.extend(
        layer.map(|(a, b)| rule(&format!("source.{{n}}.{a}"), &format!("transformer.layer.{{n}}.{b}"))),
    );
    rules
}
