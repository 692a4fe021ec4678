//! What can go wrong between a folder and a model.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// An error of understanding a checkpoint.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or is not what it should be.
    #[error("{path}: {}", clip(.why))]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; check the path, its permissions and the room on the disk", .path.display())]
    Write {
        /// The file that was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An architecture that is not known.
    #[error("the architecture {:?} is not known{}", clip(.name), meant(.nearest.as_ref()))]
    Unknown {
        /// What the configuration says.
        name: String,
        /// A known name that is nearly the same, if there is one.
        nearest: Option<String>,
    },
    /// A key of the configuration is missing, of another type, or has a value that is not supported.
    #[error("config.json: {} {}", clip(.key), clip(.why))]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// Keys that nothing here reads and that may change results.
    #[error("config.json: {} not understood, and may change the results; update Glassformer or report it", clip(&.0.join(", ")))]
    Unread(Vec<String>),
    /// Options of generating that are not understood and may change results.
    #[error("{file}: {} not understood, and may change the results; update Glassformer or report it", .keys.join(", "))]
    Options {
        /// Where they stand.
        file: String,
        /// Their names.
        keys: Vec<String>,
    },
    /// Tensors that are missing, of another shape, or used by nothing: all of them.
    #[error("the tensors do not fit the configuration:{}", list(.0))]
    Tensors(Vec<String>),
    /// The weights' file cannot be read.
    #[error(transparent)]
    Weights(#[from] glassformer_weights::Error),
    /// The formula cannot work.
    #[error(transparent)]
    Model(#[from] glassformer_model::Error),
}

impl Error {
    /// For `map_err`: the system's error with the file that was to be written.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_path_buf(), source }
    }
}

/// A text from a file, short enough for a message, and in one line.
fn clip(text: &str) -> String {
    const LONGEST: usize = 300;
    let short: String = text.chars().take(LONGEST).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    short.chars().map(shown).collect::<String>() + rest
}

fn meant(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; the nearest known one is {nearest:?}"))
}

fn list(lines: &[String]) -> String {
    if let [only] = lines {
        return format!(" {}", clip(only));
    }
    let shown = lines.iter().take(12).fold(String::new(), |text, line| text + "\n  " + &clip(line));
    let more = lines.len().saturating_sub(12);
    if more > 0 { format!("{shown}\n  and {more} more") } else { shown }
}
