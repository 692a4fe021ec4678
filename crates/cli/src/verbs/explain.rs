//! `glassformer explain`: a text followed through any model, or the worked example, replayed.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Instant;

use glassformer::explain::why::{self, Edits, Questions, Why};
use glassformer::explain::{
    About, Detail, Follow, Followed, Lang, Recording, Terminal, Walkthrough, json, worked_example,
};
use glassformer::formula::Head;
use glassformer::tasks::Generate;
use glassformer::{Model, TextEncoder, TextGenerator, explain, families, tasks};

use crate::args::{self, Explain, Level};
use crate::console::{Console, language, result, width};
use crate::failure::{self, Failure};
use crate::staging::{self, Existing, Staging};
use crate::verbs::glass;
use crate::{load, pager};

/// Steps of integrated gradients.
const STEPS: usize = 64;
/// How many tokens are written where nobody says how many.
const NEW_TOKENS: usize = 12;
/// The most tokens that are followed.
const MOST_TOKENS: usize = 256;

pub fn run(args: &Explain, console: &Console) -> Result<(), Failure> {
    if let Some(folder) = &args.trace {
        return trace(args, folder, console);
    }
    if let Some(file) = &args.html {
        return html(args, file, console);
    }
    if args.open {
        return glass::open(args, console);
    }
    if let (None, Some(_)) = (&args.text, &args.model) {
        let hint = "give a sentence; only --open needs none";
        return Err(Failure::new("there is no text for the model", hint));
    }
    if let (Some(questions), Some(text)) = (questions(args)?, &args.text) {
        let why = ask(args, text, &questions, console)?;
        if args.json {
            let faulty = |error| Failure::new(format!("cannot write JSON: {error}"), "please report this");
            return result(&(serde_json::to_string(&why).map_err(faulty)? + "\n"));
        }
        let terminal = terminal(args, console);
        return show(args, &terminal.why(&why));
    }
    let walkthrough = match &args.text {
        Some(text) => follow(args, text, console)?,
        None => worked_example::walkthrough(&*console.exact_backend())?,
    };
    if args.json {
        let faulty = |error| Failure::new(format!("cannot write JSON: {error}"), "please report this");
        let write = if args.errata { json::errata } else { json::render };
        return result(&(write(&walkthrough).map_err(faulty)? + "\n"));
    }
    let terminal = terminal(args, console);
    show(args, &if args.errata { terminal.errata(&walkthrough) } else { terminal.render(&walkthrough) })
}

fn terminal(args: &Explain, console: &Console) -> Terminal {
    Terminal { lang: spoken(args, console), paint: console.result_paint(), width: width() }
}

fn show(args: &Explain, text: &str) -> Result<(), Failure> {
    if args.no_pager { result(text) } else { pager::show(text) }
}

/// What is asked about the run, if anything.
fn questions(args: &Explain) -> Result<Option<Questions>, Failure> {
    let with = match args.with {
        args::With::Zero => why::With::Zero,
        args::With::Mean => why::With::Mean,
    };
    let each = |ablate| match ablate {
        args::Ablate::Heads => why::Each::Heads,
        args::Ablate::Sublayers => why::Each::Sublayers,
    };
    let method = |gradients| match gradients {
        args::Gradients::Input => why::Method::GradientTimesInput,
        args::Gradients::Integrated => why::Method::Integrated { steps: STEPS },
    };
    let edits = args.edit.as_deref().map(|path| Ok::<_, Failure>(Edits::read(&edits(path)?)?)).transpose()?;
    let questions = Questions {
        lens: args.lens,
        heads: args.heads,
        attribute: args.attribute.is_some(),
        ablate: args.ablate.map(|ablate| (each(ablate), with)),
        gradients: args.gradients.map(method),
        edits,
        about: args.attribute.clone().filter(|token| !token.is_empty()),
        contrast: args.contrast.clone(),
        place: args.step.map(usize::from),
    };
    let asks = questions.lens
        || questions.heads
        || questions.attribute
        || questions.ablate.is_some()
        || questions.gradients.is_some()
        || questions.edits.is_some();
    if !asks && questions.contrast.is_some() {
        let hint = "add --attribute, --ablate heads or --gradients";
        return Err(Failure::new("--contrast is a part of a question", hint));
    }
    Ok(asks.then_some(questions))
}

/// The text of a file of edits. What is longer than any edits are is not read to its end.
fn edits(path: &Path) -> Result<String, Failure> {
    const MOST: u64 = (1 << 20) + 1;
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(MOST).read_to_string(&mut text)
    } else {
        File::open(path).and_then(|file| file.take(MOST).read_to_string(&mut text))
    };
    read.map_err(|error| failure::of_file("read", path, &error))?;
    Ok(text)
}

/// The answers to `questions`.
fn ask(args: &Explain, text: &str, questions: &Questions, console: &Console) -> Result<Why, Failure> {
    let follow = followed(args, text, Detail::Summary)?;
    let backend = console.exact_backend();
    let opened = open(args.model.as_deref(), console)?;
    let start = Instant::now();
    let why = match opened {
        Opened::TextGenerator(generator) => {
            let options = options(args, &follow.usual(&generator), console)?;
            let (why, goes_on) = follow.why_written((&generator, &options), &*backend, questions)?;
            if let Some(count) = goes_on {
                console.note(&unfinished(count, spoken(args, console)));
            }
            why
        }
        Opened::TextEncoder(encoder) => follow.why_read(&encoder, &*backend, questions)?,
    };
    console.detail(|| format!("answered in {:.3} s", start.elapsed().as_secs_f64()));
    Ok(why)
}

/// The language in which all is told.
fn spoken(args: &Explain, console: &Console) -> Lang {
    language(args.lang.unwrap_or(console.settings().lang.value))
}

/// What is said where an answer goes on after what was followed of it.
fn unfinished(count: usize, lang: Lang) -> String {
    match (lang, count) {
        (Lang::English, 1) => "the answer goes on after 1 token; --max-new-tokens tells more".to_owned(),
        (Lang::English, _) => format!("the answer goes on after {count} tokens; --max-new-tokens tells more"),
        (Lang::Chinese, _) => {
            format!("答案在 {count} 个词元之后还没有结束；用 --max-new-tokens 可以看到更多")
        }
    }
}

/// What the model makes of the text, and how.
fn follow(args: &Explain, text: &str, console: &Console) -> Result<Walkthrough, Failure> {
    let number = |asked: Option<std::num::NonZeroUsize>| asked.map(usize::from);
    let detail = match (number(args.layer), number(args.head), number(args.step)) {
        _ if args.full => Detail::All,
        (None, None, None) => Detail::Summary,
        (layer, head, word) => Detail::Part { layer, head, word },
    };
    let follow = followed(args, text, detail)?;
    let backend = console.exact_backend();
    Ok(match open(args.model.as_deref(), console)? {
        Opened::TextGenerator(generator) => {
            let options = options(args, &follow.usual(&generator), console)?;
            let Followed { walkthrough, goes_on } = follow.written_by(&generator, &options, &*backend)?;
            if let Some(count) = goes_on {
                console.note(&unfinished(count, spoken(args, console)));
            }
            walkthrough
        }
        Opened::TextEncoder(encoder) => follow.read(&encoder, &*backend)?,
    })
}

/// The text that is followed.
fn followed<'t>(args: &'t Explain, text: &'t str, detail: Detail) -> Result<Follow<'t>, Failure> {
    if text.trim().is_empty() {
        let hint = "give a sentence, or no text at all to replay the worked example";
        return Err(Failure::new("the text is empty", hint));
    }
    let most = args.decode.max_new_tokens.map_or(NEW_TOKENS, |most| most as usize);
    if most > MOST_TOKENS {
        let what = format!("--max-new-tokens is {most}");
        return Err(Failure::new(what, format!("it takes a whole number from 1 to {MOST_TOKENS}")));
    }
    Ok(Follow { text, second: args.second.as_deref(), max_new_tokens: most, detail })
}

/// How text is written: `usual`, but for what was typed. How much of it is followed is another matter.
fn options(args: &Explain, usual: &Generate, console: &Console) -> Result<Generate, Failure> {
    let mut options = usual.clone();
    args.decode.apply_for_one(&mut options.decoding, console)?;
    if options.decoding.beams > 1 && args.trace.is_none() && args.html.is_none() {
        options.decoding.max_new_tokens = usual.decoding.max_new_tokens;
    }
    options.decoding.returns = 1;
    Ok(options)
}

/// Writes the run to `folder`.
fn trace(args: &Explain, folder: &Path, console: &Console) -> Result<(), Failure> {
    let recording = record(args, console)?;
    let staging = Staging::begin(folder, Existing::Replace)?;
    recording.save(staging.path()).map_err(|error| staging.told(&error.into()))?;
    staging.finish()?;
    console.note(&wrote(&recording, folder));
    Ok(())
}

/// Writes the run to `file` as a page.
fn html(args: &Explain, file: &Path, console: &Console) -> Result<(), Failure> {
    let recording = record(args, console)?;
    let page = explain::page::frozen(&recording)?;
    staging::write(file, &page, Existing::Replace)?;
    console.note(&wrote(&recording, file));
    Ok(())
}

/// The run.
fn record(args: &Explain, console: &Console) -> Result<Recording, Failure> {
    let text = args.text.as_deref().unwrap_or_default();
    let mut follow = followed(args, text, Detail::Summary)?;
    let start = Instant::now();
    let opened = open(args.model.as_deref(), console)?;
    let level = match args.level {
        Level::Summary => explain::Level::Summary,
        Level::Steps => explain::Level::Steps,
        Level::Full => explain::Level::Full,
    };
    let model = args.model.as_deref().unwrap_or(Path::new(glassformer::translator::NAME));
    let about = About {
        name: model.display().to_string(),
        precision: console.exact_precision().to_string(),
        load: start.elapsed(),
        hash: None,
    };
    let backend = console.exact_backend();
    let recording = match &opened {
        Opened::TextGenerator(generator) => {
            let options = options(args, &follow.usual(generator), console)?;
            // Which beam is the best is known at the end alone, so all of it is there.
            if options.decoding.beams > 1 {
                follow.max_new_tokens = MOST_TOKENS;
            }
            follow.record_written(generator, &options, &*backend, (&about, level))?
        }
        Opened::TextEncoder(encoder) => follow.record_read(encoder, &*backend, (&about, level))?,
    };
    if let Some(count) = recording.goes_on {
        console.note(&unfinished(count, spoken(args, console)));
    }
    Ok(recording)
}

/// What was written.
fn wrote(recording: &Recording, folder: &Path) -> String {
    let numbers: usize = recording.numbers.values().map(|tensor| tensor.data().len()).sum();
    format!(
        "wrote {} steps and {} tensors ({:.1} MB) to {}",
        recording.record.steps.len(),
        recording.numbers.len(),
        (numbers * size_of::<f32>()) as f64 / 1e6,
        folder.display(),
    )
}

/// A model with its tokenizer, by what it does with texts.
pub enum Opened {
    TextGenerator(Box<TextGenerator>),
    TextEncoder(Box<TextEncoder>),
}

impl Opened {
    /// The model alone.
    pub fn model(&self) -> &Model {
        match self {
            Self::TextGenerator(generator) => &generator.checkpoint().model,
            Self::TextEncoder(encoder) => &encoder.checkpoint().model,
        }
    }
}

/// Opens the model that was given, or the one that the program carries.
pub fn open(given: Option<&Path>, console: &Console) -> Result<Opened, Failure> {
    let Some(path) = load::own(given, console)? else {
        return Ok(Opened::TextGenerator(Box::new(load::exact_generator(None, console)?)));
    };
    let checkpoint = load::checkpoint(&path, console)?;
    let formula = checkpoint.model.formula();
    let words = matches!(formula.head, Head::Words { .. } | Head::Adaptive { .. });
    if words && formula.target.is_some() {
        return Ok(Opened::TextGenerator(Box::new(load::exact_generator(Some(&path), console)?)));
    }
    let backend = console.exact_backend();
    let encoder = match formula.head {
        // What such a model is for is a vector of the text: pooled as its files say.
        Head::Rows => {
            let tokenizer = tasks::tokenizer(families::embedding_folder(&path)?)?;
            TextEncoder::new(families::open_for_embedding(&path)?, tokenizer, backend)?
        }
        Head::Words { .. }
        | Head::Adaptive { .. }
        | Head::Classes { .. }
        | Head::Tags { .. }
        | Head::Spans => TextEncoder::new(checkpoint, tasks::tokenizer(&path)?, backend)?,
    };
    Ok(Opened::TextEncoder(Box::new(encoder)))
}
