//! MultiHead: who looks at whom, with which heads.

use serde::{Deserialize, Serialize};

use super::norm::Norm;
use super::position::Rotary;

/// MultiHead: `concat(headᵢ) W_O`, `headᵢ = softmax(scale · Q Kᵀ + position) V`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Where keys and values come from.
    #[serde(default)]
    pub source: Source,
    /// Which way a row may look.
    pub reach: Reach,
    /// Which rows of those it really looks at.
    #[serde(default)]
    pub pattern: Pattern,
    /// How many heads, and how wide.
    pub heads: Heads,
    /// What q · k is multiplied by.
    #[serde(default)]
    pub scale: Scale,
    /// Which projections have a bias.
    #[serde(default)]
    pub bias: ProjectionBias,
    /// A norm of each query and key, head by head (QK norm, Qwen3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Other angles than the stack's rotary position has (ModernBERT's windows).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<Rotary>,
}

/// Where keys and values come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The same rows as the queries: self-attention.
    #[default]
    Own,
    /// The encoder's output: cross-attention.
    Memory,
}

/// Which way a row may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// At every row.
    Both,
    /// At itself and at rows before it: the mask of document 1, ▷.
    Past,
}

/// Which rows within reach are really looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pattern {
    /// All of them.
    #[default]
    Dense,
    /// Those at most `window` rows away (Longformer, Mistral), and global ones.
    Sliding {
        /// How far, to each side; 0 is the row itself alone.
        window: usize,
        /// Whether some rows see and are seen by all.
        #[serde(default)]
        global: Global,
    },
    /// All of them, squeezed into `rank` rows by a learned projection (Linformer).
    LowRank {
        /// How many rows remain.
        rank: usize,
        /// The longest sequence that the projection covers.
        length: usize,
        /// Who shares a projection.
        #[serde(default)]
        sharing: Sharing,
    },
}

/// Whether some rows of a sliding pattern see and are seen by all. Which ones is said with each input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Global {
    /// None does.
    #[default]
    None,
    /// Some do, with the projections of the others.
    Shared,
    /// Some do, and look through projections of their own (Longformer).
    Separate,
}

/// Who shares Linformer's projection. It is always common to the heads of one attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Keys and values have one each.
    #[default]
    Heads,
    /// Keys and values share one.
    KeyValue,
    /// All layers of the stack share one, for keys and values.
    Layers,
}

/// How many heads, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key and value heads; fewer than query heads is grouped-query attention.
    pub key: usize,
    /// Numbers per head (`d_k`). Text may leave it out: reading then fills in width / query.
    #[serde(default = "unstated")]
    pub size: usize,
}

fn unstated() -> usize {
    Heads::UNSTATED
}

/// What q · k is multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// 1/√size.
    #[default]
    RootSize,
    /// 1 (T5).
    One,
    /// This number.
    By(f32),
}

/// Which projections of an attention have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "four projections, each with a bias or without")]
pub struct ProjectionBias {
    /// `W_Q`.
    pub query: bool,
    /// `W_K`.
    pub key: bool,
    /// `W_V`.
    pub value: bool,
    /// `W_O`.
    pub output: bool,
}

impl ProjectionBias {
    /// A bias everywhere.
    pub const ALL: Self = Self { query: true, key: true, value: true, output: true };
    /// None anywhere.
    pub const NONE: Self = Self { query: false, key: false, value: false, output: false };
}
