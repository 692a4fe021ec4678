//! Rotary positions as configurations write them, in the old keys and the new.

use glassformer_formula::{Pairing, Rotary, Scaling};
use serde_json::Value;

use crate::{Config, Error};

/// The rotary position of `config`; `size` if only a part of each head turns.
pub(crate) fn rotary(config: &Config, size: Option<usize>) -> Result<Rotary, Error> {
    let parameters = config.get("rope_parameters").or_else(|| config.get("rope_scaling"));
    let _ = (config.get("rope_parameters"), config.get("rope_scaling")); // both read, whichever counts
    let number = |key: &str| parameters.and_then(|p| p.get(key)).and_then(Value::as_f64);
    let base = match number("rope_theta") {
        Some(base) => base,
        None => config.float_or("rope_theta", 10_000.0)?,
    };
    let _ = config.get("rope_theta");
    let original = || -> Result<usize, Error> {
        match number("original_max_position_embeddings") {
            Some(original) => Ok(original as usize),
            None => match config.optional_size("original_max_position_embeddings")? {
                Some(original) => Ok(original),
                None => config.size_or("max_position_embeddings", 2048),
            },
        }
    };
    let wanted = |key: &str| {
        number(key).ok_or_else(|| Error::Key { key: format!("rope_scaling.{key}"), why: "is missing".into() })
    };
    let kind = parameters.and_then(|p| p.get("rope_type").or_else(|| p.get("type"))).and_then(Value::as_str);
    let scaling = match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: wanted("factor")? },
        "dynamic" => Scaling::Dynamic {
            factor: wanted("factor")?,
            original: config.size_or("max_position_embeddings", 2048)?,
        },
        "yarn" => Scaling::Yarn {
            factor: wanted("factor")?,
            original: original()?,
            fast: number("beta_fast").unwrap_or(32.0),
            slow: number("beta_slow").unwrap_or(1.0),
            magnitude: number("attention_factor").or_else(|| {
                let sharpened =
                    |m: f64, factor: f64| if factor > 1.0 { 0.1 * m * factor.ln() + 1.0 } else { 1.0 };
                let (top, bottom) = (number("mscale")?, number("mscale_all_dim")?);
                let factor = number("factor")?;
                (top != 0.0 && bottom != 0.0).then(|| sharpened(top, factor) / sharpened(bottom, factor))
            }),
            whole: parameters.and_then(|p| p.get("truncate")).and_then(Value::as_bool).unwrap_or(true),
        },
        "llama3" => Scaling::Llama3 {
            factor: wanted("factor")?,
            low: wanted("low_freq_factor")?,
            high: wanted("high_freq_factor")?,
            original: original()?,
        },
        "longrope" => longrope(config, parameters, original()?)?,
        other => {
            let why =
                format!("is {other:?}, and should be default, linear, dynamic, yarn, llama3 or longrope");
            return Err(Error::Key { key: "rope_scaling.rope_type".into(), why });
        }
    };
    Ok(Rotary { base, size, layout: Pairing::Halves, scaling })
}

fn longrope(config: &Config, parameters: Option<&Value>, original: usize) -> Result<Scaling, Error> {
    let list = |key: &str| -> Result<Vec<f64>, Error> {
        let bad =
            || Error::Key { key: format!("rope_scaling.{key}"), why: "is not a list of numbers".into() };
        let given = parameters.and_then(|p| p.get(key)).and_then(Value::as_array).ok_or_else(bad)?;
        given.iter().map(|x| x.as_f64().ok_or_else(bad)).collect()
    };
    let number = |key: &str| parameters.and_then(|p| p.get(key)).and_then(Value::as_f64);
    let longest = config.size_or("max_position_embeddings", 2048)? as f64;
    let factor = number("factor").unwrap_or(longest / original as f64);
    let natural = if factor <= 1.0 { 1.0 } else { (1.0 + factor.ln() / (original as f64).ln()).sqrt() };
    let magnitude = number("attention_factor").unwrap_or(natural);
    Ok(Scaling::Long { short: list("short_factor")?, long: list("long_factor")?, original, magnitude })
}
