//! ○ and what it composes: blocks of sublayers, their norms and feeds.

use serde::{Deserialize, Serialize};

use super::attend::Attention;
use super::norm::Norm;
use super::position::Position;

/// ○: blocks of sublayers, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// Numbers per row (`d_model`, hidden size).
    pub width: usize,
    /// How often the block is applied, and with whose weights.
    pub depth: Depth,
    /// How the order of the rows is told.
    pub position: Position,
    /// The sublayers of one block, in order.
    pub block: Vec<Sublayer>,
    /// Layers with another block: where windows alternate with full views, or the first layer lacks a norm (ModernBERT).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Other>,
    /// A norm after the last block (pre-norm stacks need it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_norm: Option<Norm>,
}

impl Stack {
    /// All blocks: the stack's, then those that other layers have.
    pub fn blocks(&self) -> impl Iterator<Item = &[Sublayer]> {
        [&self.block[..]].into_iter().chain(self.others.iter().map(|other| &other.block[..]))
    }
}

/// Layers that have a block of their own instead of the stack's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    /// Which layers, counted from 0.
    pub layers: Vec<usize>,
    /// Their block.
    pub block: Vec<Sublayer>,
}

/// How often the block is applied, and with whose weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Depth {
    /// That many blocks, each with its own weights.
    Layers(usize),
    /// One block, applied `times` times (ALBERT, Universal Transformer without halting).
    Shared {
        /// How often.
        times: usize,
    },
    /// That many layers in groups of neighbours with the same weights (ALBERT with several groups).
    Groups {
        /// Layers in all.
        layers: usize,
        /// Different sets of weights.
        groups: usize,
    },
    /// One block, applied until each row has had enough (Universal Transformer with adaptive computation time, Graves 2016).
    Adaptive {
        /// At most how often.
        max: usize,
        /// A row stops once its summed halting probability exceeds this.
        threshold: f32,
    },
}

/// I + f with its norms: `output(x + branch(mix(input(x))))`.
///
/// Post-norm has `output`, pre-norm `input`, a sandwich `input` and `branch`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sublayer {
    /// f: what is added to the rows.
    pub mix: Mix,
    /// What f looks at.
    #[serde(default)]
    pub reads: Reads,
    /// Where norms stand.
    pub norm: NormSites,
}

/// What the mix of a sublayer looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// The rows as the sublayer before left them.
    #[default]
    Rows,
    /// The rows as they entered the block: attention and feed-forward side by side (parallel residual, GPT-NeoX).
    Block,
}

/// Where the norms of a sublayer stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormSites {
    /// Before the mix (pre-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Norm>,
    /// After the mix, before the sum (sandwich).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<Norm>,
    /// After the sum (post-norm).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Norm>,
}

/// f of a sublayer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Mix {
    /// Rows look at other rows.
    Attend(Attention),
    /// Each row by itself.
    Feed(FeedForward),
}

/// FFN: each row by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FeedForward {
    /// `act(x W₁ + b₁) W₂ + b₂`.
    Plain {
        /// Numbers per row in between.
        hidden: usize,
        /// The activation function.
        act: Activation,
        /// Whether there are b₁ and b₂.
        #[serde(default)]
        bias: bool,
    },
    /// `(act(x W_gate) ⊙ x W_up) W_down` (GLU variants, Shazeer 2020).
    Gated {
        /// Numbers per row in between.
        hidden: usize,
        /// The gate's activation function.
        act: Activation,
        /// Whether the three projections have biases.
        #[serde(default)]
        bias: bool,
    },
}

/// The activation function between two projections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// x Φ(x), exact.
    Gelu,
    /// x Φ(x) by tanh (`gelu_new`, GPT-2).
    GeluTanh,
    /// x σ(x), also swish.
    Silu,
    /// tanh x.
    Tanh,
    /// σ(x).
    Sigmoid,
}
