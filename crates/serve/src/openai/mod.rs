//! The interface of `OpenAI`, as its clients use it.

pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod logprobs;
pub mod models;
pub mod options;
pub mod responses;
pub mod tools;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A name that no other answer has.
pub fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016x}{count:08x}", RandomState::new().hash_one((SystemTime::now(), count)))
}
