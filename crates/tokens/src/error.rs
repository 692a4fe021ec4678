//! What can be wrong with a tokenizer, a text or a chat template.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// Why text could not be turned into ids or back: what is wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {source}; check the path, and that it may be read", .path.display())]
    Io {
        /// What was tried: a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A folder holds none of the files that this crate reads.
    #[error("no {what} in {}: {hint}", .folder.display())]
    Nothing {
        /// What was looked for.
        what: &'static str,
        /// The folder.
        folder: PathBuf,
        /// Which files would have done.
        hint: &'static str,
    },

    /// A file is larger than any honest one of its kind.
    #[error("{} has {size} bytes, and {limit} is the most that is read; check that it is what its name says", .path.display())]
    Large {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The most that is allowed.
        limit: u64,
    },

    /// A file is not what its name says, or contradicts itself.
    #[error("{place}: {reason}; fetch it again, or check which program wrote it")]
    Broken {
        /// The file, and where in it.
        place: String,
        /// What is wrong.
        reason: String,
    },

    /// A file asks for something that this crate does not do.
    #[error("{place}: {what} is not supported; {hint}")]
    Unsupported {
        /// The file, and where in it.
        place: String,
        /// What it asks for.
        what: String,
        /// What to do instead.
        hint: &'static str,
    },

    /// A text is too long to be encoded in one go.
    #[error("the text has {size} bytes, and {limit} is the most for one call; split it")]
    LongText {
        /// Its size in bytes.
        size: usize,
        /// The most that is allowed.
        limit: usize,
    },

    /// A pattern of the tokenizer takes too long on this text.
    #[error(
        "the pattern {pattern:?} of the tokenizer gave up on this text: {reason}; split the text, or do not trust this tokenizer"
    )]
    Pattern {
        /// The pattern, cut where it is long.
        pattern: String,
        /// What it ran into.
        reason: String,
    },

    /// The tokenizers library failed on this text or these ids, although the tokenizer had been checked.
    #[error("the tokenizer failed to {action}: {reason}; report this with the tokenizer's files")]
    Library {
        /// What was tried: a verb.
        action: &'static str,
        /// What the library said.
        reason: String,
    },

    /// No vocabulary of this size can be learned from this text.
    #[error(
        "a vocabulary of {size} tokens cannot be learned: {what}; change the size, the coverage or the text"
    )]
    Learn {
        /// What is wrong.
        what: String,
        /// The size that was asked for.
        size: usize,
    },

    /// A chat template does not parse, or asks for something that it cannot have.
    #[error("chat template, line {line}: {reason}; fetch the model again, or give a template of your own")]
    Template {
        /// Where in the template, counted from one.
        line: usize,
        /// What is wrong.
        reason: String,
    },

    /// The chat template itself refused the conversation, with `raise_exception`.
    #[error("the chat template refuses this conversation: {message}; change the conversation")]
    Refused {
        /// The template's own words.
        message: String,
    },

    /// A chat template ran for too long, or wanted too much memory.
    #[error("chat template, line {line}: it wants more than {limit}; do not trust this template")]
    Exhausted {
        /// Where in the template, counted from one.
        line: usize,
        /// What ran out, and how much of it there is.
        limit: String,
    },

    /// A conversation is not what a chat template can be given.
    #[error("the conversation cannot be rendered: {reason}; change the conversation")]
    Conversation {
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// For `map_err`: the system's error with what was tried on which path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }

    /// A file that is not what its name says.
    pub(crate) fn broken(place: impl Display, reason: impl Display) -> Self {
        Self::Broken { place: place.to_string(), reason: clip(&in_words(&reason.to_string())) }
    }
}

/// What a parser says, without the names of this program's types: what a file should hold is told in JSON's words.
pub fn in_words(text: &str) -> String {
    const NUMBERS: [&str; 12] =
        ["usize", "isize", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"];
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.split(' ').peekable();
    while let Some(word) = rest.next() {
        let bare = word.trim_end_matches([',', ';', ':', '.']);
        let end = &word[bare.len()..];
        let told = match bare {
            // "expected struct Outline", "tuple struct Pair", "untagged enum ModelWrapper".
            "struct" | "enum" | "variant" if words.last().is_some_and(|last| is_kind(last)) => {
                let name = rest.next().unwrap_or_default();
                let name_end = &name[name.trim_end_matches([',', ';', ':', '.']).len()..];
                while words
                    .last()
                    .is_some_and(|last: &String| matches!(last.as_str(), "tuple" | "unit" | "untagged"))
                {
                    words.pop();
                }
                format!("{}{name_end}", if bare == "struct" { "an object" } else { "a known kind" })
            }
            number if NUMBERS.contains(&number) && words.last().is_some_and(|last| last == "expected") => {
                format!("{}{end}", if number.starts_with('f') { "a number" } else { "a whole number" })
            }
            _ => word.to_owned(),
        };
        words.push(told);
    }
    words.join(" ")
}

/// Whether a type's kind may stand after this word.
fn is_kind(before: &str) -> bool {
    matches!(before, "expected" | "of" | "tuple" | "unit" | "untagged")
}

/// A text from a file, short enough for a message, and in one line.
pub(crate) fn clip(text: &str) -> String {
    const LONGEST: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    /// Users were told of "struct Outline", "usize" and "untagged enum `ModelWrapper`".
    #[test]
    fn parsers_speak_of_json_and_not_of_types() {
        let cases = [
            (
                "invalid type: integer `3`, expected struct Outline at line 1 column 1",
                "invalid type: integer `3`, expected an object at line 1 column 1",
            ),
            (
                "invalid type: string \"x\", expected usize",
                "invalid type: string \"x\", expected a whole number",
            ),
            ("invalid value: -1, expected u32, there", "invalid value: -1, expected a whole number, there"),
            ("invalid type: null, expected f64", "invalid type: null, expected a number"),
            (
                "data did not match any variant of untagged enum ModelWrapper at line 1",
                "data did not match any variant of a known kind at line 1",
            ),
            ("expected tuple struct Pair with 2 elements", "expected an object with 2 elements"),
            ("the file names a struct of its own", "the file names a struct of its own"),
        ];
        for (said, told) in cases {
            assert_eq!(in_words(said), told);
        }
    }
}
