//! What a training takes, by doing some steps of it: with examples of the data, in a folder that is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use glassformer_graph::Backend;
use serde_json::{Value, json};

use super::survey::Survey;
use crate::config::{Config, Format, Objective, Source};
use crate::data::Record;
use crate::{Changes, Error, Event, Run};

/// How many steps are made; the first is for caches and memory.
const STEPS: usize = 4;

/// What some steps of a training took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// A step, in seconds.
    pub step: f64,
    /// Parameters.
    pub parameters: usize,
    /// The bytes of them, their gradients and their moments.
    pub weights: usize,
    /// The threads that computed.
    pub threads: usize,
}

/// A folder of this process that is removed at the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Result<Self, Error> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("glassformer-init-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).map_err(Error::io("create", &path))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Trains some steps of `config` with the vocabulary that lies in `folder`.
pub(super) fn measure(
    config: &Config,
    survey: &Survey,
    folder: &Folder,
    (backend, threads): (&dyn Backend, usize),
) -> Result<Measured, Error> {
    let data = folder.path().join("data.jsonl");
    let lines: Vec<String> =
        survey.kept.iter().map(|record| line(record, survey.objective).to_string()).collect();
    fs::write(&data, lines.join("\n")).map_err(Error::io("write", &data))?;
    let mut config = config.clone();
    config.out = folder.path().join("out");
    let _ = fs::remove_dir_all(&config.out);
    config.tokenizer.folder = Some(folder.path().to_owned());
    let (columns, skip) = (Vec::new(), 0);
    // A second text has a name of its own, which is read where it is asked for.
    let columns = match survey.kept.first() {
        Some(record) if survey.objective == Objective::Classify && record.texts.len() > 2 => {
            ["text", "label", "second"].map(|key| crate::config::Column::Key(key.into())).into()
        }
        _ => columns,
    };
    config.data.train = vec![Source { path: data, format: Some(Format::Jsonl), columns, skip, weight: 1.0 }];
    config.data.held_out = 0.0;
    config.schedule.steps = STEPS;
    config.checkpoint.every = STEPS;
    let mut parameters = 0;
    let mut run = Run::open(config, backend, Changes::Refuse, &mut |event| {
        if let Event::Model { parameters: count, .. } = event {
            parameters = count;
        }
    })?;
    let mut times = Vec::new();
    run.go(&|| false, &mut |event| {
        if let Event::Step { step, seconds, .. } = event
            && step > 1
        {
            times.push(seconds);
        }
    })?;
    times.sort_by(f64::total_cmp);
    let step = times.get(times.len() / 2).copied().unwrap_or(0.0);
    Ok(Measured { step, parameters, weights: 16 * parameters, threads })
}

/// A record as a line of JSON, under the keys that are usual.
fn line(record: &Record, objective: Objective) -> Value {
    let text = |at: usize| record.texts.get(at).map_or("", String::as_str);
    match objective {
        Objective::Translate => json!({ "source": text(0), "target": text(1) }),
        Objective::Generate | Objective::Fill => json!({ "text": text(0) }),
        Objective::Classify => json!({ "text": text(0), "label": text(1), "second": text(2) }),
        Objective::Tag => {
            let (words, tags): (Vec<&str>, Vec<&str>) =
                record.words.iter().map(|(word, tag)| (word.as_str(), tag.as_str())).unzip();
            json!({ "tokens": words, "tags": tags })
        }
        Objective::Answer => {
            let mut value = json!({ "question": text(0), "context": text(1), "answer": text(2) });
            if let Some(start) = record.start {
                value["start"] = start.into();
            }
            value
        }
        Objective::Embed => json!({ "first": text(0), "second": text(1) }),
    }
}
