//! Rotary positions as configurations write them, in the old keys and the new.

use glassformer_formula::{Pairing, Rotary, Scaling};
use serde_json::Value;

use crate::{Config, Error};

/// What `config` says about turning, in the old key or the new: where both say something, the old one counts.
pub(crate) fn parameters(config: &Config) -> Option<&Value> {
    let says = |value: &&Value| value.as_object().is_none_or(|keys| !keys.is_empty());
    let (old, new) = (config.get("rope_scaling"), config.get("rope_parameters"));
    old.filter(says).or(new.filter(says))
}

/// The rotary position of `config`: of `base` where the parameters have none; `size` if only a part of each head turns.
pub(crate) fn rotary(config: &Config, base: f64, size: Option<usize>) -> Result<Rotary, Error> {
    let parameters = parameters(config);
    if let Some(other) = parameters.filter(|parameters| !parameters.is_object()) {
        let why = format!("is {other}, and should be an object");
        return Err(Error::Key { key: "rope_scaling".into(), why });
    }
    let number = |key: &str| parameters.and_then(|p| p.get(key)).and_then(Value::as_f64);
    let longest = longest(config)?;
    // Beside the parameters it counts more than within.
    let outer = config.optional_size("original_max_position_embeddings")?;
    let inner = number("original_max_position_embeddings").map(|original| original as usize);
    let original = outer.or(inner).unwrap_or(longest);
    let wanted = |key: &str| {
        number(key).ok_or_else(|| Error::Key { key: format!("rope_scaling.{key}"), why: "is missing".into() })
    };
    let kind = parameters.and_then(|p| p.get("rope_type").or_else(|| p.get("type"))).and_then(Value::as_str);
    let scaling = match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: wanted("factor")? },
        "dynamic" => Scaling::Dynamic { factor: wanted("factor")?, original: longest },
        "yarn" => Scaling::Yarn {
            factor: wanted("factor")?,
            original,
            fast: number("beta_fast").unwrap_or(32.0),
            slow: number("beta_slow").unwrap_or(1.0),
            magnitude: number("attention_factor").or_else(|| {
                let sharpened =
                    |m: f64, factor: f64| if factor > 1.0 { 0.1 * m * factor.ln() + 1.0 } else { 1.0 };
                let (top, bottom) = (number("mscale")?, number("mscale_all_dim")?);
                let factor = number("factor")?;
                (top != 0.0 && bottom != 0.0).then(|| sharpened(top, factor) / sharpened(bottom, factor))
            }),
            whole: match parameters.and_then(|p| p.get("truncate")) {
                Some(Value::Null) => false, // as good as false there, and not as good as missing
                given => given.and_then(Value::as_bool).unwrap_or(true),
            },
        },
        "llama3" => Scaling::Llama3 {
            factor: wanted("factor")?,
            low: wanted("low_freq_factor")?,
            high: wanted("high_freq_factor")?,
            original,
        },
        "longrope" => longrope(parameters, longest, original)?,
        other => {
            let why =
                format!("is {other:?}, and should be default, linear, dynamic, yarn, llama3 or longrope");
            return Err(Error::Key { key: "rope_scaling.rope_type".into(), why });
        }
    };
    let base = number("rope_theta").unwrap_or(base);
    Ok(Rotary { base, size, layout: Pairing::Halves, scaling })
}

/// How many positions a model of this kind was trained for.
fn longest(config: &Config) -> Result<usize, Error> {
    config.size("max_position_embeddings")
}

fn longrope(parameters: Option<&Value>, longest: usize, original: usize) -> Result<Scaling, Error> {
    let list = |key: &str| -> Result<Vec<f64>, Error> {
        let bad =
            || Error::Key { key: format!("rope_scaling.{key}"), why: "is not a list of numbers".into() };
        let given = parameters.and_then(|p| p.get(key)).and_then(Value::as_array).ok_or_else(bad)?;
        given.iter().map(|x| x.as_f64().ok_or_else(bad)).collect()
    };
    let number = |key: &str| parameters.and_then(|p| p.get(key)).and_then(Value::as_f64);
    let factor = number("factor").unwrap_or(longest as f64 / original as f64);
    let natural = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f64).ln()).sqrt() };
    let magnitude = number("attention_factor").unwrap_or(natural);
    Ok(Scaling::Long { short: list("short_factor")?, long: list("long_factor")?, original, magnitude })
}
