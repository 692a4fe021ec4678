//! `glassformer translate`, `summarize` and `score`, and `generate` with text: texts in, texts out.

use std::io::{self, Write};
use std::ops::ControlFlow;

use glassformer::TextGenerator;
use glassformer::tasks::{self, GeneratedText, Likelihood, ScoredToken};
use serde_json::{Value, json};

use super::tasks::{each, each_of, inputs, long};
use crate::args;
use crate::console::Console;
use crate::failure::Failure;
use crate::load;
use crate::outputs::{Form, Outputs, Wrote, number};
use crate::progress::Progress;
use crate::texts::Reading;

pub fn translate(args: &args::Translate, console: &Console) -> Result<(), Failure> {
    let Some(path) = load::own(args.model.as_deref(), console)? else {
        if args.decode.draft_model().is_some() {
            return Err(Failure::new(
                "--draft MODEL: the translator of this program has a vocabulary of its own",
                "use --draft lookup, or give a --model",
            ));
        }
        let translator = load::translator(console)?;
        let options = translation(args, translator.generator(), console)?;
        let reading = args.texts.read_or_ask(console)?;
        return texts(reading, args.json, |texts| translator.translate_all(texts, &options));
    };
    let generator = load::generator(&path, args.decode.draft_model(), console)?;
    let options = translation(args, &generator, console)?;
    texts(args.texts.read_or_ask(console)?, args.json, |texts| generator.translate(texts, &options))?;
    load::told_of_drafts(&generator, console);
    Ok(())
}

/// How the user wants `generator` to translate.
fn translation(
    args: &args::Translate,
    generator: &TextGenerator,
    console: &Console,
) -> Result<tasks::Translate, Failure> {
    let mut generate = generator.default_options();
    args.decode.apply_for_one(&mut generate.decoding, console)?;
    generate.long = long(args.truncate);
    let split = match args.split {
        args::Split::Long => tasks::Split::Long,
        args::Split::Always => tasks::Split::Always,
        args::Split::Never => tasks::Split::Never,
    };
    Ok(tasks::Translate { generate: Some(generate), from: args.from.clone(), to: args.to.clone(), split })
}

pub fn summarize(args: &args::Summarize, console: &Console) -> Result<(), Failure> {
    let generator =
        load::generator(&load::path(args.model.given(), console)?, args.decode.draft_model(), console)?;
    let mut options = generator.default_options();
    args.decode.apply_for_one(&mut options.decoding, console)?;
    options.long = long(args.truncate);
    let given = if args.whole { args.texts.whole()? } else { args.texts.clone() };
    texts(given.read()?, args.json, |texts| generator.summarize(texts, &options))?;
    load::told_of_drafts(&generator, console);
    Ok(())
}

/// Results that are texts.
fn texts(
    given: Reading,
    json: bool,
    work: impl FnMut(&[&str]) -> Result<Vec<String>, tasks::Error>,
) -> Result<(), Failure> {
    let lines = |_: &str, text: &String| vec![text.clone()];
    each_of(given, json, work, (lines, |text: &String| json!({ "text": text })))
}

pub fn score(args: &args::Score, console: &Console) -> Result<(), Failure> {
    let encoder = load::encoder(&load::path(args.model.given(), console)?, console)?;
    let token = |id: u32| encoder.tokenizer().token(id).unwrap_or_default();
    let lines = |text: &str, found: &Likelihood| {
        let perplexity = found.perplexity();
        let mut lines =
            vec![format!("{perplexity:.4}  {:.4}  {} tokens  {text}", found.total, found.tokens.len())];
        let one =
            |scored: &ScoredToken| format!("  {:.4}  {}  {}", scored.logprob, scored.id, token(scored.id));
        if args.tokens {
            lines.extend(found.tokens.iter().map(one));
        }
        lines
    };
    let value = |found: &Likelihood| {
        let one = |scored: &ScoredToken| json!({ "id": scored.id, "text": token(scored.id), "logprob": number(scored.logprob) });
        json!({
            "perplexity": found.perplexity(),
            "log_likelihood": found.total,
            "tokens": found.tokens.iter().map(one).collect::<Vec<_>>(),
        })
    };
    let work = |texts: &[&str]| encoder.score(&inputs(texts, args.pairs)?, long(args.truncate));
    each(&args.texts, args.json, work, (lines, value))
}

/// `generate` with text: a single prompt is continued on the screen as it goes, several run together.
pub fn generate(args: &args::Generate, console: &Console) -> Result<(), Failure> {
    let generator =
        load::generator(&load::path(args.model.given(), console)?, args.decode.draft_model(), console)?;
    let mut options = generator.default_options();
    args.decode.apply_anew(&mut options.decoding, console)?;
    options.decoding.start = args.start.or(options.decoding.start);
    if let Some(end) = args.end {
        options.decoding.end = vec![end];
    }
    options.decoding.logprobs = args.logprobs.then_some(0);
    options.stop.extend(args.stop.iter().cloned());
    options.prefix = args.prefix.clone().unwrap_or_default();
    options.negative = args.negative.clone().unwrap_or_default();
    options.form = args.form.read()?;
    options.long = long(args.truncate);
    let mut reading = args.texts.read()?;
    let mut outputs = Outputs::new(Form::of(args.json));
    let mut prompts = 0;
    let progress = Progress::count("texts");
    loop {
        let chunk = reading.chunk()?;
        if chunk.is_empty() || outputs.closed() {
            progress.finish();
            load::told_of_drafts(&generator, console);
            return outputs.finish();
        }
        let texts: Vec<&str> = chunk.iter().map(String::as_str).collect();
        let streams = texts.len() == 1 && !args.json && options.decoding.returns == 1;
        let mut tell = |_: usize, piece: &str| if streams { show(piece) } else { ControlFlow::Continue(()) };
        let mut write = || generator.generate(&texts, &options, &mut tell);
        // A text that is shown as it comes is its own progress.
        let results = if streams { write() } else { progress.during(write) };
        let results = results.map_err(|error| error.counted_from(prompts))?;
        for written in results {
            for written in &written {
                let line = || if streams { "\n".to_owned() } else { format!("{}\n", written.text) };
                progress.above(|| outputs.push(line, || value(prompts, written)))?;
            }
            prompts += 1;
            progress.advance(1);
        }
    }
}

/// Shows a piece of text at once. A reader that has gone ends the text.
pub fn show(piece: &str) -> ControlFlow<()> {
    let mut out = io::stdout().lock();
    match out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// What was written, as JSON.
pub fn value(prompt: usize, written: &GeneratedText) -> Value {
    let GeneratedText { text, ids, score, finish, logprobs, .. } = written;
    let mut value = Wrote { ids, text: Some(text), score: *score, finish: *finish, logprobs }.json();
    value["prompt"] = prompt.into();
    value
}
