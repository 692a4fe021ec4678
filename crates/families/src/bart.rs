//! BART (Lewis et al. 2019) and the translators built like it.

use glassformer_formula::{
    Counting, Depth, Formula, Head, InputScale, Mix, Norm, Pairing, Position, ProjectionBias, Reach, Side,
    Spread, Stack, Sublayer, Table, Tokens, When,
};
use serde_json::json;

use crate::blocks::{
    across, activation, attention, head_rules, heads, input, padding, pair_head, plain, post_norm, pre_norm,
    tokens, words,
};
use crate::family::Sinusoids;
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family, Rule};

/// What tells the members of this family apart.
pub(crate) struct Style {
    /// Where positions come from.
    pub position: Position,
    /// Where norms stand.
    pub sites: fn(Vec<Mix>, Norm) -> Vec<Sublayer>,
    /// A norm right after the input.
    pub input_norm: bool,
    /// A norm after the last layer: where each layer begins with one, and only there.
    pub final_norm: bool,
    /// Whether words have a bias of their own.
    pub bias: bool,
    /// The words of the target, where they are not the source's.
    pub target_words: Option<usize>,
}

/// `BartForConditionalGeneration`.
pub(crate) fn bart(config: &Config) -> Result<Family, Error> {
    let max = config.size("max_position_embeddings")?;
    let position = Position::Learned { max, offset: 2, counting: Counting::Every };
    encoder_decoder(
        config,
        &Style {
            position,
            sites: post_norm,
            input_norm: true,
            final_norm: false,
            bias: true,
            target_words: None,
        },
    )
}

/// `MBartForConditionalGeneration`: pre-norm.
pub(crate) fn mbart(config: &Config) -> Result<Family, Error> {
    let max = config.size("max_position_embeddings")?;
    let position = Position::Learned { max, offset: 2, counting: Counting::Every };
    encoder_decoder(
        config,
        &Style {
            position,
            sites: pre_norm,
            input_norm: true,
            final_norm: true,
            bias: true,
            target_words: None,
        },
    )
}

/// `PegasusForConditionalGeneration`: pre-norm, sinusoidal.
pub(crate) fn pegasus(config: &Config) -> Result<Family, Error> {
    let style = Style {
        position: sinusoidal(),
        sites: pre_norm,
        input_norm: false,
        final_norm: true,
        bias: true,
        target_words: None,
    };
    Ok(Family { sinusoids: Sinusoids::Stored, ..encoder_decoder(config, &style)? })
}

/// `MarianMTModel`: post-norm, sinusoidal.
pub(crate) fn marian(config: &Config) -> Result<Family, Error> {
    config.only("static_position_embeddings", &[json!(true)])?;
    let vocabulary = config.size("vocab_size")?;
    let target_words = if config.flag("share_encoder_decoder_embeddings")? {
        config.only("decoder_vocab_size", &[json!(vocabulary)])?;
        None
    } else {
        Some(config.size_or("decoder_vocab_size", vocabulary)?)
    };
    let style = Style {
        position: sinusoidal(),
        sites: post_norm,
        input_norm: false,
        final_norm: false,
        bias: true,
        target_words,
    };
    Ok(Family { sinusoids: Sinusoids::Stored, ..encoder_decoder(config, &style)? })
}

/// `M2M100ForConditionalGeneration`, also NLLB: pre-norm, sinusoids that reach their base, counted from 2.
pub(crate) fn m2m_100(config: &Config) -> Result<Family, Error> {
    let position = Position::Sinusoidal {
        base: 10_000.0,
        layout: Pairing::Halves,
        spread: Spread::Closed,
        offset: (padding(config)? as usize).saturating_add(1),
        when: When::Once,
        counting: Counting::But(padding(config)?),
    };
    encoder_decoder(
        config,
        &Style {
            position,
            sites: pre_norm,
            input_norm: false,
            final_norm: true,
            bias: false,
            target_words: None,
        },
    )
}

fn sinusoidal() -> Position {
    let (layout, spread) = (Pairing::Halves, Spread::Open);
    Position::Sinusoidal {
        base: 10_000.0,
        layout,
        spread,
        offset: 0,
        when: When::Once,
        counting: Counting::Every,
    }
}

/// An encoder-decoder of this family.
pub(crate) fn encoder_decoder(config: &Config, style: &Style) -> Result<Family, Error> {
    // They were once one class with these switches. Files still carry them, and each family means one side of each.
    config.only("normalize_before", &[json!(style.final_norm)])?;
    config.only("add_final_layer_norm", &[json!(style.final_norm)])?;
    config.only("normalize_embedding", &[json!(style.input_norm)])?;
    config.only("add_bias_logits", &[json!(false)])?;
    let width = config.size("d_model")?;
    let norm = Norm::Layer { epsilon: 1e-5, bias: true };
    let act = activation(config, "activation_function")?;
    let stack = |layers: usize, mixes| Stack {
        width,
        depth: Depth::Layers(layers),
        position: style.position.clone(),
        block: (style.sites)(mixes, norm),
        others: Vec::new(),
        final_norm: style.final_norm.then_some(norm),
    };
    let own = |key, reach| -> Result<_, Error> {
        let query = config.size(key)?;
        Ok(attention(heads(width, query, query)?, reach, ProjectionBias::ALL))
    };
    let encoder = own("encoder_attention_heads", Reach::Both)?;
    let decoder = own("decoder_attention_heads", Reach::Past)?;
    let source = vec![Mix::Attend(encoder), plain(config.size("encoder_ffn_dim")?, act)];
    let target = vec![
        Mix::Attend(decoder.clone()),
        Mix::Attend(across(&decoder)),
        plain(config.size("decoder_ffn_dim")?, act),
    ];
    let scaled = config.flag("scale_embedding")?;
    let words_in = Tokens {
        scale: if scaled { InputScale::RootWidth } else { InputScale::One },
        norm: style.input_norm.then_some(norm),
        ..tokens(config.size("vocab_size")?)
    };
    let tied = config.flag("tie_word_embeddings")?;
    if style.target_words.is_none() {
        config.only("tie_word_embeddings", &[json!(true)])?;
    }
    let words_out = match style.target_words {
        Some(vocabulary) => Tokens { vocabulary, ..words_in.clone() },
        None => Tokens { table: Table::Source, ..words_in.clone() },
    };
    let (pooler, head) = pair_head(config, words(tied, style.bias));
    let formula = Formula {
        source: Some(Side { input: input(words_in), stack: stack(config.size("encoder_layers")?, source) }),
        target: Some(Side { input: input(words_out), stack: stack(config.size("decoder_layers")?, target) }),
        pooler,
        head,
    };
    let mut family = Family::new(formula, rules());
    if let Head::Words { .. } = family.formula.head {
        // A file without biases adds nothing to a word, of which the target's table has as many as rows.
        let tables = ["decoder.embed_tokens.weight", "shared.weight", "encoder.embed_tokens.weight"];
        family.rules.extend(tables.map(|table| how("head.bias", table, How::Noughts)));
    }
    family.prefixes = &["model."];
    family.copies = &["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    family.skipped = &[
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "lm_head.weight",
        "embed_positions.weights",
        "embed_positions.weight",
        "final_logits_bias",
    ];
    Ok(family)
}

/// Where the tensors of this family are.
pub(crate) fn rules() -> Vec<Rule> {
    let mut rules = vec![
        rule("source.embed.tokens", "shared.weight"),
        rule("source.embed.tokens", "encoder.embed_tokens.weight"),
        rule("target.embed.tokens", "decoder.embed_tokens.weight"),
        rule("head.weight", "lm_head.weight"),
        rule("head.bias", "final_logits_bias"),
        rule("source.embed.positions", "encoder.embed_positions.weight"),
        rule("target.embed.positions", "decoder.embed_positions.weight"),
        rule("source.embed.norm.{norm}", "encoder.layernorm_embedding.{norm}"),
        rule("target.embed.norm.{norm}", "decoder.layernorm_embedding.{norm}"),
        rule("source.norm.{norm}", "encoder.layer_norm.{norm}"),
        rule("target.norm.{norm}", "decoder.layer_norm.{norm}"),
    ];
    for (ours, theirs) in [("source", "encoder"), ("target", "decoder")] {
        let mut layer = |a: &str, b: &str| {
            rules.push(rule(&format!("{ours}.{{n}}.{a}"), &format!("{theirs}.layers.{{n}}.{b}")));
        };
        for (sublayer, name) in [("attend", "self_attn"), ("cross", "encoder_attn")] {
            for (part, letter) in
                [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")]
            {
                layer(&format!("{sublayer}.{part}.{{wb}}"), &format!("{name}.{letter}.{{wb}}"));
            }
            layer(&format!("{sublayer}.norm_out.{{norm}}"), &format!("{name}_layer_norm.{{norm}}"));
            layer(&format!("{sublayer}.norm_in.{{norm}}"), &format!("{name}_layer_norm.{{norm}}"));
        }
        layer("feed.up.{wb}", "fc1.{wb}");
        layer("feed.down.{wb}", "fc2.{wb}");
        layer("feed.norm_out.{norm}", "final_layer_norm.{norm}");
        layer("feed.norm_in.{norm}", "final_layer_norm.{norm}");
    }
    rules.extend(head_rules());
    rules
}
