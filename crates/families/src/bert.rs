//! BERT (Devlin et al. 2018): learned positions, token types, post-norm, gelu.

use glassformer_formula::{
    Activation, Counting, Dense, Depth, Formula, Head, Mix, Norm, Pool, Pooler, Position, ProjectionBias,
    Reach, Side, Stack, Tokens,
};
use serde_json::json;

use crate::blocks::{activation, attention, heads, input, plain, post_norm, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `BertModel` and its heads.
pub(crate) fn bert(config: &Config) -> Result<Family, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = Norm::Layer { epsilon: config.float("layer_norm_eps")? as f32, bias: true };
    let tokens = Tokens {
        types: Some(config.size("type_vocab_size")?),
        norm: Some(norm),
        ..tokens(config.size("vocab_size")?)
    };
    let position = Position::Learned {
        max: config.size("max_position_embeddings")?,
        offset: 0,
        counting: Counting::Every,
    };
    let stack = encoder(config, position, norm)?;
    let act = activation(config, "hidden_act")?;
    let dense = |act| Dense { act: Some(act), bias: true, norm: None };
    let pooler = Some(Pooler { pool: Pool::First, dense: Some(dense(Activation::Tanh)), then: Vec::new() });
    let tied = config.flag("tie_word_embeddings")?;
    let masked =
        Head::Words { tied, bias: true, dense: Some(Dense { norm: Some(norm), ..dense(act) }), scale: None };
    let labels = config.labels();
    let (pooler, head) = match config.architecture() {
        "BertForMaskedLM" => (None, masked),
        "BertForPreTraining" => (pooler, masked),
        "BertForSequenceClassification" => (pooler, Head::Classes { count: labels, bias: true }),
        "BertForTokenClassification" => (None, Head::Tags { count: labels, dense: None }),
        "BertForQuestionAnswering" => (None, Head::Spans),
        "BertModel" | "" => (pooler, Head::Rows),
        other => return Err(unknown_head("Bert", other)),
    };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["bert."];
    family.skipped = &[
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
        "cls.species.*",
        "cls.chain.*",
        "cls.graft.*",
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "cls.predictions.bias",
        "pooler.dense.weight",
        "pooler.dense.bias",
    ];
    Ok(family)
}

/// A stack of BERT's kind.
pub(crate) fn encoder(config: &Config, position: Position, norm: Norm) -> Result<Stack, Error> {
    let width = config.size("hidden_size")?;
    let query = config.size("num_attention_heads")?;
    let own = attention(heads(width, query, query)?, Reach::Both, ProjectionBias::ALL);
    let feed = plain(config.size("intermediate_size")?, activation(config, "hidden_act")?);
    Ok(Stack {
        width,
        depth: Depth::Layers(config.size("num_hidden_layers")?),
        position,
        block: post_norm(vec![Mix::Attend(own), feed], norm),
        others: Vec::new(),
        final_norm: None,
    })
}

/// The error for a head that this family does not have.
pub(crate) fn unknown_head(family: &str, other: &str) -> Error {
    let heads = ["MaskedLM", "SequenceClassification", "TokenClassification"];
    let heads = heads.map(|head| format!("{family}For{head}")).join(", ");
    let why = format!("is {other:?}, and should be {family}Model, {heads} or {family}ForQuestionAnswering");
    Error::Key { key: "architectures".into(), why }
}

/// Where the tensors of this family are.
pub(crate) fn rules() -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "embeddings.word_embeddings.weight"),
        rule("source.embed.positions", "embeddings.position_embeddings.weight"),
        rule("source.embed.types", "embeddings.token_type_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.LayerNorm.{norm}"),
        rule("source.embed.norm.gain", "embeddings.LayerNorm.gamma"),
        rule("source.embed.norm.bias", "embeddings.LayerNorm.beta"),
        rule("pooler.dense.{wb}", "pooler.dense.{wb}"),
        rule("head.dense.{wb}", "cls.predictions.transform.dense.{wb}"),
        rule("head.norm.{norm}", "cls.predictions.transform.LayerNorm.{norm}"),
        rule("head.norm.gain", "cls.predictions.transform.LayerNorm.gamma"),
        rule("head.norm.bias", "cls.predictions.transform.LayerNorm.beta"),
        rule("head.weight", "cls.predictions.decoder.weight"),
        // Both were once the same; where they are not, the decoder's is the one that is added.
        rule("head.bias", "cls.predictions.decoder.bias"),
        rule("head.bias", "cls.predictions.bias"),
        rule("head.{wb}", "classifier.{wb}"),
        rule("head.{wb}", "qa_outputs.{wb}"),
    ];
    rules.extend(layer_rules("encoder.layer.{n}"));
    rules
}

/// Where the tensors of one layer are, in files that name them as BERT does.
pub(crate) fn layer_rules(layer: &str) -> Vec<Rule> {
    let pairs = [
        ("attend.query.{wb}", "attention.self.query.{wb}"),
        ("attend.key.{wb}", "attention.self.key.{wb}"),
        ("attend.value.{wb}", "attention.self.value.{wb}"),
        ("attend.output.{wb}", "attention.output.dense.{wb}"),
        ("attend.norm_out.{norm}", "attention.output.LayerNorm.{norm}"),
        ("attend.norm_out.gain", "attention.output.LayerNorm.gamma"),
        ("attend.norm_out.bias", "attention.output.LayerNorm.beta"),
        ("feed.up.{wb}", "intermediate.dense.{wb}"),
        ("feed.down.{wb}", "output.dense.{wb}"),
        ("feed.norm_out.{norm}", "output.LayerNorm.{norm}"),
        ("feed.norm_out.gain", "output.LayerNorm.gamma"),
        ("feed.norm_out.bias", "output.LayerNorm.beta"),
    ];
    pairs.map(|(ours, theirs)| rule(&format!("source.{{n}}.{ours}"), &format!("{layer}.{theirs}"))).into()
}
