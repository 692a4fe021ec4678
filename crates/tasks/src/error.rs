//! What can go wrong between a text and a result.

use thiserror::Error;

/// An error of a task.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint cannot be opened.
    #[error(transparent)]
    Open(#[from] glassformer_families::Error),
    /// The tokenizer cannot be opened, or refuses a text.
    #[error(transparent)]
    Tokens(#[from] glassformer_tokens::Error),
    /// The model cannot be prepared or run.
    #[error(transparent)]
    Engine(#[from] glassformer_engine::Error),
    /// The model has another head than the task needs.
    #[error("{task} needs a model with {needs}, and this one has {has}")]
    Head {
        /// The task.
        task: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What there is.
        has: &'static str,
    },
    /// The tokenizer knows ids that the model has no row for.
    #[error(
        "the tokenizer has {tokens} tokens, and the model a table of {rows}: they do not belong together"
    )]
    Vocabulary {
        /// Of the tokenizer.
        tokens: usize,
        /// Of the model.
        rows: usize,
    },
    /// A text is longer than the model can read.
    #[error("text {} has {tokens} tokens, and the model reads {limit} at most", .text + 1)]
    Long {
        /// Which one, counted from 0; messages count from 1.
        text: usize,
        /// How long it is.
        tokens: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A text that the task can do nothing with.
    #[error("text {}: {what}", .text + 1)]
    Text {
        /// Which one, counted from 0; messages count from 1.
        text: usize,
        /// What is wrong with it.
        what: String,
        /// What to do.
        hint: String,
    },
    /// As many requests wait already as may.
    #[error("{waiting} requests wait already, and no more may")]
    Busy {
        /// How many.
        waiting: usize,
    },
    /// The time for an answer is over.
    #[error("the time for an answer is over")]
    Late,
    /// The thread that runs the model could not go on with a request.
    #[error("the model's service {what}")]
    Service {
        /// What it did.
        what: String,
    },
    /// An option that makes no sense.
    #[error("{option} {what}")]
    Option {
        /// Which one.
        option: &'static str,
        /// What is wrong with it.
        what: String,
        /// What to do.
        hint: String,
    },
}

impl Error {
    /// The same error, counted from another first text: batches of a long file are calls of their own.
    #[must_use]
    pub fn counted_from(self, first: usize) -> Self {
        match self {
            Self::Long { text, tokens, limit } => Self::Long { text: first + text, tokens, limit },
            Self::Text { text, what, hint } => Self::Text { text: first + text, what, hint },
            other => other,
        }
    }

    /// The same error about the text that part number `text` is of, where texts were given in parts.
    #[must_use]
    pub fn owned_by(self, owners: &[usize]) -> Self {
        let owner = |text: usize| owners.get(text).copied().unwrap_or(text);
        match self {
            Self::Long { text, tokens, limit } => Self::Long { text: owner(text), tokens, limit },
            Self::Text { text, what, hint } => Self::Text { text: owner(text), what, hint },
            other => other,
        }
    }
}
