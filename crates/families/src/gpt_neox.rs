//! GPT-NeoX (Black et al. 2022): partly rotary, attention and feed-forward side by side.

use glassformer_formula::{Depth, Formula, Mix, Norm, Position, ProjectionBias, Reach, Reads, Side, Stack};
use serde_json::Value;

use crate::blocks::{
    activation, attention, decoder_head, head_rules, heads, input, plain, pre_norm, tokens, words,
};
use crate::rope::{parameters, rotary};
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family, Rule};

/// `GPTNeoXForCausalLM`.
pub(crate) fn gpt_neox(config: &Config) -> Result<Family, Error> {
    let width = config.size("hidden_size")?;
    let query = config.size("num_attention_heads")?;
    let norm = Norm::Layer { epsilon: config.float("layer_norm_eps")? as f32, bias: true };
    let bias = if config.flag("attention_bias")? { ProjectionBias::ALL } else { ProjectionBias::NONE };
    let heads = heads(width, query, query)?;
    let own = attention(heads, Reach::Past, bias);
    let feed = plain(config.size("intermediate_size")?, activation(config, "hidden_act")?);
    let mut block = pre_norm(vec![Mix::Attend(own), feed], norm);
    if config.flag("use_parallel_residual")? {
        block[1].reads = Reads::Block;
    }
    let (share, base) = (config.float_or("rotary_pct", 0.25)?, config.float_or("rotary_emb_base", 10_000.0)?);
    let listed = parameters(config).and_then(|all| all.get("partial_rotary_factor")).and_then(Value::as_f64);
    let turned = (heads.size as f64 * listed.unwrap_or(share)) as usize;
    let rotary = rotary(config, base, Some(turned))?;
    let stack = Stack {
        width,
        depth: Depth::Layers(config.size("num_hidden_layers")?),
        position: Position::Rotary(rotary),
        block,
        others: Vec::new(),
        final_norm: Some(norm),
    };
    let tied = config.flag("tie_word_embeddings")?;
    let side = Side { input: input(tokens(config.size("vocab_size")?)), stack };
    let (pooler, head) = decoder_head(config, words(tied, false))?;
    let formula = Formula { source: None, target: Some(side), pooler, head };
    let mut family = Family::new(formula, rules(query));
    family.prefixes = &["gpt_neox."];
    family.skipped = &["attention.bias", "attention.masked_bias"];
    if tied {
        family.skipped = &["attention.bias", "attention.masked_bias", "embed_out.weight", "lm_head.weight"];
    }
    Ok(family)
}

fn rules(heads: usize) -> Vec<Rule> {
    let third = |part| How::HeadPart { heads, part, of: 3 };
    let fused = "layers.{n}.attention.query_key_value.{wb}";
    let mut rules = vec![
        rule("target.embed.tokens", "embed_in.weight"),
        rule("target.{n}.attend.norm_in.{norm}", "layers.{n}.input_layernorm.{norm}"),
        how("target.{n}.attend.query.{wb}", fused, third(0)),
        how("target.{n}.attend.key.{wb}", fused, third(1)),
        how("target.{n}.attend.value.{wb}", fused, third(2)),
        rule("target.{n}.attend.output.{wb}", "layers.{n}.attention.dense.{wb}"),
        rule("target.{n}.feed.norm_in.{norm}", "layers.{n}.post_attention_layernorm.{norm}"),
        rule("target.{n}.feed.up.{wb}", "layers.{n}.mlp.dense_h_to_4h.{wb}"),
        rule("target.{n}.feed.down.{wb}", "layers.{n}.mlp.dense_4h_to_h.{wb}"),
        rule("target.norm.{norm}", "final_layer_norm.{norm}"),
        rule("head.weight", "embed_out.weight"),
        rule("head.weight", "lm_head.weight"),
    ];
    rules.extend(head_rules());
    rules
}
