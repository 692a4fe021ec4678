//! LLaMA 1 to 3 and those that differ by a flag (Touvron et al. 2023): rotary, RMS pre-norm, gated silu, grouped heads.

use glassformer_formula::{
    Attention, Depth, FeedForward, Formula, Heads, Mix, Norm, Position, ProjectionBias, Reach, Side, Stack,
};
use serde_json::json;

use crate::blocks::{activation, attention, input, pre_norm, tokens, words};
use crate::rope::rotary;
use crate::rules::rule;
use crate::{Config, Error, Family, Rule};

/// `LlamaForCausalLM`.
pub(crate) fn llama(config: &Config) -> Result<Family, Error> {
    let bias = config.flag_or("attention_bias", false)?;
    let biases = if bias { ProjectionBias::ALL } else { ProjectionBias::NONE };
    config.only("pretraining_tp", &[json!(1)])?;
    decoder(config, biases, |attention| attention)
}

/// A decoder of this family, whose attention `change` may vary.
pub(crate) fn decoder(
    config: &Config,
    bias: ProjectionBias,
    change: impl Fn(Attention) -> Attention,
) -> Result<Family, Error> {
    let width = config.size("hidden_size")?;
    let query = config.size("num_attention_heads")?;
    let key = config.size_or("num_key_value_heads", query)?;
    let size = config.size_or("head_dim", width / query.max(1))?;
    let norm = Norm::Rms { epsilon: config.float_or("rms_norm_eps", 1e-6)? as f32 };
    let own = change(attention(Heads { query, key, size }, Reach::Past, bias));
    let feed = FeedForward::Gated {
        hidden: config.size("intermediate_size")?,
        act: activation(config, "hidden_act", "silu")?,
        bias: config.flag_or("mlp_bias", false)?,
    };
    let stack = Stack {
        width,
        depth: Depth::Layers(config.size("num_hidden_layers")?),
        position: Position::Rotary(rotary(config, None)?),
        block: pre_norm(vec![Mix::Attend(own), Mix::Feed(feed)], norm),
        others: Vec::new(),
        final_norm: Some(norm),
    };
    let tied = config.flag_or("tie_word_embeddings", false)?;
    let side = Side { input: input(tokens(config.size("vocab_size")?)), stack };
    let formula = Formula { source: None, target: Some(side), pooler: None, head: words(tied, false) };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["model."];
    family.skipped = if tied { &["lm_head.weight"] } else { &[] };
    Ok(family)
}

/// Where the tensors of this family are.
pub(crate) fn rules() -> Vec<Rule> {
    vec![
        rule("target.embed.tokens", "embed_tokens.weight"),
        rule("target.{n}.attend.norm_in.{norm}", "layers.{n}.input_layernorm.{norm}"),
        rule("target.{n}.attend.query.{wb}", "layers.{n}.self_attn.q_proj.{wb}"),
        rule("target.{n}.attend.key.{wb}", "layers.{n}.self_attn.k_proj.{wb}"),
        rule("target.{n}.attend.value.{wb}", "layers.{n}.self_attn.v_proj.{wb}"),
        rule("target.{n}.attend.output.{wb}", "layers.{n}.self_attn.o_proj.{wb}"),
        rule("target.{n}.attend.query_norm.{norm}", "layers.{n}.self_attn.q_norm.{norm}"),
        rule("target.{n}.attend.key_norm.{norm}", "layers.{n}.self_attn.k_norm.{norm}"),
        rule("target.{n}.feed.norm_in.{norm}", "layers.{n}.post_attention_layernorm.{norm}"),
        rule("target.{n}.feed.gate.{wb}", "layers.{n}.mlp.gate_proj.{wb}"),
        rule("target.{n}.feed.up.{wb}", "layers.{n}.mlp.up_proj.{wb}"),
        rule("target.{n}.feed.down.{wb}", "layers.{n}.mlp.down_proj.{wb}"),
        rule("target.norm.{norm}", "norm.{norm}"),
        rule("head.weight", "lm_head.weight"),
    ]
}
