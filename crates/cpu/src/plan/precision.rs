//! Which products run on narrow numbers.

use std::fmt;
use std::sync::Arc;

use crate::narrow::Format;

/// What the weights of a model are held and multiplied in.
///
/// Only products get narrower. Norms, lookups, softmax and activations between the steps stay in `f32`, and so do sums. In a
/// training graph, whose weights are inputs, `bf16` is also what gradients are multiplied in; 8-bit integers are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Weights and activations rounded to `bf16`, sums in `f32`.
    Bf16,
    /// Eight bits: a scale for each output of a weight, and for each row of activations as it comes.
    Int8,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        })
    }
}

/// Tells by its name whether a weight stays as it is.
type Wide = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The precision of a backend, and which weights are exempt from it.
#[derive(Clone, Default)]
pub(super) struct Choice {
    pub precision: Precision,
    /// Whether the weight of this name stays as it is; where nobody said, those that are known to be sensitive do.
    pub wide: Option<Wide>,
}

impl Choice {
    /// What the weight of this name, with so many outputs, is held in, where it is not `f32`.
    pub fn of(&self, name: &str, outputs: usize) -> Option<Format> {
        let format = match self.precision {
            Precision::F32 => return None,
            Precision::Bf16 => Format::Bf16,
            Precision::Int8 => Format::Int8,
        };
        let wide = self.wide.as_ref().map_or_else(|| is_sensitive(name, outputs), |wide| wide(name));
        (!wide).then_some(format)
    }

    /// What a weight of this name is multiplied in where it changes from run to run: the parameter of a model that is
    /// trained. Nothing is known to be sensitive there, and eight bits are too few for all of it.
    pub fn trained(&self, name: &str) -> Option<Format> {
        match self.precision {
            Precision::F32 | Precision::Int8 => None,
            Precision::Bf16 => {
                let wide = self.wide.as_ref().is_some_and(|wide| wide(name));
                (!wide).then_some(Format::Bf16)
            }
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({:?})", self.precision)
    }
}

/// Outputs of a head from which on it is one over a vocabulary.
const VOCABULARY: usize = 1024;

/// Weights known to be sensitive: those of heads, whose errors go straight into the answer. A vocabulary is not among them: its
/// scores are compared with each other, and it is half of what a small model reads for each word.
fn is_sensitive(name: &str, outputs: usize) -> bool {
    name.starts_with("head.") && outputs < VOCABULARY
}
