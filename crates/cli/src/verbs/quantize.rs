//! `glassformer quantize`: a model written again in few bits, and how far it is from what it was.

use std::path::{Path, PathBuf};

use glassformer::Precision;
use glassformer::families::copy_beside;
use glassformer::formula::Head;
use glassformer::quantize::{Fitted, Quantize, Written};
use glassformer::tasks::Comparison;
use glassformer::train::Evaluate;
use glassformer::train::config::Source;
use glassformer::{Model, Sequence, TextEncoder, TextGenerator, tasks};
use serde_json::{Map, Value, json};

use crate::args::{Quantize as Args, To};
use crate::console::{Console, is_quantized, result};
use crate::failure::{self, Failure};
use crate::load;
use crate::progress::Progress;
use crate::staging::{Existing, Staging};
use crate::texts::Texts;
use crate::verbs::evaluate::words;

pub fn run(args: &Args, console: &Console) -> Result<(), Failure> {
    if console.is_dtype_given() {
        return Err(Failure::new(
            "--dtype: a model is compared in f32 with what is written, as it is stored",
            "leave it out; --to says how many bits are written",
        ));
    }
    let how = match args.to {
        To::Int8 => Quantize::Int8,
        To::Int4 => Quantize::Int4,
    };
    let model = &load::path(args.model.given(), console)?;
    check(model, &args.out)?;
    let staging = Staging::begin(&args.out, Existing::of(args.force))?;
    // Where another part of the program has a handler, an interruption leaves a hidden folder: no harm.
    let undo = staging.undo();
    let _ = ctrlc::set_handler(move || {
        undo();
        std::process::exit(i32::from(failure::INTERRUPTED));
    });
    let [texts, calibrate] = [texts("--text", &args.text)?, texts("--calibrate", &args.calibrate)?];
    let checkpoint = load::checkpoint(model, console)?;
    let shared = checkpoint.model.clone();
    // All that can be wrong with what was given is found before anything is written.
    let before = if texts.is_empty() && calibrate.is_empty() {
        None
    } else {
        let cpu = console.device(BEFORE);
        Some(TextEncoder::new(checkpoint, tasks::tokenizer(model)?, cpu)?)
    };
    let samples = |texts: &[String]| {
        before.as_ref().map_or_else(|| Ok(Vec::new()), |encoder| samples(encoder, model, texts, console))
    };
    let [texts, calibrate] = [samples(&texts)?, samples(&calibrate)?];
    let scores_before = scores(args, (model, BEFORE), console)?;
    let fitted = fit(how, &shared, &calibrate, console)?;
    copy_beside(model, staging.path()).map_err(|error| staging.told(&error.into()))?;
    let written = how
        .write(&shared, &fitted, staging.path().join("model.safetensors"))
        .map_err(|error| staging.told(&error.into()))?;
    staging.finish()?;
    let logits = if let Some(before) = before.filter(|_| !texts.is_empty()) {
        let after = TextEncoder::open(&args.out, console.device(AFTER))?;
        Some(before.compare(&after, &texts)?)
    } else {
        None
    };
    let scores_after = scores(args, (&args.out, AFTER), console)?;
    let both = |((name, before), (_, after)): (Score, Score)| (name, [before, after]);
    let scores = scores_before.into_iter().zip(scores_after).map(both).collect();
    let told = Told { written, fitted: fitted.len(), texts: texts.len(), logits, scores };
    result(&if args.json { format!("{}\n", told.json()) } else { told.lines() })
}

/// Texts as the model reads them; with what it writes, where it is one that reads one text and writes another.
fn samples(
    encoder: &TextEncoder,
    model: &Path,
    texts: &[String],
    console: &Console,
) -> Result<Vec<Sequence>, Failure> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let formula = encoder.checkpoint().model.formula();
    let both = formula.source.is_some() && formula.target.is_some();
    if texts.is_empty() || !both || !matches!(formula.head, Head::Words { .. }) {
        return Ok(encoder.samples(&texts)?);
    }
    let generator = TextGenerator::open(model, console.device(BEFORE))?;
    let progress = Progress::items(texts.len() as u64, "writing");
    let samples = generator.samples(&texts, &mut || progress.advance(1))?;
    progress.finish();
    Ok(samples)
}

/// The weights of `model`, rounded by what they read with these texts.
fn fit(how: Quantize, model: &Model, texts: &[Sequence], console: &Console) -> Result<Fitted, Failure> {
    if texts.is_empty() {
        return Ok(Fitted::default());
    }
    let progress = Progress::items(SHARES, "calibrating");
    let mut told = 0;
    let mut tell = |share: f64| {
        let shares = (share * SHARES as f64) as u64;
        progress.advance(shares - std::mem::replace(&mut told, shares));
    };
    let backend = (console.device(BEFORE), console.threads());
    let fitted = how.fit(model, texts, backend, &mut tell)?;
    progress.finish();
    Ok(fitted)
}

/// What a bar is cut into whose whole is only a share.
const SHARES: u64 = 100;

/// What the model runs in.
const BEFORE: Precision = Precision::F32;

/// What runs in that was made of it.
const AFTER: Precision = Precision::Stored;

/// Refuses models that are no folders of full weights, and to write over the model itself.
fn check(model: &Path, out: &Path) -> Result<(), Failure> {
    let shown = model.display();
    let known = ["config.json", "formula.toml"].iter().any(|name| model.join(name).is_file());
    if model.exists() && !known {
        return Err(Failure::new(
            format!("{shown} is no folder with config.json or formula.toml"),
            "give the model as it was published; what is in few bits already is run as it is",
        ));
    }
    if is_quantized(model) {
        return Err(Failure::new(
            format!("{shown} is in few bits already"),
            "give the model that it was made from: what is lost once is lost for any other number of bits",
        ));
    }
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(model, out) {
        return Err(Failure::new(
            "--out is the model itself",
            "give another folder: the model is read while it is written",
        ));
    }
    Ok(())
}

/// The lines of the given files that have something in them.
fn texts(flag: &str, files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut reading = Texts { texts: Vec::new(), file: files.to_vec() }.read()?;
    let mut texts = Vec::new();
    loop {
        let chunk = reading.chunk()?;
        if chunk.is_empty() && texts.is_empty() {
            let why = format!("{flag}: there is no text in what was given");
            return Err(Failure::new(why, "give a file with a text on each line"));
        }
        if chunk.is_empty() {
            return Ok(texts);
        }
        texts.extend(chunk.into_iter().filter(|text| !text.trim().is_empty()));
    }
}

/// A score by name.
type Score = (String, f64);

/// The scores of a model on the data that was given.
fn scores(
    args: &Args,
    (model, precision): (&Path, Precision),
    console: &Console,
) -> Result<Vec<Score>, Failure> {
    if args.data.is_empty() {
        return Ok(Vec::new());
    }
    let source = |path: &PathBuf| Source {
        path: path.clone(),
        format: None,
        columns: Vec::new(),
        skip: 0,
        weight: 1.0,
    };
    let sources: Vec<Source> = args.data.iter().map(source).collect();
    let evaluate = Evaluate { objective: None, words: words(&args.words), beams: None, most: args.limit };
    let backend = console.device(precision);
    let progress = Progress::count("examples");
    let found = evaluate.run(model, &sources, backend, &mut |count| progress.advance(count as u64))?;
    progress.finish();
    Ok(found.scores)
}

/// What is told at the end.
struct Told {
    written: Written,
    /// Tensors of them that were fitted to texts.
    fitted: usize,
    texts: usize,
    logits: Option<Comparison>,
    /// Each by its name, of the model and of what was made of it.
    scores: Vec<(String, [f64; 2])>,
}

impl Told {
    fn lines(&self) -> String {
        let Self { written, fitted, texts, logits, scores } = self;
        let mega = |bytes: usize| bytes as f64 / 1e6;
        let mut lines = vec![format!(
            "wrote {} tensors in few bits and {} in f32: {:.1} MB instead of {:.1} MB\n",
            written.quantized,
            written.wide,
            mega(written.bytes),
            mega(written.before)
        )];
        if *fitted > 0 {
            lines.push(format!("calibrated {fitted} of them\n"));
        }
        if let Some(Comparison { rows, same, cosine, least, largest, size }) = *logits {
            let part = 100.0 * same as f64 / rows.max(1) as f64;
            lines.push(format!(
                "texts {texts}, rows of logits {rows}: cosine {cosine:.6} (least {least:.6}), largest difference {largest:.4} \
                 where the largest logit is {size:.4}, the same best one in {part:.1} %\n"
            ));
        }
        let score = |(name, [before, after]): &(String, [f64; 2])| {
            format!("{name} {after:.4} instead of {before:.4}: {:+.4}\n", after - before)
        };
        lines.extend(scores.iter().map(score));
        lines.concat()
    }

    fn json(&self) -> Value {
        let Self { written, fitted, texts, logits, scores } = self;
        let logits = logits.map(|logits| {
            json!({
                "texts": texts,
                "rows": logits.rows,
                "same_best": logits.same,
                "cosine": logits.cosine,
                "least_cosine": logits.least,
                "largest_difference": logits.largest,
                "largest_logit": logits.size,
            })
        });
        let score = |(name, [before, after]): &(String, [f64; 2])| {
            (name.clone(), json!({ "before": before, "after": after, "change": after - before }))
        };
        let scores: Map<String, Value> = scores.iter().map(score).collect();
        json!({
            "schema": 1,
            "narrow": written.quantized,
            "calibrated": fitted,
            "wide": written.wide,
            "bytes": written.bytes,
            "bytes_in_f32": written.before,
            "logits": logits,
            "scores": scores,
        })
    }
}
