//! From a path on the command line to a model.

use std::path::{Path, PathBuf};
use std::time::Instant;

use glassformer::engine::Load;
use glassformer::families::Checkpoint;
use glassformer::tasks::{Files, TextGenerator};
use glassformer::tokens::Tokenizer;
use glassformer::{Model, TextEncoder, Translator, families, tasks};

use crate::console::Console;
use crate::failure::Failure;
use crate::{models, progress};

/// Where the model lies that a verb was given. All verbs ask here, but for those that do without: see [`own`].
pub fn path(given: Option<&Path>, console: &Console) -> Result<PathBuf, Failure> {
    let given = given.or(console.settings().model.value.as_deref());
    let given = given.ok_or_else(models::missing)?;
    models::locate(given, console)
}

/// Opens the model at `path`.
pub fn model(path: &Path, console: &Console) -> Result<Model, Failure> {
    Ok(checkpoint(path, console)?.model)
}

/// Opens the model at `path`, with what else its configuration says.
pub fn checkpoint(path: &Path, console: &Console) -> Result<Checkpoint, Failure> {
    described(path)?;
    open(path, console, |path| Ok(tasks::open(path)?))
}

/// The same for who gives ids: a formula alone does not say which rows see all, so that here only the user does.
pub fn checkpoint_for_ids(path: &Path, console: &Console) -> Result<Checkpoint, Failure> {
    let mut checkpoint = checkpoint(path, console)?;
    if checkpoint.kind.is_empty() {
        checkpoint.global.clear();
    }
    Ok(checkpoint)
}

/// Opens the model at `path` as one of sentences, with its tokenizer.
pub fn embedder(path: &Path, console: &Console) -> Result<TextEncoder, Failure> {
    let inner = families::embedding_folder(path)?;
    described(&inner)?;
    let checkpoint = open(path, console, |path| Ok(families::open_for_embedding(path)?))?;
    Ok(TextEncoder::new(checkpoint, tasks::tokenizer(&inner)?, console.backend(&inner))?)
}

/// Refuses a path where nothing says what model it is.
fn described(path: &Path) -> Result<(), Failure> {
    if !path.exists() {
        return Err(models::absent(path));
    }
    let known = ["formula.toml", "config.json", "model.bin"];
    let gguf = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_some_and(|end| end == "gguf"))
    };
    if path.is_dir() && !known.iter().any(|name| path.join(name).exists()) && !gguf(path) {
        return Err(Failure::new(
            format!("there is neither formula.toml nor config.json in {}", path.display()),
            models::KINDS,
        ));
    }
    Ok(())
}

fn open(
    path: &Path,
    console: &Console,
    open: impl Fn(&Path) -> Result<Checkpoint, Failure>,
) -> Result<Checkpoint, Failure> {
    let shown = path.display();
    let start = Instant::now();
    let mut checkpoint = open(path)?;
    console.detail(|| {
        let count = checkpoint.model.names().len();
        format!("opened {count} weights of {shown} in {:.0?}", start.elapsed())
    });
    checkpoint.model = progress::watched(&checkpoint.model);
    Ok(checkpoint)
}

/// Where the user's model lies; nothing where the one is meant that the program carries.
pub fn own(given: Option<&Path>, console: &Console) -> Result<Option<PathBuf>, Failure> {
    given.filter(|path| !is_carried(path)).map(|path| models::locate(path, console)).transpose()
}

/// Whether the model is meant that the program carries, by its name. A folder of that name may be anything, such as the data that
/// the model was trained on; it is meant where a model lies in it.
pub fn is_carried(path: &Path) -> bool {
    path == Path::new(glassformer::translator::NAME) && !models::holds_model(path)
}

/// The model that the program carries.
pub fn translator(console: &Console) -> Result<Translator, Failure> {
    let start = Instant::now();
    let translator = Translator::new(console.quantized_backend())?;
    console.detail(|| format!("opened the translator of this program in {:.0?}", start.elapsed()));
    Ok(translator)
}

/// The tokenizer of the model that was given: a folder's, a file's, or that of the model that the program carries.
pub fn tokenizer(given: Option<&Path>, console: &Console) -> Result<Tokenizer, Failure> {
    let given = given.or(console.settings().model.value.as_deref());
    if given.is_some_and(is_carried) {
        let Files { tokenizer, tokenizer_config, .. } = glassformer::translator::FILES;
        return Ok(Tokenizer::from_json(tokenizer, tokenizer_config)?);
    }
    Ok(tasks::tokenizer(&path(given, console)?)?)
}

/// Opens the model at `path` with its tokenizer, to run with the numbers that its weights stand for.
pub fn exact_encoder(path: &Path, console: &Console) -> Result<TextEncoder, Failure> {
    let checkpoint = checkpoint(path, console)?;
    Ok(TextEncoder::new(checkpoint, tasks::tokenizer(path)?, console.exact_backend())?)
}

/// Opens the model at `path` with its tokenizer.
pub fn encoder(path: &Path, console: &Console) -> Result<TextEncoder, Failure> {
    let checkpoint = checkpoint(path, console)?;
    let tokenizer = tasks::tokenizer(path)?;
    Ok(TextEncoder::new(checkpoint, tokenizer, console.backend(path))?)
}

/// Opens the model at `path`, or the one that the program carries, to write with the numbers that its weights stand for,
/// whatever they are stored in.
pub fn exact_generator(path: Option<&Path>, console: &Console) -> Result<TextGenerator, Failure> {
    let backend = console.exact_backend();
    match path {
        Some(path) => Ok(TextGenerator::new(checkpoint(path, console)?, path, backend)?),
        None => Ok(TextGenerator::from_files(&glassformer::translator::FILES, backend)?),
    }
}

/// Opens the model at `path` to write, with the one that drafts for it.
pub fn generator(path: &Path, draft: Option<&Path>, console: &Console) -> Result<TextGenerator, Failure> {
    let open = |path: &Path| -> Result<TextGenerator, Failure> {
        let checkpoint = checkpoint(path, console)?;
        Ok(TextGenerator::new(checkpoint, path, console.writing_backend(path))?)
    };
    let generator = open(path)?;
    let Some(small) = draft else { return Ok(generator) };
    Ok(generator.with_draft_model(&open(&models::locate(small, console)?)?)?)
}

/// Tells who asks for details how drafts fared.
pub fn told_of_drafts(generator: &TextGenerator, console: &Console) {
    let Load { drafted_tokens, accepted_tokens, .. } = generator.load().session;
    if drafted_tokens > 0 {
        console
            .detail(|| format!("{drafted_tokens} tokens were drafted, and {accepted_tokens} of them right"));
    }
}
