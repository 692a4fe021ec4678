//! MPNet (Song et al. 2020): `RoBERTa`'s input, and buckets in the scores of all layers.

use glassformer_formula::Position;

use crate::bert::encoder;
use crate::roberta::{headed, norm, positions};
use crate::rules::rule;
use crate::{Config, Error, Family};

/// `MPNetModel` and its heads.
pub(crate) fn mpnet(config: &Config) -> Result<Family, Error> {
    let buckets =
        Position::Buckets { count: config.size_or("relative_attention_num_buckets", 32)?, max_distance: 128 };
    let norm = norm(config)?;
    let stack = encoder(config, Position::Together(vec![positions(config)?, buckets]), norm, "gelu")?;
    let _ = config.get("type_vocab_size"); // it has none, whatever files say
    let mut family = headed(config, stack, None, norm)?;
    family.prefixes = &["mpnet."];
    family.rules.push(rule("source.position.table", "encoder.relative_attention_bias.weight"));
    let layer = [
        ("attend.query.{wb}", "attention.attn.q.{wb}"),
        ("attend.key.{wb}", "attention.attn.k.{wb}"),
        ("attend.value.{wb}", "attention.attn.v.{wb}"),
        ("attend.output.{wb}", "attention.attn.o.{wb}"),
        ("attend.norm_out.{norm}", "attention.LayerNorm.{norm}"),
        ("feed.up.{wb}", "intermediate.dense.{wb}"),
        ("feed.down.{wb}", "output.dense.{wb}"),
        ("feed.norm_out.{norm}", "output.LayerNorm.{norm}"),
    ];
    family
        .rules
        .extend(layer.map(|(a, b)| rule(&format!("source.{{n}}.{a}"), &format!("encoder.layer.{{n}}.{b}"))));
    Ok(family)
}
