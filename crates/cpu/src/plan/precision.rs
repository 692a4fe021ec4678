//! Which products run on narrow numbers.

use std::fmt;
use std::sync::Arc;

use crate::narrow::Format;

/// What the weights of a model are held and multiplied in.
///
/// Only products of activations and weights get narrower. Attention, norms, lookups, softmax and gradients stay in `f32`, and
/// so do activations between the steps.
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

/// The precision of a backend, and which weights are exempt from it.
#[derive(Clone)]
pub(super) struct Choice {
    pub precision: Precision,
    /// Whether the weight of this name stays as it is.
    pub wide: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Choice {
    /// What the weight of this name is held in, where it is not `f32`.
    pub fn of(&self, name: &str) -> Option<Format> {
        let format = match self.precision {
            Precision::F32 => return None,
            Precision::Bf16 => Format::Bf16,
            Precision::Int8 => Format::Int8,
        };
        (!(self.wide)(name)).then_some(format)
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self { precision: Precision::F32, wide: Arc::new(is_sensitive) }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Choice({:?})", self.precision)
    }
}

/// Weights known to be sensitive: those of heads, and tables of words, which a tied head multiplies by. An error there goes
/// straight into the answer.
fn is_sensitive(name: &str) -> bool {
    name.starts_with("head.") || name.split('.').any(|part| part == "embed")
}
