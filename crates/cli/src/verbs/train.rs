//! `glassformer train`: a model from a configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glassformer::Precision;
use glassformer::train::config::{Objective, Precision as Wanted};
use glassformer::train::{Changes, Config, Ended, Event, Log, Report, Run};
use serde_json::json;

use crate::Done;
use crate::args;
use crate::console::{self, Console};
use crate::failure::Failure;
use crate::models;
use crate::progress::{Progress, Training};
use crate::staging::{self, Existing};
use crate::verbs::init;

pub fn run(args: &args::Train, console: &Console) -> Result<Done, Failure> {
    if console.is_dtype_given() {
        return Err(Failure::new(
            "--dtype: what a training multiplies in stands in its configuration",
            "write precision = \"bf16\" or precision = \"f32\" there",
        ));
    }
    if let Some(objective) = &args.init {
        init::run(objective, args, console)?;
        return Ok(Done::Well);
    }
    let [file] = &args.files[..] else {
        return Err(Failure::new(
            format!("a training has one configuration, and {} files are given", args.files.len()),
            "to have one written for data, add --init and what is to be learned",
        ));
    };
    let mut config = Config::open(file)?;
    if let Some(checkpoint) = &mut config.model.checkpoint {
        *checkpoint = models::named_in(file, checkpoint, console)?;
    }
    let out = config.out.clone();
    if args.plot {
        return plot(&config, console);
    }
    let backend = console.training_backend(match config.precision {
        Wanted::F32 => Precision::F32,
        Wanted::Bf16 => Precision::Bf16,
    });
    let unit = match config.objective {
        Objective::Translate | Objective::Generate | Objective::Fill | Objective::Tag => "tokens",
        Objective::Classify | Objective::Answer | Objective::Embed => "texts",
    };
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    ctrlc::set_handler(move || {
        // Whoever asks twice does not want to wait for the checkpoint.
        if told.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })
    .map_err(|error| Failure::new(format!("Ctrl-C cannot be watched: {error}"), "report this"))?;
    let changes = if args.changed { Changes::Accept } else { Changes::Refuse };
    let mut watch = Watch { console, reading: Progress::count("examples read"), bar: None };
    let mut training = Run::open(config, &*backend, changes, &mut |event| watch.tell(event))?;
    let (made, all) = training.steps();
    let until = args.until.unwrap_or(all).min(all);
    watch.bar = Some(Training::new(made, all, unit));
    let enough = std::cell::Cell::new(made);
    let ended = training.go(
        &|| stop.load(Ordering::SeqCst) || enough.get() >= until && until < all,
        &mut |event| {
            if let Event::Step { step, .. } | Event::Skipped { step, .. } = event {
                enough.set(step);
            }
            watch.tell(event);
        },
    )?;
    if let Some(bar) = &watch.bar {
        bar.finish();
    }
    let (made, all) = training.steps();
    let model = out.join("model");
    if args.json {
        let text =
            json!({ "schema": 1, "steps": made, "of": all, "model": model, "log": out.join("log.jsonl") });
        console::result(&format!("{text}\n"))?;
    } else {
        console.note(&format!("{made} of {all} steps; the model is in {}", model.display()));
    }
    if ended == Ended::Stopped && stop.load(Ordering::SeqCst) {
        return Ok(Done::Interrupted);
    }
    if !training.is_sound() {
        console.warn(&Failure::new(
            "the loss or a weight is no finite number at the end: the model has learned nothing since",
            "lower schedule.rate, or begin with a longer warmup, in another folder",
        ));
        return Ok(Done::Negative);
    }
    Ok(Done::Well)
}

/// Tells what happens.
struct Watch<'c> {
    console: &'c Console,
    reading: Progress,
    bar: Option<Training>,
}

impl Watch<'_> {
    fn tell(&mut self, event: Event) {
        match event {
            Event::Read(count) => self.reading.advance(count as u64),
            Event::Doubt { what, hint } => self.console.warn(&Failure::new(what, hint)),
            Event::Step { step, loss, rows, seconds } => {
                if let Some(bar) = &mut self.bar {
                    bar.step(step, loss, rows as f64 / seconds);
                }
                self.console
                    .detail(|| format!("step {step}: loss {loss:.4}, {:.0} rows/s", rows as f64 / seconds));
            }
            Event::Data(report) => {
                self.reading.finish();
                self.say(&counts(&report));
            }
            Event::Learning { lines, size } => {
                let what = size.map_or("characters".to_owned(), |size| format!("{size} tokens"));
                self.say(&format!("learning a vocabulary of {what} from {lines} texts"));
            }
            Event::Model { parameters, learning, kind } => {
                let kind = kind.map_or("its formula".to_owned(), |kind| format!("a {kind} model"));
                self.say(&format!("{parameters} parameters, {learning} of which learn; written as {kind}"));
            }
            Event::Resumed(step) => self.say(&format!("going on after step {step}")),
            Event::Damaged(steps) => {
                self.say(&format!("passed over damaged checkpoints of steps {steps:?}"));
            }
            Event::Skipped { step, loss } => {
                self.say(&format!(
                    "step {step} moved nothing: its loss is {loss}, or its gradient is not finite"
                ));
            }
            Event::Checked { step, found, best } => {
                let mark = if best { ", the best so far" } else { "" };
                let (loss, right) = (found.mean(), 100.0 * found.accuracy());
                self.say(&format!("step {step}: loss {loss:.4} on other data, {right:.1} % right{mark}"));
            }
            Event::Saved { step, path } => {
                self.console.detail(|| format!("step {step}: wrote {}", path.display()));
            }
            _ => {}
        }
    }

    /// Says something above the bar.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.above(|| self.console.note(text)),
            None => self.console.note(text),
        }
    }
}

fn counts(report: &Report) -> String {
    let dropped: Vec<String> = report
        .dropped
        .reasons()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let left = if dropped.is_empty() { String::new() } else { format!("; left out: {}", dropped.join(", ")) };
    format!("{} examples to learn from, {} to check with{left}", report.train, report.valid)
}

fn plot(config: &Config, console: &Console) -> Result<Done, Failure> {
    let entries = Log::read(config.out.join("log.jsonl"));
    if entries.is_empty() {
        return Err(Failure::new(
            format!("there is no log in {}", config.out.display()),
            "train first; the log is written step by step",
        ));
    }
    let path = config.out.join("report.html");
    let page = glassformer::train::report(config, &entries);
    staging::write(&path, &page, Existing::Replace)?;
    console.note(&format!("wrote {}", path.display()));
    Ok(Done::Well)
}
