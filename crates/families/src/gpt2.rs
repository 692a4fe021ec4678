//! GPT-2 (Radford et al. 2019): learned positions, pre-norm, gelu; its files hold matrices transposed and q, k, v as one.

use glassformer_formula::{
    Counting, Depth, Formula, Mix, Norm, Position, ProjectionBias, Reach, Side, Stack,
};
use serde_json::json;

use crate::blocks::{
    activation, attention, decoder_head, head_rules, heads, input, plain, pre_norm, tokens, words,
};
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family, Rule};

/// `GPT2LMHeadModel` and its other heads.
pub(crate) fn gpt2(config: &Config) -> Result<Family, Error> {
    config.only("scale_attn_weights", &[json!(true)])?;
    config.only("scale_attn_by_inverse_layer_idx", &[json!(false)])?;
    let width = config.size("n_embd")?;
    let query = config.size("n_head")?;
    let norm = Norm::Layer { epsilon: config.float("layer_norm_epsilon")? as f32, bias: true };
    let own = attention(heads(width, query, query)?, Reach::Past, ProjectionBias::ALL);
    let act = activation(config, "activation_function")?;
    let feed = plain(config.size_or("n_inner", 4 * width)?, act);
    let stack = Stack {
        width,
        depth: Depth::Layers(config.size("n_layer")?),
        position: Position::Learned {
            max: config.size("n_positions")?,
            offset: 0,
            counting: Counting::Every,
        },
        block: pre_norm(vec![Mix::Attend(own), feed], norm),
        others: Vec::new(),
        final_norm: Some(norm),
    };
    let tied = config.flag("tie_word_embeddings")?;
    let (pooler, head) = decoder_head(config, words(tied, false))?;
    let side = Side { input: input(tokens(config.size("vocab_size")?)), stack };
    let mut family = Family::new(Formula { source: None, target: Some(side), pooler, head }, rules());
    family.prefixes = &["transformer."];
    family.skipped = if tied { &["lm_head.weight"] } else { &[] };
    Ok(family)
}

fn rules() -> Vec<Rule> {
    let third = |part| How::TransposedPart { part, of: 3 };
    let whole = How::TransposedPart { part: 0, of: 1 };
    let mut rules = vec![
        rule("target.embed.tokens", "wte.weight"),
        rule("target.embed.positions", "wpe.weight"),
        rule("target.{n}.attend.norm_in.{norm}", "h.{n}.ln_1.{norm}"),
        how("target.{n}.attend.query.{wb}", "h.{n}.attn.c_attn.{wb}", third(0)),
        how("target.{n}.attend.key.{wb}", "h.{n}.attn.c_attn.{wb}", third(1)),
        how("target.{n}.attend.value.{wb}", "h.{n}.attn.c_attn.{wb}", third(2)),
        how("target.{n}.attend.output.{wb}", "h.{n}.attn.c_proj.{wb}", whole),
        rule("target.{n}.feed.norm_in.{norm}", "h.{n}.ln_2.{norm}"),
        how("target.{n}.feed.up.{wb}", "h.{n}.mlp.c_fc.{wb}", whole),
        how("target.{n}.feed.down.{wb}", "h.{n}.mlp.c_proj.{wb}", whole),
        rule("target.norm.{norm}", "ln_f.{norm}"),
        rule("head.weight", "lm_head.weight"),
    ];
    rules.extend(head_rules());
    rules
}
