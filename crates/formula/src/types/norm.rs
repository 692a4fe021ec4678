//! LN.

use serde::{Deserialize, Serialize};

use super::defaults::yes;

/// LN: rows brought to one scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Norm {
    /// `γ ⊙ (x − μ)/√(σ² + ε) + β` (Ba et al. 2016).
    Layer {
        /// ε.
        epsilon: f32,
        /// Whether there is a β.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// `γ ⊙ x/√(mean(x²) + ε)` (Zhang and Sennrich 2019).
    Rms {
        /// ε.
        epsilon: f32,
    },
}
