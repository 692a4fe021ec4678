//! From a text and a model to a recording.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassformer_engine::{Finish, Sequence as Ran};
use glassformer_graph::Backend;
use glassformer_model::{Model as Weights, parameters};
use glassformer_tasks::{Generate, TextEncoder, TextGenerator};
use glassformer_tokens::SpecialText;

use super::answer::answer;
use super::asked::{Asked, asked};
use super::decode::Watched;
use super::watch::{Watch, fingerprint};
use super::{
    Check, Engine, Input, Level, Model, Record, Recording, SCHEMA, Sequence, Timings, Tokens, formula, steps,
    tokens,
};
use crate::follow::{ReadText, WrittenText};
use crate::tour::{Ending, Telling};
use crate::{Detail, Error, Follow, Text, Tour, Trace};

/// What a recording says of its model that the model itself does not know.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// What it was opened by.
    pub name: String,
    /// What it computes in: `f32`.
    pub precision: String,
    /// How long it took to open.
    pub load: Duration,
    /// SHA-256 of its weights, where it is known.
    pub hash: Option<String>,
}

/// The milliseconds since `start`.
fn since(start: Instant) -> f64 {
    milliseconds(start.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Follow<'_> {
    /// What `generator` makes of the text by `options`, as a recording. The search is watched, and then the model runs once more over the
    /// text and the answer with everything shown.
    ///
    /// # Errors
    /// If the text is too long or cannot be read, or the model cannot run.
    pub fn record_written(
        &self,
        generator: &TextGenerator,
        options: &Generate,
        backend: &dyn Backend,
        (about, level): (&About, Level),
    ) -> Result<Recording, Error> {
        let start = Instant::now();
        let watch = Arc::new(Watch::default());
        let options = Generate { observer: Some(watch.clone()), ..options.clone() };
        let WrittenText { encoding, sequence, begun, ids, text, score, finish, goes_on } =
            self.write(generator, &options)?;
        let run_ms = since(start);
        let start = Instant::now();
        let count = ids.len();
        let ending = Ending::Written { answer: text.trim(), count, beams: options.decoding.beams };
        let token = |id: u32| generator.tokenizer().readable(id);
        let tour = Tour { text: self.text, sequence, ending, token: &token, detail: Detail::Summary };
        let telling = tour.run(&generator.checkpoint().model, backend)?;
        let tokenizer = generator.tokenizer();
        let read = tokens::read(tokenizer, &encoding);
        let (source, beginning) = if generator.reads_source() {
            let begins = tour.sequence.target[..begun].iter().map(|&id| tokens::bare(tokenizer, id));
            (read, begins.collect())
        } else {
            (Vec::new(), read)
        };
        let tokens = Tokens { source, target: tokens::target(tokenizer, beginning, &ids) };
        let seen = watch.take();
        let spell = |ids: &[u32]| tokenizer.decode(ids, SpecialText::Skip).unwrap_or_default();
        let watched = Watched {
            seen: &seen,
            decoding: &options.decoding,
            ids: &ids,
            begun,
            token: &token,
            text: &spell,
        };
        let decode = watched.decode();
        let mut checks = vec![cached(&telling.trace, &watched, &decode)];
        if let Some(beams) = &decode.beams {
            checks.push(Check {
                name: "winner".to_owned(),
                title: Text {
                    en: "the winner of the beams is what was written".into(),
                    zh: "束搜索的胜者就是写出的文本".into(),
                },
                ok: watched.is_winner(beams, score),
                worst: 0.0,
                bound: 0.0,
                at: None,
            });
        }
        let mut recording = telling.record(backend, (about, &generator.checkpoint().kind), level)?;
        let record = &mut recording.record;
        (record.answer.text, record.answer.finish) = (Some(text.clone()), Some(ended(finish).to_owned()));
        record.input = self.input();
        (record.tokens, record.decode) = (tokens, Some(decode));
        recording.goes_on = goes_on.then_some(count);
        recording.check(&generator.checkpoint().model);
        let record = &mut recording.record;
        record.checks.splice(0..0, checks);
        record.timings = Timings { load_ms: milliseconds(about.load), run_ms, trace_ms: since(start) };
        Ok(recording)
    }

    /// What `encoder` makes of the text, as a recording.
    ///
    /// # Errors
    /// If the text is too long or cannot be read, or the model cannot run.
    pub fn record_read(
        &self,
        encoder: &TextEncoder,
        backend: &dyn Backend,
        (about, level): (&About, Level),
    ) -> Result<Recording, Error> {
        let start = Instant::now();
        let ReadText { encoding, sequence, ending } = self.reading(encoder)?;
        let run_ms = since(start);
        let start = Instant::now();
        let token = |id: u32| encoder.tokenizer().readable(id);
        let text = self.told_text();
        let tour = Tour { text: &text, sequence, ending, token: &token, detail: Detail::Summary };
        let telling = tour.run(&encoder.checkpoint().model, backend)?;
        let mut recording = telling.record(backend, (about, &encoder.checkpoint().kind), level)?;
        let all = tokens::read(encoder.tokenizer(), &encoding);
        let record = &mut recording.record;
        let shifted: Vec<_> =
            record.sequence.target.iter().map(|&id| tokens::bare(encoder.tokenizer(), id)).collect();
        record.input = self.input();
        // BART reads a text on both sides.
        record.tokens = if record.sequence.source.is_empty() {
            Tokens { source: Vec::new(), target: all }
        } else {
            Tokens { source: all, target: shifted }
        };
        recording.check(&encoder.checkpoint().model);
        recording.record.timings =
            Timings { load_ms: milliseconds(about.load), run_ms, trace_ms: since(start) };
        Ok(recording)
    }

    fn input(&self) -> Input {
        Input { text: self.text.to_owned(), second: self.second.map(str::to_owned) }
    }
}

impl Tour<'_> {
    /// The run as a recording: what ran is known by its ids alone, so its tokens have neither bytes nor places.
    ///
    /// # Errors
    /// If the model cannot run.
    pub fn record(
        &self,
        model: &Weights,
        backend: &dyn Backend,
        (about, level): (&About, Level),
    ) -> Result<Recording, Error> {
        let mut recording = self.run(model, backend)?.record(backend, (about, ""), level)?;
        recording.check(model);
        Ok(recording)
    }
}

impl Telling<'_> {
    /// All that every kind of text has.
    fn record(
        self,
        backend: &dyn Backend,
        (about, kind): (&About, &str),
        level: Level,
    ) -> Result<Recording, Error> {
        let summary = self.summary()?;
        let asked = match level {
            Level::Summary => Asked::default(),
            Level::Steps | Level::Full => asked(&self, backend)?,
        };
        let tour = self.tour();
        let (likely, answer) = (tour.ending.likely(), answer(&tour.ending, summary));
        let trace = self.trace;
        let given = trace.model().formula().clone();
        let Ran { source, target, types, global, .. } = trace.sequence().clone();
        let formula = formula::of(&given);
        let count = parameters(&given)?;
        let size = |shape: &[usize]| shape.iter().product::<usize>();
        let model = Model {
            name: about.name.clone(),
            kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
            family: formula::family(&given).to_owned(),
            parameters: count.iter().map(|parameter| size(&parameter.shape)).sum(),
            precision: about.precision.clone(),
            hash: about.hash.clone(),
            facts: formula::facts(&given),
        };
        let steps::Parts { steps, tensors, numbers } = steps::parts(trace, level, likely, &formula.mathml)?;
        let named = |ids: &[u32]| ids.iter().map(|&id| tokens::named(id, (tour.token)(id))).collect();
        let record = Record {
            schema: SCHEMA,
            engine: Engine { name: "glassformer".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
            level,
            model,
            formula,
            input: Input { text: tour.text.to_owned(), second: None },
            answer,
            tokens: Tokens { source: named(&tour.sequence.source), target: named(&tour.sequence.target) },
            sequence: Sequence { source, target, types, global },
            steps,
            tensors,
            decode: None,
            lens: asked.lens,
            attention: serde_json::json!({ "heads": asked.heads }),
            alignment: asked.alignment,
            timings: Timings::default(),
            checks: Vec::new(),
            edits: Vec::new(),
        };
        Ok(Recording { record, numbers, goes_on: None })
    }
}

/// Whether the scores that tokens were chosen from, one after the other with stored keys and values, are those of the whole run, bit for
/// bit.
fn cached(trace: &Trace, watched: &Watched<'_>, decode: &super::Decode) -> Check {
    let title = Text {
        en: "scores written token by token are those of the whole run, bit for bit".into(),
        zh: "逐词写出时的得分与整体运行的得分逐位相同".into(),
    };
    let mut check = Check { name: "cached".to_owned(), title, ok: true, worst: 0.0, bound: 0.0, at: None };
    let Some(logits) = trace.value("logits") else { return check };
    let width = logits.tensor.shape().last().copied().unwrap_or(0);
    for (written, hash) in decode.steps.iter().zip(watched.hashes()) {
        let row = logits.tensor.data().get(written.position * width..(written.position + 1) * width);
        if row.is_none_or(|row| fingerprint(row) != hash) && check.ok {
            (check.ok, check.worst, check.at) = (false, 1.0, Some(format!("token {}", written.t)));
        }
    }
    check
}

fn ended(finish: Finish) -> &'static str {
    match finish {
        Finish::Eos => "eos",
        Finish::Length => "length",
        Finish::Stop => "stop",
    }
}
