//! Progress of whatever takes longer than half a second, on a terminal.

use std::borrow::Cow;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use glassformer::Model;
use glassformer::graph::Constants;
use glassformer::model::Source;
use glassformer::tensor::{Coded, CodedRow, Coding, Halves, Integers};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done within this time needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often a bar turns.
const TICK: Duration = Duration::from_millis(100);

/// Bytes of weights that a bar is told of at once. Rows are read one by one, and to tell of each took a fourteenth of the time from a start
/// to the first token.
const PORTION: u64 = 4 << 20;

/// A bar that appears when it is worth it.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// A bar over bytes.
    pub fn bytes(total: u64, what: &str) -> Self {
        Self::new(Some(total), &format!("{what} {{bar:30}} {{bytes}} of {{total_bytes}}, {{eta}} left"))
    }

    /// A bar over things that are counted.
    pub fn items(total: u64, what: &str) -> Self {
        Self::new(Some(total), &format!("{what} {{bar:30}} {{pos}} of {{len}}, {{eta}} left"))
    }

    /// A count without an end.
    pub fn count(what: &str) -> Self {
        Self::new(None, &format!("{{spinner}} {{pos}} {what}, {{elapsed}}"))
    }

    /// Turns while `work` takes long: a single text may take minutes.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, under_way) = mpsc::channel::<()>();
        let bar = self.bar.clone();
        let turn = move || {
            let mut patience = PATIENCE;
            while under_way.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr()); // draws on a terminal alone
                }
                bar.tick();
                patience = TICK;
            }
        };
        let turning = thread::spawn(turn);
        let found = work();
        drop(done);
        let _ = turning.join(); // it cannot fail in a way that matters to the work
        found
    }

    /// Does what prints while the bar is away.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    fn new(total: Option<u64>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { bar, start: Instant::now() }
    }

    /// So much more is done.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
        if self.bar.is_hidden() && self.start.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr()); // draws on a terminal alone
        }
    }

    /// So much more is to be done.
    pub fn expect(&self, more: u64) {
        self.bar.inc_length(more);
    }

    /// So much that was done counts no more.
    pub fn retreat(&self, by: u64) {
        self.bar.dec(by);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A model whose weights show how far they have been read: preparing a model reads each of them once.
pub fn watched(model: &Model) -> Model {
    let source = model.source().clone();
    let size = |name: &String| source.shape(name).map_or(0, |shape| shape.iter().product::<usize>());
    let total = 4 * source.names().iter().map(size).sum::<usize>() as u64;
    let bar = Progress::bytes(total, "preparing");
    let watched = Watched { source, bar, left: Mutex::new(Left { bytes: total, untold: 0 }) };
    Model::with(model.formula().clone(), Arc::new(watched)).unwrap_or_else(|_| model.clone())
}

struct Watched {
    source: Arc<dyn Source>,
    bar: Progress,
    left: Mutex<Left>,
}

/// What is to be read yet, and what was read and the bar does not know of.
struct Left {
    bytes: u64,
    untold: u64,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Watched {
    /// So many numbers of weights were read.
    fn read(&self, numbers: usize) {
        let bytes = 4 * numbers as u64;
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.bytes == 0 {
            return;
        }
        left.bytes = left.bytes.saturating_sub(bytes);
        left.untold += bytes;
        if left.untold >= PORTION || left.bytes == 0 {
            self.bar.advance(std::mem::take(&mut left.untold));
        }
        if left.bytes == 0 {
            self.bar.finish();
        }
    }
}

impl Constants for Watched {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        let values = self.source.get(name)?;
        self.read(values.len());
        Some(values)
    }

    fn halves(&self, name: &str) -> Option<Halves<'_>> {
        let halves = self.source.halves(name)?;
        self.read(halves.count());
        Some(halves)
    }

    fn coded(&self, name: &str) -> Option<Box<dyn Coded + '_>> {
        Some(Box::new(Rows { watched: self, coded: self.source.coded(name)? }))
    }
}

/// Rows in few bits, each of which is progress.
struct Rows<'a> {
    watched: &'a Watched,
    coded: Box<dyn Coded + 'a>,
}

impl Coded for Rows<'_> {
    fn coding(&self) -> Coding {
        self.coded.coding()
    }

    fn row(&self, row: usize, into: &mut CodedRow) {
        self.coded.row(row, into);
        self.watched.read(into.codes.len());
    }

    fn integers(&self) -> Option<Integers<'_>> {
        let integers = self.coded.integers()?;
        self.watched.read(integers.bytes.len());
        Some(integers)
    }
}

impl Source for Watched {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.source.shape(name)
    }

    fn names(&self) -> Vec<String> {
        self.source.names()
    }
}

/// The bar of a training: how far, the loss, how fast, how long still.
pub struct Training {
    bar: ProgressBar,
    /// The loss and the tokens or texts a second, averaged over the last steps.
    shown: Option<(f64, f64)>,
    /// What is learned from: tokens, or texts.
    unit: &'static str,
}

impl Training {
    /// A bar at `made` of `all` steps, which learn from so many of a `unit`.
    pub fn new(made: usize, all: usize, unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(all as u64), ProgressDrawTarget::stderr());
        let template = "step {pos} of {len} {bar:24} {msg}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_position(made as u64);
        bar.reset_eta();
        Self { bar, shown: None, unit }
    }

    /// A step was made.
    pub fn step(&mut self, step: usize, loss: f32, speed: f64) {
        let mix = |old: f64, new: f64| 0.95 * old + 0.05 * new;
        let (loss, speed) = match self.shown {
            Some((old, was)) => (mix(old, f64::from(loss)), mix(was, speed)),
            None => (f64::from(loss), speed),
        };
        self.shown = Some((loss, speed));
        self.bar.set_message(format!("loss {loss:.3}, {speed:.0} {}/s", self.unit));
        self.bar.set_position(step as u64);
    }

    /// Does what prints a line while the bar is away.
    pub fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
