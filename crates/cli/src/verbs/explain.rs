//! `glassformer explain`: a text followed through any model, or the worked example, replayed.

use glassformer::explain::{Detail, Follow, Followed, Lang, Terminal, Walkthrough, json, worked_example};
use glassformer::formula::Head;
use glassformer::{TextEncoder, TextGenerator, families, tasks};

use crate::args::Explain;
use crate::console::{Console, language, result, width};
use crate::failure::Failure;
use crate::{load, pager};

pub fn run(args: &Explain, console: &Console) -> Result<(), Failure> {
    let walkthrough = match &args.text {
        Some(text) => follow(args, text, console)?,
        None => worked_example::walkthrough(&*console.exact_backend())?,
    };
    if args.json {
        let faulty = |error| Failure::new(format!("cannot write JSON: {error}"), "please report this");
        let write = if args.errata { json::errata } else { json::render };
        return result(&(write(&walkthrough).map_err(faulty)? + "\n"));
    }
    let terminal = Terminal { lang: spoken(args, console), paint: console.result_paint(), width: width() };
    let text = if args.errata { terminal.errata(&walkthrough) } else { terminal.render(&walkthrough) };
    if args.no_pager { result(&text) } else { pager::show(&text) }
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
    if text.trim().is_empty() {
        let hint = "give a sentence, or no text at all to replay the worked example";
        return Err(Failure::new("the text is empty", hint));
    }
    let number = |asked: Option<std::num::NonZeroUsize>| asked.map(usize::from);
    let detail = match (number(args.layer), number(args.head), number(args.step)) {
        _ if args.full => Detail::All,
        (None, None, None) => Detail::Summary,
        (layer, head, word) => Detail::Part { layer, head, word },
    };
    let follow = Follow {
        text,
        second: args.second.as_deref(),
        max_new_tokens: usize::from(args.max_new_tokens),
        detail,
    };
    let backend = console.exact_backend();
    Ok(match open(args, console)? {
        Opened::TextGenerator(generator) => {
            let Followed { walkthrough, goes_on } = follow.written(&generator, &*backend)?;
            if let Some(count) = goes_on {
                console.note(&unfinished(count, spoken(args, console)));
            }
            walkthrough
        }
        Opened::TextEncoder(encoder) => follow.read(&encoder, &*backend)?,
    })
}

/// A model with its tokenizer, by what it does with texts.
enum Opened {
    TextGenerator(Box<TextGenerator>),
    TextEncoder(Box<TextEncoder>),
}

fn open(args: &Explain, console: &Console) -> Result<Opened, Failure> {
    let Some(path) = load::own(args.model.as_deref(), console)? else {
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
