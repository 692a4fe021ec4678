//! What stands behind the commas of a line: how many heads, which ε, what is seen.

/// What stands behind the commas of a line.
#[derive(Default)]
pub(super) struct Given {
    pub heads: usize,
    pub epsilon: f64,
    pub threshold: f64,
    /// Columns, or ids, from and to which the line holds.
    pub range: Option<(usize, usize)>,
    pub pairs: Option<Pairs>,
    /// The token that is not counted.
    pub padding: Option<u32>,
    pub magnitude: f64,
    pub masks: Vec<Mask>,
}

pub(super) enum Pairs {
    Neighbours,
    Apart(usize),
}

pub(super) enum Mask {
    Past,
    Window(usize),
    WindowOrGlobal(usize),
    Local,
    Global,
}

impl Given {
    pub fn of(conditions: &[String]) -> Result<Self, String> {
        let mut given = Self { heads: 1, magnitude: 1.0, ..Self::default() };
        for text in conditions {
            let whole =
                |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} is no whole number"));
            let real = |text: &str| text.parse::<f64>().map_err(|_| format!("{text:?} is no number"));
            if let Some(heads) = text.strip_prefix("h = ") {
                given.heads = whole(heads)?;
                if given.heads == 0 {
                    return Err("there are no heads".to_owned());
                }
            } else if text.starts_with("h_kv = ") {
                // As many as the keys have room for.
            } else if let Some(epsilon) = text.strip_prefix("ε = ") {
                given.epsilon = real(epsilon)?;
            } else if let Some(threshold) = text.strip_prefix("τ = ") {
                given.threshold = real(threshold)?;
            } else if let Some(magnitude) = text.strip_prefix("× ") {
                given.magnitude = real(magnitude)?;
            } else if text == "2i ↔ 2i + 1" {
                given.pairs = Some(Pairs::Neighbours);
            } else if let Some(apart) = text.strip_prefix("i ↔ i + ") {
                given.pairs = Some(Pairs::Apart(whole(apart)?));
            } else if text == "j ≤ i" {
                given.masks.push(Mask::Past);
            } else if let Some(window) = text.strip_prefix("|i − j| ≤ ") {
                given.masks.push(match window.strip_suffix(" ∨ gᵢ ∨ gⱼ") {
                    Some(window) => Mask::WindowOrGlobal(whole(window)?),
                    None => Mask::Window(whole(window)?),
                });
            } else if text == "¬gᵢ" {
                given.masks.push(Mask::Local);
            } else if text == "gᵢ" {
                given.masks.push(Mask::Global);
            } else if let Some(rest) = text.strip_prefix("cᵢ = [tᵢ ≠ ") {
                let padding = rest.split_once(']').and_then(|(id, _)| id.parse().ok());
                let padding: u32 = padding.ok_or_else(|| format!("{text:?} names no token"))?;
                if *text != format!("cᵢ = [tᵢ ≠ {padding}] · Σ_(j ≤ i) [tⱼ ≠ {padding}]") {
                    return Err(format!("{text:?} counts otherwise"));
                }
                given.padding = Some(padding);
            } else if let Some((from, to)) = text.split_once(" ≤ k < ").or(text.split_once(" ≤ t < ")) {
                given.range = Some((whole(from)?, whole(to)?));
            } else {
                return Err(format!("nobody can know what {text:?} means"));
            }
        }
        Ok(given)
    }
}
