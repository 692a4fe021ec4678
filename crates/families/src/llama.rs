//! LLaMA 1 to 3 and those that differ by a flag (Touvron et al. 2023): rotary, RMS pre-norm, gated silu, grouped heads.

use glassformer_formula::{
    Activation, Attention, Depth, FeedForward, Formula, Global, Head, Heads, Input, InputScale, Mix, Norm,
    Other, Pattern, Position, ProjectionBias, Reach, Side, Stack,
};
use serde_json::json;

use crate::blocks::{
    Kind, activation, attention, decoder_head, head_rules, input, layer_kinds, pre_norm, tokens, words,
    wrong_kinds,
};
use crate::rope::rotary;
use crate::rules::rule;
use crate::{Config, Error, Family, How, Rule};

/// `LlamaForCausalLM`.
pub(crate) fn llama(config: &Config) -> Result<Family, Error> {
    if layer_kinds(config)?.is_some_and(|kinds| kinds.contains(&Kind::Window)) {
        return Err(wrong_kinds("has windows, which this family has not"));
    }
    decoder(config, biases(config)?, |attention| attention)
}

/// `MistralForCausalLM`: a row sees the last `sliding_window` rows, itself included.
pub(crate) fn mistral(config: &Config) -> Result<Family, Error> {
    let window = config.optional_size("sliding_window")?;
    decoder(config, ProjectionBias::NONE, |attention| windowed(attention, window))
}

/// `Qwen2ForCausalLM`: biases of q, k and v; upper layers may have windows.
pub(crate) fn qwen2(config: &Config) -> Result<Family, Error> {
    let bias = ProjectionBias { output: false, ..ProjectionBias::ALL };
    let family = decoder(config, bias, |attention| attention)?;
    upper_windows(config, family)
}

/// `Qwen3ForCausalLM`: queries and keys are normed head by head.
pub(crate) fn qwen3(config: &Config) -> Result<Family, Error> {
    let norm = Norm::Rms { epsilon: config.float("rms_norm_eps")? as f32 };
    let normed = |attention| Attention { norm: Some(norm), ..attention };
    let family = decoder(config, biases(config)?, normed)?;
    upper_windows(config, family)
}

/// The biases of a family that has all of them or none.
fn biases(config: &Config) -> Result<ProjectionBias, Error> {
    Ok(if config.flag("attention_bias")? { ProjectionBias::ALL } else { ProjectionBias::NONE })
}

/// `GemmaForCausalLM`: embeddings times √width, a tied head, and gains that are stored less 1.
pub(crate) fn gemma(config: &Config) -> Result<Family, Error> {
    config.only("use_bidirectional_attention", &[json!(false)])?;
    let mut family = decoder(config, biases(config)?, |attention| attention)?;
    if let Some(target) = &mut family.formula.target {
        if let Input::Tokens(tokens) = &mut target.input {
            tokens.scale = InputScale::RootWidth;
        }
        let _ = config.get("hidden_activation"); // once read instead, and no more
        // Published files say `gelu` and mean the tanh form.
        let act = match activation(config, "hidden_act")? {
            Activation::Gelu => Activation::GeluTanh,
            act => act,
        };
        for sublayer in &mut target.stack.block {
            if let Mix::Feed(FeedForward::Gated { act: found, .. }) = &mut sublayer.mix {
                *found = act;
            }
        }
    }
    if config.flag("tie_word_embeddings")? {
        if let Head::Words { tied, .. } = &mut family.formula.head {
            *tied = true;
        }
        family.skipped = &["lm_head.weight"];
    }
    for rule in family.rules.iter_mut().filter(|rule| rule.ours.ends_with("{norm}")) {
        rule.how = How::PlusOne;
    }
    Ok(family)
}

fn windowed(attention: Attention, window: Option<usize>) -> Attention {
    match window {
        None | Some(0) => attention,
        Some(window) => {
            // A window that counts the row itself reaches one less back; of one row it reaches nothing, which 0 says.
            let pattern = Pattern::Sliding { window: window - 1, global: Global::None };
            Attention { pattern, ..attention }
        }
    }
}

/// Layers from `max_window_layers` on have windows, or those that are listed, where `use_sliding_window` says so.
fn upper_windows(config: &Config, mut family: Family) -> Result<Family, Error> {
    let wanted = config.flag("use_sliding_window")?;
    let window = config.optional_size("sliding_window")?.filter(|_| wanted);
    let from = config.size("max_window_layers")?;
    let listed = layer_kinds(config)?;
    if window.is_none() && listed.as_ref().is_some_and(|kinds| kinds.contains(&Kind::Window)) {
        return Err(wrong_kinds("has windows, and nothing says how wide they are"));
    }
    let has_window = |layer: usize| match &listed {
        Some(kinds) => kinds[layer] == Kind::Window,
        None => layer >= from,
    };
    if let (true, Some(target)) = (window.is_some(), &mut family.formula.target)
        && let Depth::Layers(layers) = target.stack.depth
    {
        let layers: Vec<usize> = (0..layers).filter(|&layer| has_window(layer)).collect();
        let mut block = target.stack.block.clone();
        for sublayer in &mut block {
            if let Mix::Attend(attention) = &mut sublayer.mix {
                *attention = windowed(attention.clone(), window);
            }
        }
        if !layers.is_empty() {
            target.stack.others.push(Other { layers, block });
        }
    }
    Ok(family)
}

/// A decoder of this family, whose attention `change` may vary.
fn decoder(
    config: &Config,
    bias: ProjectionBias,
    change: impl Fn(Attention) -> Attention,
) -> Result<Family, Error> {
    let width = config.size("hidden_size")?;
    let query = config.size("num_attention_heads")?;
    let key = config.size_or("num_key_value_heads", query)?;
    let size = config.size_or("head_dim", width / query.max(1))?;
    let norm = Norm::Rms { epsilon: config.float("rms_norm_eps")? as f32 };
    let own = change(attention(Heads { query, key, size }, Reach::Past, bias));
    let feed = FeedForward::Gated {
        hidden: config.size("intermediate_size")?,
        act: activation(config, "hidden_act")?,
        bias: config.flag("mlp_bias")?,
    };
    let stack = Stack {
        width,
        depth: Depth::Layers(config.layers("num_hidden_layers")?),
        position: Position::Rotary(rotary(config, config.float_or("rope_theta", 10_000.0)?, None)?),
        block: pre_norm(vec![Mix::Attend(own), Mix::Feed(feed)], norm),
        others: Vec::new(),
        final_norm: Some(norm),
    };
    let tied = config.flag("tie_word_embeddings")?;
    let side = Side { input: input(tokens(config.size("vocab_size")?)), stack };
    let (pooler, head) = decoder_head(config, words(tied, false))?;
    let formula = Formula { source: None, target: Some(side), pooler, head };
    let mut family = Family::new(formula, rules());
    family.prefixes = &["model.", "transformer."];
    family.skipped = if tied { &["lm_head.weight"] } else { &[] };
    Ok(family)
}

/// Where the tensors of this family are.
pub(crate) fn rules() -> Vec<Rule> {
    let mut rules = vec![
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
    ];
    rules.extend(head_rules());
    rules
}
