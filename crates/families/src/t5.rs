//! T5, in both versions (Raffel et al. 2019): buckets, RMS pre-norm, no scale, no biases.

use glassformer_formula::{
    Attention, Depth, FeedForward, Formula, Head, Heads, Mix, Norm, Position, ProjectionBias, Reach, Scale,
    Side, Stack, Table, Tokens,
};
use serde_json::json;

use crate::blocks::{across, activation_named, attention, head_rules, input, pair_head, pre_norm, tokens};
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `T5ForConditionalGeneration`, `T5EncoderModel` and their other heads.
pub(crate) fn t5(config: &Config) -> Result<Family, Error> {
    let width = config.size("d_model")?;
    let query = config.size("num_heads")?;
    let heads = Heads { query, key: query, size: config.size("d_kv")? };
    let norm = Norm::Rms { epsilon: config.float("layer_norm_epsilon")? as f32 };
    let feed = feed(config)?;
    let position = Position::Buckets {
        count: config.size("relative_attention_num_buckets")?,
        max_distance: config.size("relative_attention_max_distance")?,
    };
    let own = |reach| Attention { scale: Scale::One, ..attention(heads, reach, ProjectionBias::NONE) };
    let stack = |layers, mixes| Stack {
        width,
        depth: Depth::Layers(layers),
        position: position.clone(),
        block: pre_norm(mixes, norm),
        others: Vec::new(),
        final_norm: Some(norm),
    };
    let layers = config.size("num_layers")?;
    let words = tokens(config.size("vocab_size")?);
    let encoder = stack(layers, vec![Mix::Attend(own(Reach::Both)), Mix::Feed(feed)]);
    let past = own(Reach::Past);
    let mixes = vec![Mix::Attend(past.clone()), Mix::Attend(across(&past)), Mix::Feed(feed)];
    let decoder = stack(config.size_or("num_decoder_layers", config.own_size("num_layers")?)?, mixes);
    let tied = config.flag("tie_word_embeddings")?;
    // Without the key, a tied head is scaled; MT5 never scales, whatever it says.
    let scaled = config.flag_or("scale_decoder_outputs", tied)? && !multilingual(config);
    let scale = scaled.then(|| (width as f32).powf(-0.5));
    let source = Side { input: input(words.clone()), stack: encoder };
    let target = Side { input: input(Tokens { table: Table::Source, ..words }), stack: decoder };
    let name = config.architecture();
    let alone = name.ends_with("EncoderModel") || name.ends_with("ForTokenClassification");
    let (pooler, head) = pair_head(config, Head::Words { tied, bias: false, dense: None, scale });
    let formula = Formula { source: Some(source), target: (!alone).then_some(target), pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["transformer."];
    family.copies = &["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    family.skipped = &[
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    ];
    if tied {
        family.skipped = &[
            "encoder.embed_tokens.weight",
            "decoder.embed_tokens.weight",
            "lm_head.weight",
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
        ];
    }
    Ok(family)
}

/// Whether it is MT5, whose keys mean something else where they are missing.
fn multilingual(config: &Config) -> bool {
    config.get("model_type").is_some_and(|kind| kind == "mt5")
}

/// `feed_forward_proj` is an activation, or `gated-` and one; `gated-gelu` means the tanh form. `dense_act_fn` is the activation
/// whatever that says.
fn feed(config: &Config) -> Result<FeedForward, Error> {
    let hidden = config.size("d_ff")?;
    let kind = config.text("feed_forward_proj")?;
    let gated = kind.starts_with("gated-");
    config.only("is_gated_act", &[json!(gated)])?;
    let name = if kind == "gated-gelu" { "gelu_new" } else { kind.trim_start_matches("gated-") };
    let key = if config.has("dense_act_fn") { "dense_act_fn" } else { "feed_forward_proj" };
    let act = activation_named(key, config.text_or("dense_act_fn", name)?)?;
    Ok(if gated {
        FeedForward::Gated { hidden, act, bias: false }
    } else {
        FeedForward::Plain { hidden, act, bias: false }
    })
}

fn rules() -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "shared.weight"),
        rule("source.embed.tokens", "encoder.embed_tokens.weight"),
        rule("head.weight", "lm_head.weight"),
    ];
    for (ours, theirs, feed) in [("source", "encoder", 1), ("target", "decoder", 2)] {
        let bias = "layer.0.SelfAttention.relative_attention_bias.weight";
        rules.push(rule(&format!("{ours}.position.table"), &format!("{theirs}.block.0.{bias}")));
        rules.push(rule(&format!("{ours}.norm.{{norm}}"), &format!("{theirs}.final_layer_norm.{{norm}}")));
        let mut layer = |a: &str, b: String| {
            rules.push(rule(&format!("{ours}.{{n}}.{a}"), &format!("{theirs}.block.{{n}}.layer.{b}")));
        };
        for (sublayer, place, name) in [("attend", 0, "SelfAttention"), ("cross", 1, "EncDecAttention")] {
            for (part, letter) in [("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")] {
                layer(&format!("{sublayer}.{part}.{{wb}}"), format!("{place}.{name}.{letter}.{{wb}}"));
            }
            layer(&format!("{sublayer}.norm_in.{{norm}}"), format!("{place}.layer_norm.{{norm}}"));
        }
        layer("feed.norm_in.{norm}", format!("{feed}.layer_norm.{{norm}}"));
        layer("feed.gate.{wb}", format!("{feed}.DenseReluDense.wi_0.{{wb}}"));
        layer("feed.up.{wb}", format!("{feed}.DenseReluDense.wi_1.{{wb}}"));
        layer("feed.up.{wb}", format!("{feed}.DenseReluDense.wi.{{wb}}"));
        layer("feed.down.{wb}", format!("{feed}.DenseReluDense.wo.{{wb}}"));
    }
    rules.extend(head_rules());
    rules
}
