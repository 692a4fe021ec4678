//! `glassformer evaluate`: how good a model is, in the usual scores.

use glassformer::metrics::Words;
use glassformer::train::Evaluate;
use glassformer::train::config::{Column, Source};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::args;
use crate::console::{self, Console};
use crate::failure::Failure;
use crate::load;
use crate::progress::Progress;

pub fn run(args: &args::Evaluate, console: &Console) -> Result<(), Failure> {
    let format = args.format.as_deref().map(|name| named("--format", name)).transpose()?;
    let source = |path: &std::path::PathBuf| Source {
        path: path.clone(),
        format,
        columns: columns(&args.columns),
        skip: args.skip,
        weight: 1.0,
    };
    let sources: Vec<Source> = args.files.iter().map(source).collect();
    let words = words(&args.words);
    let objective = args.objective.as_deref().map(|name| named("--objective", name)).transpose()?;
    let evaluate = Evaluate { objective, words, beams: args.beams, most: args.limit };
    let path = load::path(args.model.given(), console)?;
    let progress = Progress::count("examples");
    let backend = console.backend(&path);
    let found = evaluate.run(&path, &sources, backend, &mut |count| progress.advance(count as u64))?;
    progress.finish();
    if args.json {
        let scores: Map<String, Value> =
            found.scores.iter().map(|(name, score)| (name.clone(), json!(score))).collect();
        let mut value = json!({ "schema": 1, "examples": found.examples, "scores": scores });
        if args.answers {
            let answer = |(asked, answer): &(String, String)| json!({ "input": asked, "answer": answer });
            value["answers"] = found.answers.iter().map(answer).collect();
        }
        return console::result(&format!("{value}\n"));
    }
    let mut text = String::new();
    if args.answers {
        text.extend(found.answers.iter().map(|(asked, answer)| format!("{asked}\t{answer}\n")));
    }
    text.extend(found.scores.iter().map(|(name, score)| format!("{name} {score:.4}\n")));
    console.note(&format!("{} examples", found.examples));
    console::result(&text)
}

/// Columns by their numbers or keys.
pub fn columns(given: &[String]) -> Vec<Column> {
    let column = |text: &String| text.parse().map_or_else(|_| Column::Key(text.clone()), Column::Number);
    given.iter().map(column).collect()
}

/// How words are told apart, by its name.
pub fn words(name: &str) -> Words {
    match name {
        "zh" => Words::Chinese,
        "none" => Words::Spaced,
        _ => Words::Western,
    }
}

/// A value by its name in configurations.
pub fn named<T: DeserializeOwned>(option: &str, name: &str) -> Result<T, Failure> {
    serde_json::from_value(json!(name)).map_err(|error| {
        let text = error.to_string();
        let expected = text.split_once("expected ").map_or("", |(_, expected)| expected);
        Failure::new(format!("{option} does not know {name:?}"), format!("it takes {expected}"))
    })
}
