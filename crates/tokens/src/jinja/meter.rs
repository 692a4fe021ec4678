//! What a template may use: steps, memory and depth, all counted.

use std::cell::Cell;

/// Why rendering stopped.
#[derive(Debug)]
pub(super) enum Fault {
    /// The template does what cannot be done.
    Wrong(String),
    /// The template called `raise_exception`.
    Raised(String),
    /// A limit was reached.
    Exhausted(String),
}

pub(super) type Outcome<T> = Result<T, Fault>;

/// Shorthand: the template does what cannot be done.
pub(super) fn wrong<T>(message: impl Into<String>) -> Outcome<T> {
    Err(Fault::Wrong(message.into()))
}

/// How much a rendering may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Steps of evaluation; a long text counts for many.
    pub steps: u64,
    /// Bytes of all values ever made, the output included. More than is held at any time, and simple to count.
    pub bytes: u64,
    /// Calls and expressions within each other.
    pub depth: usize,
}

/// The counters of one rendering.
pub(super) struct Meter {
    limits: Limits,
    steps: Cell<u64>,
    bytes: Cell<u64>,
    depth: Cell<usize>,
    /// The line that is being evaluated.
    pub line: Cell<usize>,
}

impl Meter {
    pub fn new(limits: Limits) -> Self {
        Self { limits, steps: Cell::new(0), bytes: Cell::new(0), depth: Cell::new(0), line: Cell::new(1) }
    }

    /// Counts some steps.
    pub fn step(&self, count: usize) -> Outcome<()> {
        let steps = self.steps.get() + count as u64;
        self.steps.set(steps);
        if steps > self.limits.steps {
            return Err(Fault::Exhausted(format!("{} steps", self.limits.steps)));
        }
        Ok(())
    }

    /// Counts the steps that going through a text takes.
    pub fn read(&self, text: &str) -> Outcome<()> {
        self.step(text.len() / 32)
    }

    /// Counts bytes that are about to be allocated, and the steps that filling them takes.
    pub fn grow(&self, bytes: usize) -> Outcome<()> {
        let total = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(total);
        if total > self.limits.bytes {
            return Err(Fault::Exhausted(format!("{} bytes of memory", self.limits.bytes)));
        }
        self.step(1 + bytes / 64)
    }

    /// Goes one level deeper until the guard is dropped.
    pub fn deeper(&self) -> Outcome<Deeper<'_>> {
        let depth = self.depth.get() + 1;
        if depth > self.limits.depth {
            return Err(Fault::Exhausted(format!("{} levels of depth", self.limits.depth)));
        }
        self.depth.set(depth);
        Ok(Deeper(self))
    }
}

/// One level of depth.
pub(super) struct Deeper<'a>(&'a Meter);

impl Drop for Deeper<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}
