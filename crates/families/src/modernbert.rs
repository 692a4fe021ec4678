//! ModernBERT (Warner et al. 2024): rotary, pre-norm without biases, gated, windows between layers that see all.

use glassformer_formula::{
    Attention, Dense, Depth, FeedForward, Formula, Global, Head, Mix, Norm, NormSites, Other, Pairing,
    Pattern, Pool, Pooler, Position, ProjectionBias, Reach, Rotary, Scaling, Side, Stack, Sublayer, Tokens,
};
use serde_json::{Value, json};

use crate::bert::unknown_head;
use crate::blocks::{Kind, activation, attention, heads, input, layer_kinds, pre_norm, tokens};
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family, Rule};

/// `ModernBertModel` and its heads.
pub(crate) fn modernbert(config: &Config) -> Result<Family, Error> {
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = Norm::Layer { epsilon: config.float("norm_eps")? as f32, bias: config.flag("norm_bias")? };
    let stack = stack(config, norm)?;
    let act = activation(config, "classifier_activation")?;
    let dense = Dense { act: Some(act), bias: config.flag("classifier_bias")?, norm: Some(norm) };
    let bias = config.flag("decoder_bias")?;
    let tied = config.flag("tie_word_embeddings")?;
    let pool = match config.text("classifier_pooling")? {
        "cls" => Pool::First,
        "mean" => Pool::Mean,
        other => {
            let why = format!("is {other:?}, and should be cls or mean");
            return Err(Error::Key { key: "classifier_pooling".into(), why });
        }
    };
    let labels = config.labels();
    let (pooler, head) = match config.architecture() {
        "ModernBertForMaskedLM" => (None, Head::Words { tied, bias, dense: Some(dense), scale: None }),
        "ModernBertForSequenceClassification" => (
            Some(Pooler { pool, dense: Some(dense), then: Vec::new() }),
            Head::Classes { count: labels, bias: true },
        ),
        "ModernBertForTokenClassification" => (None, Head::Tags { count: labels, dense: Some(dense) }),
        // First and last token of an answer are two tags behind the same projection as any others.
        "ModernBertForQuestionAnswering" => (None, Head::Tags { count: 2, dense: Some(dense) }),
        "ModernBertModel" | "" => (None, Head::Rows),
        other => return Err(unknown_head("ModernBert", other)),
    };
    let tokens = Tokens { norm: Some(norm), ..tokens(config.size("vocab_size")?) };
    let formula = Formula { source: Some(Side { input: input(tokens), stack }), target: None, pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["model."];
    family.skipped = if tied { &["decoder.weight"] } else { &[] };
    Ok(family)
}

fn stack(config: &Config, norm: Norm) -> Result<Stack, Error> {
    let width = config.size("hidden_size")?;
    let query = config.size("num_attention_heads")?;
    let layers = config.layers("num_hidden_layers")?;
    let bias = if config.flag("attention_bias")? { ProjectionBias::ALL } else { ProjectionBias::NONE };
    let own = attention(heads(width, query, query)?, Reach::Both, bias);
    let window = config.size("local_attention")? / 2;
    let local = Attention {
        pattern: Pattern::Sliding { window, global: Global::None },
        rotary: Some(turns(config, "sliding_attention", "local_rope_theta", 10_000.0)?),
        ..own.clone()
    };
    let feed = FeedForward::Gated {
        hidden: config.size("intermediate_size")?,
        act: activation(config, "hidden_activation")?,
        bias: config.flag("mlp_bias")?,
    };
    let block = |attention: Attention| pre_norm(vec![Mix::Attend(attention), Mix::Feed(feed)], norm);
    let every = config.size_or("global_attn_every_n_layers", 3)?.max(1);
    let listed = layer_kinds(config)?;
    let sees_all = |layer: usize| match &listed {
        Some(kinds) => kinds[layer] == Kind::All,
        None => layer.is_multiple_of(every),
    };
    // The input's norm serves the first layer too.
    let bare = |mut block: Vec<Sublayer>| {
        block[0].norm = NormSites::default();
        block
    };
    let mut others =
        vec![Other { layers: (1..layers).filter(|&l| sees_all(l)).collect(), block: block(own.clone()) }];
    others.retain(|other| !other.layers.is_empty());
    let first = if sees_all(0) { own } else { local.clone() };
    others.push(Other { layers: vec![0], block: bare(block(first)) });
    Ok(Stack {
        width,
        depth: Depth::Layers(layers),
        position: Position::Rotary(turns(config, "full_attention", "global_rope_theta", 160_000.0)?),
        block: block(local),
        others,
        final_norm: Some(norm),
    })
}

/// Angles are listed for each kind of layer, or were once keys of their own.
fn turns(config: &Config, kind: &str, old: &str, default: f64) -> Result<Rotary, Error> {
    let all = config.get("rope_parameters").and_then(Value::as_object);
    let kinds = ["full_attention", "sliding_attention"];
    if let Some(other) = all.and_then(|all| all.keys().find(|key| !kinds.contains(&key.as_str()))) {
        let why = "is not among the kinds of layers, each of which has parameters of its own";
        return Err(Error::Key { key: format!("rope_parameters.{other}"), why: why.into() });
    }
    let listed = all.and_then(|all| all.get(kind));
    if let Some(name) = listed.and_then(|one| one.get("rope_type"))
        && *name != json!("default")
    {
        return Err(Error::Key {
            key: format!("rope_parameters.{kind}.rope_type"),
            why: format!("is {name}, not default"),
        });
    }
    let old = config.float_or(old, default)?; // where both say something, the list counts
    let base = listed.and_then(|one| one.get("rope_theta")).and_then(Value::as_f64).unwrap_or(old);
    Ok(Rotary { base, size: None, layout: Pairing::Halves, scaling: Scaling::None })
}

fn rules() -> Vec<Rule> {
    let third = |part| How::Part { part, of: 3 };
    let half = |part| How::Part { part, of: 2 };
    vec![
        rule("source.embed.tokens", "embeddings.tok_embeddings.weight"),
        rule("source.embed.norm.{norm}", "embeddings.norm.{norm}"),
        rule("source.{n}.attend.norm_in.{norm}", "layers.{n}.attn_norm.{norm}"),
        how("source.{n}.attend.query.{wb}", "layers.{n}.attn.Wqkv.{wb}", third(0)),
        how("source.{n}.attend.key.{wb}", "layers.{n}.attn.Wqkv.{wb}", third(1)),
        how("source.{n}.attend.value.{wb}", "layers.{n}.attn.Wqkv.{wb}", third(2)),
        rule("source.{n}.attend.output.{wb}", "layers.{n}.attn.Wo.{wb}"),
        rule("source.{n}.feed.norm_in.{norm}", "layers.{n}.mlp_norm.{norm}"),
        how("source.{n}.feed.gate.{wb}", "layers.{n}.mlp.Wi.{wb}", half(0)),
        how("source.{n}.feed.up.{wb}", "layers.{n}.mlp.Wi.{wb}", half(1)),
        rule("source.{n}.feed.down.{wb}", "layers.{n}.mlp.Wo.{wb}"),
        rule("source.norm.{norm}", "final_norm.{norm}"),
        rule("head.dense.{wb}", "head.dense.{wb}"),
        rule("head.norm.{norm}", "head.norm.{norm}"),
        rule("pooler.dense.{wb}", "head.dense.{wb}"),
        rule("pooler.norm.{norm}", "head.norm.{norm}"),
        rule("head.{wb}", "decoder.{wb}"),
        rule("head.{wb}", "classifier.{wb}"),
    ]
}
