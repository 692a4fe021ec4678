//! What happens on the way, for whoever shows it.

use std::time::Duration;

/// Something happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// So many files with so many bytes are to be fetched.
    Plan {
        /// Files that are not in the cache.
        files: usize,
        /// Their bytes, without those that are there already.
        bytes: u64,
    },
    /// A file begins.
    File {
        /// Its name.
        path: &'a str,
        /// Its bytes.
        size: u64,
        /// How many of them an earlier run has left.
        have: u64,
    },
    /// So many bytes came.
    Bytes(u64),
    /// So many bytes that came, or that were planned to be there, count no more.
    Lost(u64),
    /// Another process fetches this file: it is waited for.
    Waiting {
        /// The file.
        path: &'a str,
    },
    /// Something did not work, and is tried again after `wait`.
    Retry {
        /// What did not work.
        why: &'a str,
        /// How long from now.
        wait: Duration,
    },
    /// What an earlier run left of a file was wrong, and was thrown away: it is fetched from its start.
    Restart {
        /// The file.
        path: &'a str,
    },
    /// The hub could not say whether more belongs to a model: what the cache has is used.
    Unchecked {
        /// The model.
        name: &'a str,
        /// Why it could not.
        why: &'a str,
    },
}

/// Who is told what happens.
pub type Watch<'a> = dyn Fn(Event<'_>) + 'a;
