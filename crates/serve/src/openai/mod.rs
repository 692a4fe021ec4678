//! The interface of `OpenAI`, as its clients use it.

pub mod chat;
pub mod completions;
pub mod embeddings;
mod ids;
pub mod logprobs;
pub mod models;
pub mod options;
pub mod responses;
pub mod tools;

use std::time::{SystemTime, UNIX_EPOCH};

pub use ids::fresh_id;

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
