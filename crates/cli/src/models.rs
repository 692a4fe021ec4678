//! From what the user gave for a model to where it lies. A folder or file that exists wins; then it is a name of a hub.

use std::cell::OnceCell;
use std::env;
use std::path::{Path, PathBuf};

use glassformer::hub::{Error, Event, Hub, Name, bytes};

use crate::console::Console;
use crate::failure::Failure;
use crate::progress::Progress;

/// What can be given for a model.
pub const KINDS: &str = "give as model a folder with formula.toml and model.safetensors, one in Hugging Face layout, \
                         one of CTranslate2, a .gguf file, or a name of a hub such as org/name";

/// The folder or file of the model `given`. One of a hub is fetched if it is not in the cache.
pub fn locate(given: &Path, console: &Console) -> Result<PathBuf, Failure> {
    if given.exists() {
        return Ok(given.to_owned());
    }
    let Some(name) = name(given) else {
        return Err(absent(given));
    };
    if is_word(&name) {
        return word(&name, given);
    }
    let hub = Hub::from_env()?;
    let shown = Shown::new(&name, console);
    let found = hub.open(&name, &|event| shown.tell(event));
    shown.finish();
    found.map_err(|error| neither(given, error))
}

/// A single word is far more often a mistyped folder than one of the few models without an owner: it is sent nowhere.
fn is_word(name: &Name) -> bool {
    !name.has_owner() && !name.has_revision() && name.file().is_none()
}

/// What the cache has of a single word.
fn word(name: &Name, given: &Path) -> Result<PathBuf, Failure> {
    let Ok(hub) = Hub::from_env() else {
        return Err(absent(given));
    };
    hub.find(name).map_err(|_| match &hub.near(name)[..] {
        [] => absent(given),
        near => Failure::new(absent(given).message, format!("did you mean {}?", near.join(" or "))),
    })
}

/// Whether `given` is a name of a hub and nothing else.
pub fn is_name(given: &Path) -> bool {
    !given.exists() && name(given).is_some_and(|name| name.has_owner())
}

/// The model at `path`, as the configuration `file` names it: relative to the folder of the file, or of a hub.
pub fn named_in(file: &Path, path: &Path, console: &Console) -> Result<PathBuf, Failure> {
    let written = file.parent().and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
    // Any other path that is not there is a matter of the configuration, which says so itself.
    if path.exists() || !is_name(written) { Ok(path.to_owned()) } else { locate(written, console) }
}

/// The name of a hub that `given` could be. What ends as a file does, and has no colon, is a file that is not there.
fn name(given: &Path) -> Option<Name> {
    let name: Name = given.to_str()?.parse().ok()?;
    let files = ["gguf", "safetensors", "bin", "json", "toml", "txt", "pt"];
    let is_file = Path::new(name.id()).extension().is_some_and(|end| files.iter().any(|known| end == *known));
    (!is_file).then_some(name)
}

/// No model was given. One that stands among the texts was meant to be it.
pub fn missing() -> Failure {
    let is_model = |path: &PathBuf| {
        holds_model(path) || path.is_file() && path.extension().is_some_and(|end| end == "gguf")
    };
    let hint = match env::args_os().skip(2).map(PathBuf::from).find(is_model) {
        Some(path) => {
            format!("{path} would be taken for a text: write --model {path}", path = path.display())
        }
        None => KINDS.to_owned(),
    };
    Failure::new("there is no model", hint)
}

/// Whether there are weights in `folder`, and what describes them.
pub fn holds_model(folder: &Path) -> bool {
    let described = ["config.json", "formula.toml"].iter().any(|name| folder.join(name).is_file());
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let weights = |end: &std::ffi::OsStr| ["safetensors", "bin", "gguf"].iter().any(|known| end == *known);
    described && files.any(|file| file.extension().is_some_and(weights))
}

/// Nothing is at `path`.
pub fn absent(path: &Path) -> Failure {
    Failure::new(format!("there is no folder or file {}", path.display()), KINDS)
}

/// What was given is no folder either: whoever meant one must see that it was looked for.
fn neither(given: &Path, error: Error) -> Failure {
    let is_about_name =
        matches!(error, Error::NoModel { .. } | Error::Offline { .. } | Error::Unreachable { .. });
    let failure = Failure::from(error);
    if !is_about_name {
        return failure;
    }
    Failure::new(
        format!("there is no folder or file {}, and {}", given.display(), failure.message),
        failure.hint,
    )
}

/// What the user sees of a model that is fetched.
pub struct Shown<'a> {
    name: &'a Name,
    console: &'a Console,
    bar: OnceCell<Progress>,
}

impl<'a> Shown<'a> {
    pub fn new(name: &'a Name, console: &'a Console) -> Self {
        Self { name, console, bar: OnceCell::new() }
    }

    /// Shows what happened.
    pub fn tell(&self, event: Event<'_>) {
        match event {
            Event::Plan { files, bytes: count } => {
                let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
                self.say(&format!("fetching {}: {files}, {}", self.name.id(), bytes(count)));
                if !self.console.is_quiet() {
                    let bar = self.bar.get_or_init(|| Progress::bytes(0, "fetching"));
                    bar.expect(count);
                }
            }
            Event::File { path, size, have } if have > 0 => {
                self.say(&format!("{path}: going on after {} of {}", bytes(have), bytes(size)));
            }
            Event::Bytes(count) => self.bar.get().into_iter().for_each(|bar| bar.advance(count)),
            Event::Lost(count) => self.bar.get().into_iter().for_each(|bar| bar.retreat(count)),
            Event::Waiting { path } => self.say(&format!("{path}: another process fetches it, waiting")),
            Event::Restart { path } => {
                self.say(&format!("{path}: what an earlier run left of it was wrong, fetching it anew"));
            }
            Event::Retry { why, wait } => self.say(&format!("{why}; trying again in {wait:.0?}")),
            Event::Unchecked { name, why } => self.console.warn(&Failure::new(
                format!("whether {name} is complete is not known: {why}"),
                "what is in the cache is used; HF_HUB_OFFLINE=1 asks nobody",
            )),
            _ => {}
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.get().into_iter().for_each(Progress::finish);
    }

    fn say(&self, text: &str) {
        match self.bar.get() {
            Some(bar) => bar.above(|| self.console.note(text)),
            None => self.console.note(text),
        }
    }
}
