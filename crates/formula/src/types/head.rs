//! What is read off the last stack.

use serde::{Deserialize, Serialize};

use super::defaults::yes;
use super::input::Clusters;
use super::norm::Norm;
use super::stack::Activation;

/// One row for each sequence: `norm(act(pool(x) W + b))`, or just the pooled row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pooler {
    /// Which rows are read.
    pub pool: Pool,
    /// What is done to the pooled row: a projection to the stack's width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dense: Option<Dense>,
    /// What is done to it then, in this order (the modules of sentence-transformers).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Then>,
}

impl Pooler {
    /// The pooled row itself.
    pub fn of(pool: Pool) -> Self {
        Self { pool, dense: None, then: Vec::new() }
    }
}

/// One step of what is done to a pooled row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Then {
    /// `act(x W + b)`.
    Dense {
        /// Numbers per row that it leads to.
        width: usize,
        /// The activation function, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        act: Option<Activation>,
        /// Whether there is a b.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A norm.
    Norm(Norm),
    /// `x/‖x‖`: a row of length 1, so that a product of two is their cosine.
    Unit,
}

/// One projection with its activation function: `norm(act(x W + b))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// The activation function, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Activation>,
    /// Whether there is a b.
    #[serde(default = "yes")]
    pub bias: bool,
    /// A norm after the activation function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
}

/// What is read off the last stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Head {
    /// The rows themselves, and the pooled ones.
    Rows,
    /// A score for every word of the vocabulary: `W_o` of document 1.
    Words {
        /// Whether `W_o` is the embedding table of the last stack's input.
        #[serde(default)]
        tied: bool,
        /// Whether there is a bias.
        #[serde(default)]
        bias: bool,
        /// What is done to a row first (BERT's masked words); it leads to the width of the input's table, tied or not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dense: Option<Dense>,
        /// What rows are multiplied by then, before the table (T5 with a tied one: 1/√width).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<f32>,
    },
    /// Logarithms of probabilities of all words: those of frequent words and of clusters of rare ones first, then of the words
    /// within each cluster (adaptive softmax, Grave et al. 2016).
    Adaptive {
        /// The clusters.
        clusters: Clusters,
        /// Whether clusters use the input's tables.
        #[serde(default)]
        tied: bool,
    },
    /// A score for every class, one row a sequence, read off the pooler.
    Classes {
        /// How many classes.
        count: usize,
        /// Whether there is a bias.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A score for every tag, one row a token.
    Tags {
        /// How many tags.
        count: usize,
        /// What is done to a row first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dense: Option<Dense>,
    },
    /// A score for being the first and one for being the last token of an answer.
    Spans,
}

/// Which rows of a sequence a pooler reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The last one whose token is not this; the first one where there is none.
    LastBut(u32),
    /// Their mean.
    Mean,
    /// Their sum over the root of their number.
    MeanRoot,
    /// Their mean where the i-th counts i times.
    WeightedMean,
    /// The largest number of each column.
    Max,
    /// Several of these, side by side.
    Together(Vec<Pool>),
}

impl Pool {
    /// What is read: itself, or those that stand side by side.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Together(parts) => parts,
            Self::First
            | Self::Last
            | Self::LastBut(_)
            | Self::Mean
            | Self::MeanRoot
            | Self::WeightedMean
            | Self::Max => std::slice::from_ref(self),
        }
    }
}
