//! MPNet (Song et al. 2020): `RoBERTa`'s input, and buckets in the scores of all layers.

use glassformer_formula::Position;
use serde_json::json;

use crate::bert::encoder;
use crate::roberta::{behind, headed, norm};
use crate::rules::{How, how, rule};
use crate::{Config, Error, Family};

/// Buckets that distances are told apart by; the configuration gives the size of the table, which may have more rows.
const BUCKETS: usize = 32;

/// The token that positions do not count, whatever the configuration calls padding.
const PADDING: u32 = 1;

/// `MPNetModel` and its heads.
pub(crate) fn mpnet(config: &Config) -> Result<Family, Error> {
    let buckets = Position::Buckets { count: BUCKETS, max_distance: 128 };
    config.only("position_embedding_type", &[json!("absolute")])?;
    let norm = norm(config)?;
    let stack = encoder(config, Position::Together(vec![behind(config, PADDING)?, buckets]), norm)?;
    let mut family = headed(config, stack, None, norm)?;
    family.prefixes = &["mpnet."];
    let used = match config.size("relative_attention_num_buckets")? {
        BUCKETS => How::Same,
        rows if rows > BUCKETS => How::Rows { from: 0, to: BUCKETS },
        rows => {
            let why =
                format!("is {rows}, and should be {BUCKETS} or more: so many are used, whatever it says");
            return Err(Error::Key { key: "relative_attention_num_buckets".into(), why });
        }
    };
    family.rules.push(how("source.position.table", "encoder.relative_attention_bias.weight", used));
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
