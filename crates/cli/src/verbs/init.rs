//! `glassformer train --init`: a configuration proposed from the data.

use std::path::PathBuf;

use glassformer::Precision;
use glassformer::train::Event;
use glassformer::train::config::Objective;
use glassformer::train::init::{Proposal, Wanted};
use serde_json::{Value, json};

use crate::args;
use crate::console::{self, Console, peak_memory};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::staging::{self, Existing};
use crate::verbs::evaluate::{columns, named};

pub fn run(objective: &str, args: &args::Train, console: &Console) -> Result<(), Failure> {
    let learned: Objective = named("--init", objective)?;
    let to = args.out.clone().unwrap_or_else(|| beside(objective, args));
    let existing = Existing::of(args.force);
    staging::refuse_existing(&to, existing)?;
    let wanted = Wanted {
        objective: learned,
        files: args.files.clone(),
        format: args.format.as_deref().map(|name| named("--format", name)).transpose()?,
        columns: columns(&args.columns),
        skip: args.skip,
        to: to.clone(),
        memory: free_memory().map(|bytes| bytes / 2),
        threads: console.threads(),
    };
    let reading = Progress::count("examples read");
    let backend = console.device(Precision::F32);
    let proposal = wanted.propose(&*backend, &mut |event| {
        if let Event::Read(count) = event {
            reading.advance(count as u64);
        }
    })?;
    reading.finish();
    staging::write(&to, &proposal.text, existing)?;
    if args.json {
        return console::result(&format!("{}\n", value(&proposal, &to.display().to_string())));
    }
    console::result(&lines(&proposal, &to.display().to_string()))
}

/// A name for the configuration that says what it is for.
fn beside(objective: &str, args: &args::Train) -> PathBuf {
    let name = args.files.first().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    let stem = name.as_deref().and_then(|name| name.split('.').next()).filter(|stem| !stem.is_empty());
    PathBuf::from(format!("{}-{objective}.toml", stem.unwrap_or("train")))
}

/// The memory that is free, in bytes, where the system tells.
fn free_memory() -> Option<u64> {
    let known = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = known.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn lines(proposal: &Proposal, to: &str) -> String {
    let Proposal { config, survey, measured, .. } = proposal;
    let mut lines =
        vec![format!("data        {} examples, {} characters", survey.examples, survey.characters)];
    if !survey.labels.is_empty() {
        lines.push(format!("labels      {}: {}", survey.labels.len(), survey.label_counts()));
    }
    lines.extend(survey.notes.iter().map(|note| format!("            {note}")));
    if let Some(shape) = &config.model.shape {
        let [width, layers] = [shape.width, shape.layers].map(Option::unwrap_or_default);
        let parameters = measured.parameters;
        lines.push(format!(
            "model       {}, width {width}, {layers} layers: {parameters} parameters",
            shape.name
        ));
    }
    let epochs = proposal.epochs;
    lines.push(format!(
        "training    {} steps of up to {} tokens: each example about {epochs:.0} times",
        config.schedule.steps, config.batch.tokens
    ));
    lines.push(format!(
        "time        about {}, from {:.0} ms a step measured here with {} threads",
        duration(proposal.seconds()),
        measured.step * 1e3,
        measured.threads
    ));
    if let Some(bytes) = peak_memory() {
        lines.push(format!("memory      about {:.0} MB, as measured", bytes as f64 / 1e6));
    }
    lines.push(format!("wrote       {to}; now: glassformer train {to}"));
    lines.join("\n") + "\n"
}

fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} seconds"),
        90.0..5400.0 => format!("{:.0} minutes", seconds / 60.0),
        _ => format!("{:.1} hours", seconds / 3600.0),
    }
}

fn value(proposal: &Proposal, to: &str) -> Value {
    let Proposal { config, survey, measured, .. } = proposal;
    json!({
        "schema": 1,
        "config": to,
        "examples": survey.examples,
        "characters": survey.characters,
        "labels": survey.labels,
        "notes": survey.notes,
        "shape": config.model.shape,
        "parameters": measured.parameters,
        "steps": config.schedule.steps,
        "epochs": proposal.epochs,
        "seconds_per_step": measured.step,
        "seconds": proposal.seconds(),
        "memory": peak_memory(),
    })
}
