//! What can be wrong with a file of weights.

use std::io;
use std::path::{Path, PathBuf};

/// Why weights could not be read or written: what is wrong, in which file and tensor, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}; check the path, and that it may be read or written", .path.display())]
    Io {
        /// What was tried: a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A folder holds none of the files that this crate reads.
    #[error(
        "no weights in {}: expected model.safetensors or pytorch_model.bin, either with shards and \
         .index.json, a CTranslate2 model.bin, or one .gguf file; convert weights in another format to one of these",
        .folder.display()
    )]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },

    /// A folder holds several files that could be meant.
    #[error("{} holds {files}; name the one that is meant", .folder.display())]
    Ambiguous {
        /// The folder.
        folder: PathBuf,
        /// The files, or the first of them.
        files: String,
    },

    /// A file begins like none of the formats that this crate reads.
    #[error(
        "{} is no file of weights that is known here: it begins neither as safetensors (a length and a JSON object), \
         PyTorch (PK, or a pickled magic number), GGUF (GGUF) nor CTranslate2 (a version from 4 to 6 and a name); \
         convert it to one of these", .path.display()
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
    },

    /// A file in a format other than safetensors is cut short or contradicts itself.
    #[error("{}: {reason}; the {format} file is damaged or cut short, fetch it again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The format that it should be in.
        format: &'static str,
        /// What is wrong, and where.
        reason: String,
    },

    /// A file is what it says, in a version or with a content that this crate does not read.
    #[error("{}: {reason}; {hint}", .path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it has.
        reason: String,
        /// What to do about it.
        hint: &'static str,
    },

    /// A pickle asks for something that tensors do not need. Nothing of it was done.
    #[error("{}: {reason}; do not trust this file, or save it again as safetensors", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What it asks for.
        reason: String,
    },

    /// A file ends before what it announces.
    #[error("{} is cut short: it has {found} bytes and announces at least {announced}; fetch it again", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The bytes that it must have.
        announced: u64,
        /// The bytes that it has.
        found: u64,
    },

    /// A header is longer than the format allows, which mostly means that the file is in another format.
    #[error(
        "{} announces a header of {length} bytes, and safetensors allows {limit}; check that it is a safetensors file",
        .path.display()
    )]
    LongHeader {
        /// The file.
        path: PathBuf,
        /// What it announces.
        length: u64,
        /// The most that is allowed.
        limit: u64,
    },

    /// A header or an index is not the JSON that it should be.
    #[error("{}: {reason}; check that the file is complete", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where in the text.
        reason: String,
    },

    /// A tensor has a type of number that this crate does not read.
    #[error("{}: tensor {name:?} has the unknown type {dtype:?}; convert it to F32, F16 or BF16", .path.display())]
    UnknownType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The type as the file spells it.
        dtype: String,
    },

    /// A shape has more elements than can be counted.
    #[error("{}: tensor {name:?} of shape {shape:?} is larger than any memory; the file is damaged", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape as the file gives it.
        shape: Vec<usize>,
    },

    /// The bytes reserved for a tensor are not those that its shape and type need.
    #[error(
        "{}: tensor {name:?} needs {needed} bytes for its shape and type, and the file gives it {given}; \
         the file is damaged", .path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Elements times the size of one.
        needed: usize,
        /// The distance between its offsets.
        given: usize,
    },

    /// A tensor lies outside the file, or ends before it begins.
    #[error(
        "{}: tensor {name:?} lies at bytes {start} to {end} of the data, which has {available}; the file is damaged \
         or cut short, fetch it again", .path.display()
    )]
    Range {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its first byte.
        start: usize,
        /// The byte after its last.
        end: usize,
        /// The bytes of data in the file.
        available: usize,
    },

    /// Two tensors claim the same bytes.
    #[error("{}: tensors {first:?} and {second:?} overlap; the file is damaged", .path.display())]
    Overlap {
        /// The file.
        path: PathBuf,
        /// The tensor that begins first.
        first: String,
        /// The tensor that begins inside it.
        second: String,
    },

    /// Some bytes belong to no tensor, which the format forbids.
    #[error("{}: bytes {start} to {end} of the data belong to no tensor; the file is damaged", .path.display())]
    Hole {
        /// The file.
        path: PathBuf,
        /// The first such byte.
        start: usize,
        /// The byte after the last.
        end: usize,
    },

    /// An index names a shard outside its own folder.
    #[error("{}: shard {shard:?} is not a path inside the folder; do not trust this model", .path.display())]
    Escape {
        /// The index.
        path: PathBuf,
        /// The path that it gives.
        shard: String,
    },

    /// An index promises a tensor that its shard does not have.
    #[error("{} places tensor {name:?} in {shard:?}, which does not have it; fetch both again", .path.display())]
    NotInShard {
        /// The index.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The shard that should have it.
        shard: String,
    },

    /// Two shards hold a tensor of the same name.
    #[error("{} holds tensor {name:?}, and so does another shard; fetch the model again", .path.display())]
    TwoShards {
        /// The second shard.
        path: PathBuf,
        /// The tensor.
        name: String,
    },

    /// There is no tensor of this name.
    #[error("{place} has no tensor {name:?}; check that the weights belong to this architecture")]
    Missing {
        /// Where it was looked for.
        place: String,
        /// The name.
        name: String,
    },

    /// A tensor cannot be written under this name: the name is reserved, or was used before.
    #[error("cannot write tensor {name:?} to {}: {reason}; rename it", .path.display())]
    Name {
        /// The file that was to be written.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Error {
    /// For `map_err`: the system's error with what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}

/// A text from a file, short enough for a message: a broken header may hold a name of many megabytes.
pub(crate) fn clip(text: &str) -> String {
    const LONGEST: usize = 200;
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
