//! Formulas as TOML and JSON. Reading is parsing, filling in what may be left out, and checking; writing is checking, then
//! printing, so that whatever was written can be read.
//!
//! One number may be left out although the types have it: `heads.size`, which then becomes width / query.

use crate::check::Problems;
use crate::types::{Formula, Heads, Mix, Stack};

/// Why a text is not a formula, or a formula not a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text is not TOML, or has a key or value that a formula has not. The message names line, column and key.
    #[error("this TOML is not a formula: {0}")]
    Toml(String),
    /// The text is not JSON, or has a key or value that a formula has not. The message names line, column and key.
    #[error("this JSON is not a formula: {0}")]
    Json(String),
    /// The text is a formula, but one that cannot work.
    #[error(transparent)]
    Problems(#[from] Problems),
}

impl Formula {
    /// Reads a formula from TOML.
    ///
    /// ```
    /// use glassformer_formula::{Formula, print};
    ///
    /// let formula = Formula::from_toml(
    ///     r#"
    ///     [target.input.tokens]
    ///     vocabulary = 256
    ///
    ///     [target.stack]
    ///     width = 64
    ///     depth.layers = 4
    ///     position.rotary = {}
    ///     final_norm.rms.epsilon = 1e-6
    ///
    ///     [[target.stack.block]]
    ///     mix.attend = { reach = "past", heads = { query = 4, key = 2 } } # size: 64 / 4
    ///     norm.input.rms.epsilon = 1e-6
    ///
    ///     [[target.stack.block]]
    ///     mix.feed.gated = { hidden = 172, act = "silu" }
    ///     norm.input.rms.epsilon = 1e-6
    ///
    ///     [head.words]
    ///     tied = true
    ///     "#,
    /// )?;
    /// assert_eq!(
    ///     print::unicode(&formula),
    ///     "Y = softmax( (RMS ∘ ○ₗ₌₁⁴[ (I + FFN_SwiGLU ∘ RMS) ∘ (I + MaskedAttn_RoPE[4:2] ∘ RMS) ])(X) · Eᵀ )",
    /// );
    /// # Ok::<(), glassformer_formula::TextError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Where the text is not TOML, has an unknown key, or describes something that cannot work.
    pub fn from_toml(text: &str) -> Result<Self, TextError> {
        read(toml::from_str(text).map_err(|error| TextError::Toml(in_words(&error.to_string()))))
    }

    /// Writes the formula as TOML.
    ///
    /// # Errors
    ///
    /// Where the formula cannot work.
    pub fn to_toml(&self) -> Result<String, TextError> {
        self.check()?;
        toml::to_string_pretty(self).map_err(|error| TextError::Toml(error.to_string()))
    }

    /// Reads a formula from JSON.
    ///
    /// # Errors
    ///
    /// Where the text is not JSON, has an unknown key, or describes something that cannot work.
    pub fn from_json(text: &str) -> Result<Self, TextError> {
        read(serde_json::from_str(text).map_err(|error| TextError::Json(in_words(&error.to_string()))))
    }

    /// Writes the formula as JSON.
    ///
    /// # Errors
    ///
    /// Where the formula cannot work.
    pub fn to_json(&self) -> Result<String, TextError> {
        self.check()?;
        serde_json::to_string_pretty(self).map_err(|error| TextError::Json(error.to_string()))
    }
}

/// What a parser says, without the names of this program's types.
fn in_words(message: &str) -> String {
    let Some((before, wanted)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let end = wanted.find(" at line ").unwrap_or(wanted.trim_end().len());
    let (wanted, after) = wanted.split_at(end);
    let wanted = match wanted {
        "usize" | "u32" | "u64" => "a whole number",
        "f32" | "f64" => "a number",
        _ if wanted.starts_with("struct ") => "an object",
        _ => wanted,
    };
    format!("{before}, expected {wanted}{after}")
}

fn read(parsed: Result<Formula, TextError>) -> Result<Formula, TextError> {
    let mut formula = parsed?;
    for side in [&mut formula.source, &mut formula.target].into_iter().flatten() {
        fill(&mut side.stack);
    }
    formula.check()?;
    Ok(formula)
}

/// Fills in head sizes that were left out. Where the heads do not divide the width nothing is filled in, and the check
/// says so.
fn fill(stack: &mut Stack) {
    let others = stack.others.iter_mut().flat_map(|other| &mut other.block);
    for sublayer in stack.block.iter_mut().chain(others) {
        match &mut sublayer.mix {
            Mix::Attend(attention) => {
                let heads = &mut attention.heads;
                if heads.size == Heads::UNSTATED && heads.query > 0 && stack.width.is_multiple_of(heads.query)
                {
                    heads.size = stack.width / heads.query;
                }
            }
            Mix::Feed(_) => {}
        }
    }
}
