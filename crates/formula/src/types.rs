//! The types. Every variant of the documents is a value of these; none is a piece of code.

mod attend;
mod defaults;
mod head;
mod input;
mod norm;
mod position;
mod stack;

use serde::{Deserialize, Serialize};

pub use attend::*;
pub use head::*;
pub use input::*;
pub use norm::*;
pub use position::*;
pub use stack::*;

/// A whole Transformer: `source` alone is encoder-only, `target` alone decoder-only, both are encoder-decoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formula {
    /// The encoder: reads the whole input at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Side>,
    /// The decoder: writes the output token by token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Side>,
    /// One row for each sequence, read off the last stack: what classifiers and embeddings use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooler: Option<Pooler>,
    /// What is read off the last stack.
    pub head: Head,
}

/// One half of the Transformer: how rows come in, and what is done to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// How a token or a patch becomes a row.
    pub input: Input,
    /// What is done to the rows.
    pub stack: Stack,
}

impl Side {
    /// How wide the input's rows are before they enter the stack: narrower than the stack where a projection widens them.
    pub fn input_width(&self) -> usize {
        match &self.input {
            Input::Tokens(tokens) => tokens.width.unwrap_or(self.stack.width),
            Input::Patches(_) => self.stack.width,
        }
    }
}
