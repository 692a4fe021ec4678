//! What can go wrong between a name and the files of a model.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a model could not be found or fetched, and what to do about it: behind the last `; `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that names no model.
    #[error(
        "{text:?} is not the name of a model: {why}; write org/name, org/name@revision or org/name:file.gguf"
    )]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },

    /// A variable of the environment cannot be used.
    #[error("{variable} is {value:?}: {why}; set it to {want}")]
    Setting {
        /// Its name.
        variable: &'static str,
        /// What it is set to; nothing that is secret.
        value: String,
        /// What is wrong with it.
        why: String,
        /// What it should be.
        want: &'static str,
    },

    /// Neither the cache nor, without a network, the hub can be asked.
    #[error("{name} is not in {}, and HF_HUB_OFFLINE is set; {hint}", .cache.display())]
    Offline {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
        /// Which names are near, or how to fetch it.
        hint: String,
    },

    /// The cache holds a model, and the hub cannot be asked for a newer state of it.
    #[error("{name} is in {}, and HF_HUB_OFFLINE keeps the hub from being asked for a newer state; unset it, or use the model as it is", .cache.display())]
    NotAsked {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
    },

    /// The cache holds a part of a model, and nothing more can be fetched.
    #[error("{name} is not complete in {}: {missing} is missing, and HF_HUB_OFFLINE is set; unset it and run `glassformer pull {name}`", .cache.display())]
    Incomplete {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
        /// The first file that is missing.
        missing: String,
    },

    /// A model that is looked for in the cache only is not there.
    #[error("{name} is not in {}; {hint}", .cache.display())]
    NotCached {
        /// The model.
        name: String,
        /// The cache.
        cache: PathBuf,
        /// Which names are near, or how to fetch it.
        hint: String,
    },

    /// The hub has no such model, or does not show it to this user.
    #[error("{endpoint} has no model {name}; {hint}")]
    NoModel {
        /// The model.
        name: String,
        /// The hub.
        endpoint: String,
        /// What to check.
        hint: String,
    },

    /// The model has no such branch, tag or commit.
    #[error("{name} has no revision {revision}; see {endpoint}/{name}/tree/main for its branches and tags")]
    NoRevision {
        /// The model.
        name: String,
        /// The revision.
        revision: String,
        /// The hub.
        endpoint: String,
    },

    /// The model has no such file.
    #[error("{name} has no file {file}; {hint}")]
    NoFile {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// Which there are.
        hint: String,
    },

    /// The model is only for those who accepted its licence.
    #[error("{name} is gated: its licence must be accepted first; accept it at {endpoint}/{name}, {then}")]
    Gated {
        /// The model.
        name: String,
        /// The hub.
        endpoint: String,
        /// What to do after that.
        then: &'static str,
    },

    /// The hub does not know the token.
    #[error(
        "{endpoint} refuses the token: {why}; make a new one at {endpoint}/settings/tokens and set HF_TOKEN to it, or unset HF_TOKEN"
    )]
    Token {
        /// The hub.
        endpoint: String,
        /// What it said.
        why: String,
    },

    /// The model holds nothing that can be run.
    #[error("{name} holds no weights in a known format: {holds}; {hint}")]
    NoWeights {
        /// The model.
        name: String,
        /// What it holds.
        holds: String,
        /// What to look for.
        hint: &'static str,
    },

    /// Several GGUF files could be meant.
    #[error("{name} holds {count} GGUF files; name one: {choices}")]
    Ambiguous {
        /// The model.
        name: String,
        /// How many there are.
        count: usize,
        /// How each is named.
        choices: String,
    },

    /// What the hub says of a model cannot be true or is not safe.
    #[error("what {place} says of {name} is refused: {why}; check HF_ENDPOINT, or try again later")]
    Listing {
        /// The hub, or the file.
        place: String,
        /// The model.
        name: String,
        /// What is wrong.
        why: String,
    },

    /// The hub asks for patience that nobody has.
    #[error("{url} answers too many requests, try again in {} s; wait so long, or set HF_TOKEN: more is allowed to who logs in", .wait.as_secs())]
    Busy {
        /// What was asked for.
        url: String,
        /// How long it asks to wait.
        wait: Duration,
    },

    /// No connection.
    #[error("cannot reach {url}: {why}; {hint}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// What went wrong.
        why: String,
        /// What to check.
        hint: String,
    },

    /// An answer that nothing can be done with.
    #[error("{url} answers {status}{}; try again later, or check HF_ENDPOINT and the proxy", .why)]
    Answer {
        /// What was asked for.
        url: String,
        /// Its status.
        status: u16,
        /// What it said, after a colon.
        why: String,
    },

    /// A file broke off too often.
    #[error(
        "{file} of {name} breaks off after {have} of {size} bytes: {why}; run the same again, it goes on from there"
    )]
    Broken {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// How much of it there is.
        have: u64,
        /// How long it is.
        size: u64,
        /// What happened last.
        why: String,
    },

    /// A file is not what it should be. What came was thrown away.
    #[error(
        "{file} of {name} has {found} instead of {wanted}, and was thrown away; run the same again, and if it happens twice, report it to whoever runs the hub"
    )]
    Corrupt {
        /// The model.
        name: String,
        /// The file.
        file: String,
        /// The size or hash that it has.
        found: String,
        /// The size or hash that it should have.
        wanted: String,
    },

    /// The disk has too little room.
    #[error("{needs} are needed for {name}, and {} has {free}; make room, for example with `glassformer remove`, or set HF_HUB_CACHE to a larger disk", .cache.display())]
    Room {
        /// The model.
        name: String,
        /// How much is needed.
        needs: String,
        /// How much there is.
        free: String,
        /// The cache.
        cache: PathBuf,
    },

    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}; {hint}", .path.display())]
    Io {
        /// What was tried: a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to check.
        hint: &'static str,
    },

    /// No encrypted connection can be made here.
    #[error("cannot make an encrypted connection: {why}; {hint}")]
    Tls {
        /// Why not.
        why: String,
        /// What to do instead.
        hint: &'static str,
    },
}

impl Error {
    /// Names the file of an operation that the system refused.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            let hint = match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "the disk is full: make room, or set HF_HUB_CACHE to a larger disk"
                }
                io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                    "check who may write there, or set HF_HUB_CACHE to a folder that is yours"
                }
                _ => "check the path, or set HF_HUB_CACHE to another folder",
            };
            Self::Io { action, path, source, hint }
        }
    }
}
