//! `glassformer embed`, `fill`, `classify`, `tag` and `answer`: texts in, results out, in the order of the texts.

use std::collections::BTreeMap;

use glassformer::tasks::{self, Blank, Entity, Found, Input, Label, Long};
use glassformer::tokens::Span;
use glassformer::{Tensor, weights};
use serde_json::{Value, json};

use crate::args;
use crate::console::Console;
use crate::failure::Failure;
use crate::load;
use crate::outputs::{Form, Outputs, number};
use crate::progress::Progress;
use crate::texts::{Reading, Texts};

/// Works through `texts` chunk by chunk and writes each result.
pub fn each<R>(
    texts: &Texts,
    json: bool,
    work: impl FnMut(&[&str]) -> Result<Vec<R>, tasks::Error>,
    write: (impl Fn(&str, &R) -> Vec<String>, impl Fn(&R) -> Value),
) -> Result<(), Failure> {
    each_of(texts.read()?, json, work, write)
}

/// The same for texts that are being read.
pub fn each_of<R>(
    mut reading: Reading,
    json: bool,
    mut work: impl FnMut(&[&str]) -> Result<Vec<R>, tasks::Error>,
    (lines, value): (impl Fn(&str, &R) -> Vec<String>, impl Fn(&R) -> Value),
) -> Result<(), Failure> {
    let asks = reading.asks();
    let mut outputs = Outputs::new(Form::of(json));
    let mut progress = Progress::count("texts");
    loop {
        let chunk = reading.chunk()?;
        if chunk.is_empty() || outputs.closed() {
            break;
        }
        let borrowed: Vec<&str> = chunk.iter().map(String::as_str).collect();
        let results = progress.during(|| work(&borrowed));
        if asks {
            progress.finish(); // it would stand where the next text is typed
            progress = Progress::count("texts");
        }
        let results = results.map_err(|error| error.counted_from(outputs.count()))?;
        for (text, result) in borrowed.iter().zip(&results) {
            let push = || outputs.push(|| lines(text, result).join("\n") + "\n", || value(result));
            progress.above(push)?;
        }
        if !asks {
            progress.advance(chunk.len() as u64);
        }
    }
    progress.finish();
    outputs.finish()
}

pub fn long(truncate: bool) -> Long {
    if truncate { Long::Cut } else { Long::Refuse }
}

pub fn embed(args: &args::Embed, console: &Console) -> Result<(), Failure> {
    let encoder = load::embedder(&load::path(args.model.given(), console)?, console)?;
    let prompt = match args.prompt.as_deref() {
        None => tasks::Prompt::Usual,
        Some("none") => tasks::Prompt::Nothing,
        Some(name) => tasks::Prompt::Named(name.to_owned()),
    };
    let options = tasks::Embed { prompt, long: long(args.truncate) };
    let work = |texts: &[&str]| encoder.embed(texts, &options);
    let lines = |_: &str, vector: &Vec<f32>| {
        vec![vector.iter().map(|x| format!("{x:.6}")).collect::<Vec<_>>().join(" ")]
    };
    let value =
        |vector: &Vec<f32>| json!({ "embedding": vector.iter().map(|&x| number(x)).collect::<Vec<_>>() });
    if let Some(similar) = &args.similar {
        let to = work(&[similar])?.remove(0);
        let lines = |text: &str, vector: &Vec<f32>| vec![format!("{:.6}  {text}", cosine(&to, vector))];
        let value = |vector: &Vec<f32>| json!({ "similarity": number(cosine(&to, vector) as f32) });
        return each(&args.texts, args.json, work, (lines, value));
    }
    let Some(out) = &args.out else { return each(&args.texts, args.json, work, (lines, value)) };
    let mut reading = args.texts.read()?;
    let (mut numbers, mut rows) = (Vec::new(), 0);
    let progress = Progress::count("texts");
    loop {
        let chunk = reading.chunk()?;
        if chunk.is_empty() {
            break;
        }
        let texts: Vec<&str> = chunk.iter().map(String::as_str).collect();
        let vectors = progress.during(|| work(&texts)).map_err(|error| error.counted_from(rows))?;
        numbers.extend(vectors.into_iter().flatten());
        rows += chunk.len();
        progress.advance(chunk.len() as u64);
    }
    progress.finish();
    let width = numbers.len().checked_div(rows).unwrap_or_default();
    let tensor = Tensor::new(&[rows, width], numbers)
        .ok_or_else(|| Failure::new("the vectors have different lengths", "please report this"))?;
    weights::save(out, [("embeddings", &tensor)], &BTreeMap::new())?;
    console.note(&format!("wrote {rows} vectors of {width} numbers to {}", out.display()));
    Ok(())
}

/// The cosine of the angle between two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

pub fn fill(args: &args::Fill, console: &Console) -> Result<(), Failure> {
    let encoder = load::encoder(&load::path(args.model.given(), console)?, console)?;
    let options = tasks::Fill { top: args.top, long: long(args.truncate) };
    let lines = |text: &str, blanks: &Vec<Blank>| filled(text, blanks);
    let choice = |choice: &tasks::Choice| json!({ "id": choice.id, "word": choice.word, "score": number(choice.score), "text": choice.text });
    let blank = |blank: &Blank| json!({ "place": blank.place, "choices": blank.choices.iter().map(choice).collect::<Vec<_>>() });
    let value = |blanks: &Vec<Blank>| json!({ "blanks": blanks.iter().map(blank).collect::<Vec<_>>() });
    each(&args.texts, args.json, |texts| encoder.fill(texts, &options), (lines, value))
}

/// The words for one blank with the text that each makes; for several, the text and under it the words for each.
fn filled(text: &str, blanks: &[Blank]) -> Vec<String> {
    if let [only] = blanks {
        let line =
            |choice: &tasks::Choice| format!("{:.4}  {}  {}", choice.score, choice.word.trim(), choice.text);
        return only.choices.iter().map(line).collect();
    }
    let words = blanks.iter().zip(1..).flat_map(|(blank, number)| {
        let line = move |choice: &tasks::Choice| {
            format!("  blank {number}  {:.4}  {}", choice.score, choice.word.trim())
        };
        blank.choices.iter().map(line)
    });
    std::iter::once(text.to_owned()).chain(words).collect()
}

pub fn classify(args: &args::Classify, console: &Console) -> Result<(), Failure> {
    let encoder = load::encoder(&load::path(args.model.given(), console)?, console)?;
    let options = tasks::Classify { top: args.top, long: long(args.truncate) };
    let lines = |text: &str, labels: &Vec<Label>| {
        labels.iter().map(|label| format!("{:.4}  {}  {text}", label.score, label.label)).collect()
    };
    let label = |label: &Label| json!({ "label": label.label, "score": number(label.score) });
    let value = |labels: &Vec<Label>| json!({ "labels": labels.iter().map(label).collect::<Vec<_>>() });
    let work = |texts: &[&str]| encoder.classify(&inputs(texts, args.pairs)?, &options);
    each(&args.texts, args.json, work, (lines, value))
}

/// Texts, or pairs with a tab between.
pub fn inputs<'t>(texts: &[&'t str], pairs: bool) -> Result<Vec<Input<'t>>, tasks::Error> {
    let input = |(text, line): (usize, &&'t str)| match (pairs, line.split_once('\t')) {
        (true, Some((first, second))) => Ok(Input::Pair(first, second)),
        (true, None) => Err(tasks::Error::Text {
            text,
            what: "there is no tab in it".to_owned(),
            hint: "--pairs takes two texts with a tab between; leave it out for single texts".to_owned(),
        }),
        (false, _) => Ok(Input::One(line)),
    };
    texts.iter().enumerate().map(input).collect()
}

pub fn tag(args: &args::Tag, console: &Console) -> Result<(), Failure> {
    let encoder = load::encoder(&load::path(args.model.given(), console)?, console)?;
    let merge = match args.merge {
        args::Merge::None => tasks::Merge::None,
        args::Merge::Simple => tasks::Merge::Simple,
        args::Merge::First => tasks::Merge::First,
        args::Merge::Average => tasks::Merge::Average,
        args::Merge::Max => tasks::Merge::Max,
    };
    let options = tasks::Tag { merge, long: long(args.truncate) };
    let lines = |text: &str, entities: &Vec<Entity>| {
        let line = |entity: &Entity| {
            format!("  {:.4}  {}  {}  {}", entity.score, entity.label, place(entity.chars), entity.text)
        };
        std::iter::once(text.to_owned()).chain(entities.iter().map(line)).collect()
    };
    let entity = |entity: &Entity| {
        let Span { start, end } = entity.chars;
        json!({ "label": entity.label, "score": number(entity.score), "start": start, "end": end, "text": entity.text })
    };
    let value =
        |entities: &Vec<Entity>| json!({ "entities": entities.iter().map(entity).collect::<Vec<_>>() });
    each(&args.texts, args.json, |texts| encoder.tag(texts, &options), (lines, value))
}

/// Where something lies in a text, in characters.
pub fn place(span: Span) -> String {
    format!("{}–{}", span.start, span.end)
}

pub fn answer(args: &args::Answer, console: &Console) -> Result<(), Failure> {
    let context = match (&args.context, &args.context_file) {
        (Some(context), _) => Some(context.clone()),
        (None, Some(path)) => Some(std::fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read {}: {error}", path.display());
            Failure::new(what, "--context-file takes a file of text in UTF-8")
        })?),
        (None, None) => None,
    };
    let encoder = load::encoder(&load::path(args.model.given(), console)?, console)?;
    let unanswerable =
        if args.unanswerable { tasks::Unanswerable::Possible } else { tasks::Unanswerable::Never };
    let options = tasks::Answer {
        top: args.top,
        longest: args.longest,
        window: args.window,
        overlap: args.overlap,
        unanswerable,
    };
    let lines = |_: &str, answers: &Vec<Found>| {
        let line = |found: &Found| {
            let text = if found.text.is_empty() { "(no answer)" } else { &found.text };
            format!("{:.4}  {}  {text}", found.score, place(found.chars))
        };
        answers.iter().map(line).collect()
    };
    let found = |found: &Found| {
        let Span { start, end } = found.chars;
        json!({ "text": found.text, "score": number(found.score), "start": start, "end": end })
    };
    let value = |answers: &Vec<Found>| json!({ "answers": answers.iter().map(found).collect::<Vec<_>>() });
    let work = |texts: &[&str]| {
        let pairs = texts.iter().enumerate().map(|(text, line)| match (&context, line.split_once('\t')) {
            (Some(context), _) => Ok((*line, context.as_str())),
            (None, Some(pair)) => Ok(pair),
            (None, None) => Err(tasks::Error::Text {
                text,
                what: "there is no context".to_owned(),
                hint: "give --context or --context-file, or write question, tab, context on a line"
                    .to_owned(),
            }),
        });
        encoder.answer(&pairs.collect::<Result<Vec<_>, _>>()?, &options)
    };
    each(&args.texts, args.json, work, (lines, value))
}
