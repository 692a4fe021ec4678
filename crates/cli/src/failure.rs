//! What is told when something does not work: what, and what to do about it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use glassformer::formula::Problems;
use glassformer::{engine, explain, families, graph, hub, model, quantize, tasks, tokens, train, weights};

/// The exit code of a negative result.
pub const NEGATIVE: u8 = 1;

/// The exit code of wrong usage or input.
pub const USAGE: u8 = 2;

/// The exit code of what was interrupted.
pub const INTERRUPTED: u8 = 130;

/// How many weights that do not fit are listed: a model of another family has thousands.
const LISTED: usize = 8;

/// The hint of what should never be seen.
const FAULT: &str = "this is a fault of glassformer itself: please report it";

const EXAMPLE: &str = "`glassformer formula --name original --notation toml` prints a formula that works";

const TRACE: &str = "write the trace again: `glassformer explain --trace DIR TEXT`";

const BELONGS: &str = "check that config.json belongs to these weights";

/// Why a verb could not do its work.
#[derive(Debug)]
pub struct Failure {
    /// What is wrong: one line, or a line and a list under it.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// The task that the message begins with, where it is what a library calls it.
    task: Option<&'static str>,
}

impl Failure {
    /// `message`, and `hint` as what to do.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), task: None }
    }

    /// The same, told by the verb that the user typed: `chat` never says what `generate` needs.
    pub fn of_verb(mut self, verb: &str) -> Self {
        if let Some(rest) = self.task.and_then(|task| self.message.strip_prefix(task)) {
            self.message = format!("{verb}{rest}");
        }
        self
    }

    /// An error whose own text says behind its last `; ` what to do. What says nothing of the kind is no fault of the user's.
    fn plain(error: &impl fmt::Display) -> Self {
        Self::split(error, FAULT)
    }

    /// An error whose own text says behind its last `; ` what to do, or for which `otherwise` is to be done.
    fn split(error: &impl fmt::Display, otherwise: &str) -> Self {
        let text = error.to_string();
        match text.rsplit_once("; ") {
            Some((message, hint)) => Self::new(message, hint),
            None => Self::new(text, otherwise),
        }
    }

    /// A formula that cannot work; one reason has its own hint, several are a list and each has its own.
    pub fn formula(from: &str, problems: &Problems, hint: &str) -> Self {
        match problems.list() {
            [only] => {
                let message = format!("{from} cannot work: {}: {}", only.field, only.why);
                Self::new(message, format!("{}; {hint}", only.hint))
            }
            all => {
                let mut lines = vec![format!("{from} cannot work:")];
                lines.extend(all.iter().take(LISTED).map(ToString::to_string));
                if all.len() > LISTED {
                    lines.push(format!("and {} more", all.len() - LISTED));
                }
                Self::new(lines.join("\n  "), hint)
            }
        }
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Request { request, what, hint } => {
                Self::new(format!("sequence {request}: {what}"), hint)
            }
            engine::Error::Model(error) => error.into(),
            engine::Error::Graph(error) => error.into(),
            error => Self::plain(&error),
        }
    }
}

impl From<graph::Error> for Failure {
    fn from(error: graph::Error) -> Self {
        match error {
            graph::Error::Batch { what, hint } => Self::new(what, hint),
            graph::Error::NotFinite { name, index, value } => Self::new(
                format!("the weight {name} is not finite: element {index} is {value}"),
                "the file is damaged or training diverged; fetch it again or take an earlier checkpoint",
            ),
            graph::Error::Memory { .. } => Self::new(
                error.to_string(),
                "ask for less at once: fewer or shorter texts, fewer beams, fewer new tokens; in a training, fewer batch.tokens",
            ),
            error => Self::plain(&error),
        }
    }
}

impl From<model::Error> for Failure {
    fn from(error: model::Error) -> Self {
        match error {
            model::Error::Graph(error) => error.into(),
            model::Error::Read(error) => error.into(),
            model::Error::Weights(misfits) => {
                let mut lines = vec!["the weights do not fit the formula:".to_owned()];
                lines.extend(misfits.iter().take(LISTED).map(ToString::to_string));
                if misfits.len() > LISTED {
                    lines.push(format!("and {} more", misfits.len() - LISTED));
                }
                Self::new(
                    lines.join("\n  "),
                    "formula.toml and model.safetensors must describe the same model",
                )
            }
            model::Error::Formula(problems) => Self::formula("the formula", &problems, EXAMPLE),
            model::Error::File { .. } => Self::new(error.to_string(), EXAMPLE),
            error => Self::plain(&error),
        }
    }
}

impl From<families::Error> for Failure {
    fn from(error: families::Error) -> Self {
        match error {
            families::Error::Model(model::Error::Formula(problems)) => {
                Self::formula("the formula of config.json", &problems, BELONGS)
            }
            families::Error::Model(error) => error.into(),
            families::Error::Weights(error) => error.into(),
            families::Error::Unknown { .. } => {
                let known = families::known().collect::<Vec<_>>().join(", ");
                Self::new(error.to_string(), format!("known: {known}"))
            }
            families::Error::Unread(_) | families::Error::Options { .. } => Self::plain(&error),
            families::Error::Write { path, source } => of_file("write", &path, &source),
            families::Error::File { .. } => Self::split(&error, "fetch the file again, or check its path"),
            error => Self::new(error.to_string(), BELONGS),
        }
    }
}

impl From<quantize::Error> for Failure {
    fn from(error: quantize::Error) -> Self {
        match error {
            quantize::Error::Weights(error) => error.into(),
            quantize::Error::Model(error) => error.into(),
            quantize::Error::Graph(error) => error.into(),
            quantize::Error::Engine(error) => error.into(),
            error => Self::split(&error, "fetch the file again, or check its path"),
        }
    }
}

impl From<tasks::Error> for Failure {
    fn from(error: tasks::Error) -> Self {
        match error {
            tasks::Error::Open(error) => error.into(),
            tasks::Error::Tokens(error) => error.into(),
            tasks::Error::Engine(error) => error.into(),
            tasks::Error::Text { ref hint, .. } | tasks::Error::Option { ref hint, .. } => {
                Self::new(error.to_string(), hint.clone())
            }
            tasks::Error::Long { .. } => Self::new(error.to_string(), "shorten it, or add --truncate"),
            tasks::Error::Head { task, .. } => {
                let hint = "`glassformer show MODEL` says what it can do";
                Self { task: Some(task), ..Self::new(error.to_string(), hint) }
            }
            tasks::Error::Vocabulary { .. } => {
                Self::new(error.to_string(), "take the tokenizer that was published with the model")
            }
            error => Self::plain(&error),
        }
    }
}

impl From<tokens::Error> for Failure {
    fn from(error: tokens::Error) -> Self {
        match &error {
            tokens::Error::Nothing { .. } => Self::new(
                error.to_string(),
                "fetch the tokenizer's files too; forward and generate --ids need none",
            ),
            tokens::Error::Io { action, path, source } => of_file(action, path, source),
            _ => Self::plain(&error),
        }
    }
}

impl From<weights::Error> for Failure {
    fn from(error: weights::Error) -> Self {
        match error {
            weights::Error::Io { action, path, source } => of_file(action, &path, &source),
            error => Self::plain(&error),
        }
    }
}

/// What the system refused to do with a file or folder, and what to do about it.
pub fn of_file(action: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {action} {}: {error}", path.display()), of_system(error.kind()))
}

/// What to do about what the system said.
fn of_system(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull => "the disk is full: make room on it, or write to another one",
        ErrorKind::QuotaExceeded => "you may not use more of this disk: make room, or write to another one",
        ErrorKind::FileTooLarge => {
            "files may not be so large here: raise the limit (ulimit -f), or write to another disk"
        }
        ErrorKind::PermissionDenied => "you have no right to: choose another path, or change its permissions",
        ErrorKind::ReadOnlyFilesystem => "nothing can be written to this disk: choose another path",
        ErrorKind::NotFound => "check the path: a part of it is not there",
        ErrorKind::NotADirectory => "check the path: a part of it is a file, not a folder",
        ErrorKind::IsADirectory => "it is a folder: give the path of a file",
        _ => "check the path, its permissions and the room on the disk",
    }
}

impl From<explain::Error> for Failure {
    fn from(error: explain::Error) -> Self {
        match error {
            explain::Error::Engine(error) => error.into(),
            explain::Error::Model(error) => error.into(),
            explain::Error::Graph(error) => error.into(),
            explain::Error::Tasks(tasks::Error::Long { .. }) => {
                Self::new(error.to_string(), "give a shorter text")
            }
            explain::Error::Tasks(error) => error.into(),
            explain::Error::Long { limit, .. } => {
                Self::new(error.to_string(), format!("{limit} at most can be followed; give a sentence"))
            }
            explain::Error::Pair { hint, .. } => Self::new(error.to_string(), hint),
            explain::Error::Weights(error) => Self::new(error.to_string(), TRACE),
            explain::Error::Trace { .. } => Self::new(error.to_string(), TRACE),
            explain::Error::Detail { there: 0, what, .. } => {
                Self::new(error.to_string(), format!("leave out --{what}: this model has none"))
            }
            explain::Error::Detail { what, there, .. } => {
                Self::new(error.to_string(), format!("give --{what} a number from 1 to {there}"))
            }
            explain::Error::Why { .. } => Self::new(
                error.to_string(),
                "`explain --help` lists questions; --heads can be asked of any model",
            ),
            explain::Error::Edits { .. } => {
                Self::new(error.to_string(), "docs/asking-why.md says what edits can be")
            }
            explain::Error::NoTensor { .. } => {
                Self::new(error.to_string(), "`explain --json --full` has the names of all values")
            }
            error => Self::new(error.to_string(), FAULT),
        }
    }
}

impl From<train::Error> for Failure {
    fn from(error: train::Error) -> Self {
        match error {
            train::Error::Model(error) => error.into(),
            train::Error::Graph(error) => error.into(),
            train::Error::Families(error) => error.into(),
            train::Error::Weights(error) => error.into(),
            train::Error::Tokens(error) => error.into(),
            train::Error::Tasks(error) => error.into(),
            train::Error::Io { action, path, source } => of_file(action, &path, &source),
            train::Error::Config { place, what, hint } | train::Error::Data { place, what, hint } => {
                Self::new(format!("{place}: {what}"), hint)
            }
            error => Self::plain(&error),
        }
    }
}

impl From<hub::Error> for Failure {
    fn from(error: hub::Error) -> Self {
        Self::plain(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk was told as "check the path, and that it may be read or written".
    #[test]
    fn what_the_system_says_has_a_hint_that_fits() {
        for (number, hint) in
            [(28, "the disk is full"), (13, "permissions"), (27, "ulimit -f"), (2, "is not there")]
        {
            let failure = of_file("write", Path::new("out/model"), &io::Error::from_raw_os_error(number));
            assert!(failure.hint.contains(hint), "{number}: {}", failure.hint);
            assert!(failure.message.starts_with("cannot write out/model: "), "{}", failure.message);
        }
    }
}
