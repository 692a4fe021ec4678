//! Sinusoids, whose line says which column holds which wave.

use super::array::{Array, room};
use super::evaluate::World;
use super::given::Given;
use super::parse;

/// `P[p, 2i] = sin θ, P[p, 2i + 1] = cos θ, θ = p / 10000^(2i / 8)`.
pub(super) fn waves(text: &str, world: &World) -> Result<Array, String> {
    let parts = parse::split(text, ',');
    let [sine, cosine, angle, conditions @ ..] = &parts[..] else { return Err(format!("{text:?}")) };
    let (zeros, conditions) = match conditions {
        [conditions @ .., last] if last == "0 where c = 0" => (true, conditions),
        conditions => (false, conditions),
    };
    let given = Given::of(conditions)?;
    let column = |part: &str, wave: &str| -> Result<(usize, usize), String> {
        let inside = part.split_once("[p, ").and_then(|(_, rest)| rest.split_once(&format!("] = {wave} θ")));
        let inside = inside.ok_or_else(|| format!("{part:?} is no {wave}"))?.0;
        let (step, offset) = inside.split_once(" + ").unwrap_or((inside, "0"));
        let step = match step {
            "i" => 1,
            "2i" => 2,
            _ => return Err(format!("{inside:?} is no column")),
        };
        Ok((step, offset.parse().map_err(|_| format!("{inside:?}"))?))
    };
    let ((step, first), (_, second)) = (column(sine, "sin")?, column(cosine, "cos")?);
    let angle = angle.strip_prefix("θ = ").ok_or_else(|| format!("{angle:?}"))?;
    let (place, wave) = angle.split_once(" / ").ok_or_else(|| format!("{angle:?}"))?;
    let (base, exponent) = wave.split_once("^(").ok_or_else(|| format!("{wave:?}"))?;
    let (above, below) =
        exponent.trim_end_matches(')').split_once(" / ").ok_or_else(|| format!("{wave:?}"))?;
    let real = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is no number"));
    let (base, below) = (real(base)?, real(below)?);
    let times = if above == "2i" { 2.0 } else { 1.0 };
    let (place, most) = match place.strip_prefix("min(") {
        Some(inside) => {
            let (place, most) = inside.trim_end_matches(')').split_once(", ").ok_or("no minimum")?;
            (place, real(most)?)
        }
        None => (place, f64::INFINITY),
    };
    let place = place.trim_matches(|c| matches!(c, '(' | ')'));
    let counts = place.starts_with('c');
    let start = place.trim_start_matches(['p', 'c']).trim_start_matches(" + ").replace("− ", "-");
    let start = if start.is_empty() { 0.0 } else { real(start.trim())? };
    if counts != given.padding.is_some() {
        return Err(format!("{text:?} does not say what c is"));
    }
    let [rows, columns] = world.shape[..] else { return Err("waves are no matrix".to_owned()) };
    let mut found = vec![0.0; room(&[rows, columns])?];
    for p in 0..rows {
        let counted = given.padding.map_or(p, |padding| world.counted(p, padding));
        if zeros && counted == 0 {
            continue;
        }
        let place = (counted as f64 + start).min(most);
        for i in 0..columns / 2 {
            let theta = place / base.powf(times * i as f64 / below);
            for (column, wave) in [(first, theta.sin()), (second, theta.cos())] {
                let column = (step * i).saturating_add(column);
                if column >= columns {
                    return Err(format!("there is no column {column}"));
                }
                found[p * columns + column] = wave;
            }
        }
    }
    Ok(Array::new(&[rows, columns], found))
}
