//! Longformer (Beltagy et al. 2020): RoBERTa with windows, and rows that see all through projections of their own.

use glassformer_formula::{Attention, Global, Mix, Other, Pattern, Stack, Sublayer};
use serde_json::{Value, json};

use crate::bert::{encoder, layer_rules};
use crate::roberta::{headed, norm, positions, types};
use crate::rules::rule;
use crate::{Config, Error, Family};

/// `LongformerModel` and its heads.
pub(crate) fn longformer(config: &Config) -> Result<Family, Error> {
    let norm = norm(config)?;
    config.only("attention_mode", &[json!("longformer")])?;
    config.only("ignore_attention_mask", &[Value::Bool(false)])?;
    let mut stack = encoder(config, positions(config)?, norm)?;
    windows(config, &mut stack)?;
    let mut family = headed(config, stack, types(config)?, norm)?;
    family.prefixes = &["longformer."];
    for part in ["query", "key", "value"] {
        let ours = format!("source.{{n}}.attend.global.{part}.{{wb}}");
        family.rules.push(rule(&ours, &format!("encoder.layer.{{n}}.attention.self.{part}_global.{{wb}}")));
    }
    family.rules.extend(layer_rules("encoder.layer.{n}"));
    // A classifier reads the first row, which therefore sees all unless the user says otherwise.
    if config.architecture().ends_with("ForSequenceClassification") {
        family.global = vec![0];
    }
    Ok(family)
}

/// `attention_window` counts both sides, for all layers or for each.
fn windows(config: &Config, stack: &mut Stack) -> Result<(), Error> {
    let bad = || Error::Key {
        key: "attention_window".into(),
        why: "should be a number, or one for each layer".into(),
    };
    let layers = config.layers("num_hidden_layers")?;
    let one = |value: &Value| value.as_u64().map(|n| n as usize / 2).filter(|&n| n > 0).ok_or_else(bad);
    let each: Vec<usize> = match config.get("attention_window") {
        None => return Err(bad()),
        Some(Value::Array(list)) => list.iter().map(one).collect::<Result<_, _>>()?,
        Some(value) => vec![one(value)?; layers],
    };
    if each.len() != layers || each.is_empty() {
        return Err(bad());
    }
    let plain = stack.block.clone();
    stack.block = windowed(&plain, each[0]);
    for window in each.iter().copied().filter(|&window| window != each[0]) {
        if !stack.others.iter().any(|other| other.block == windowed(&plain, window)) {
            let layers = (0..layers).filter(|&layer| each[layer] == window).collect();
            stack.others.push(Other { layers, block: windowed(&plain, window) });
        }
    }
    Ok(())
}

fn windowed(block: &[Sublayer], window: usize) -> Vec<Sublayer> {
    let pattern = Pattern::Sliding { window, global: Global::Separate };
    let change = |sublayer: &Sublayer| match &sublayer.mix {
        Mix::Attend(own) => {
            Sublayer { mix: Mix::Attend(Attention { pattern, ..own.clone() }), ..sublayer.clone() }
        }
        Mix::Feed(_) => sublayer.clone(),
    };
    block.iter().map(change).collect()
}
