//! A backend whose memory the host cannot see: what a device looks like from here.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use glassformer_graph::{
    Ask, Backend, Batch, Capacity, Constants, Dtype, Error, Graph, Leaders, Packed, PageLayout, Runner, Span,
    State,
};

/// Runs everything on another backend, and counts what crosses between the host and its memory.
///
/// Outputs are copied when they are read, never borrowed, so that whoever relies on seeing that memory is found out.
#[derive(Clone)]
pub struct Opaque {
    inner: Arc<dyn Backend>,
    counted: Arc<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    runs: AtomicU64,
    to: AtomicU64,
    inputs: AtomicU64,
    kept: AtomicU64,
    from: AtomicU64,
}

/// Bytes that crossed since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossed {
    /// How many runs there were.
    pub runs: u64,
    /// To the device: ids, spans, labels and what else a batch says of its rows.
    pub rows: u64,
    /// To the device: the numbers of inputs.
    pub inputs: u64,
    /// To the device: what is kept there from run to run.
    pub kept: u64,
    /// To the host: outputs, the largest of them, and what is kept.
    pub outputs: u64,
}

impl Opaque {
    /// Over `inner`.
    pub fn over(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counted: Arc::default() }
    }

    /// What crossed since this was last asked.
    pub fn take(&self) -> Crossed {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let Counted { runs, to, inputs, kept, from } = &*self.counted;
        let [runs, rows, inputs, kept, outputs] = [runs, to, inputs, kept, from].map(take);
        Crossed { runs, rows, inputs, kept, outputs }
    }
}

impl Backend for Opaque {
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        capacity: &Capacity,
    ) -> Result<Box<dyn Runner>, Error> {
        let inner = self.inner.prepare(graph, weights, capacity)?;
        Ok(Box::new(OpaqueRunner { inner, counted: self.counted.clone() }))
    }
}

struct OpaqueRunner {
    inner: Box<dyn Runner>,
    counted: Arc<Counted>,
}

/// The device's memory: a state of the other backend behind a lock, of which the host has only the books.
#[derive(Debug, Default)]
struct Device(Mutex<State>);

impl OpaqueRunner {
    fn count(&self, numbers: usize) {
        self.counted.from.fetch_add((numbers * size_of::<f32>()) as u64, Ordering::Relaxed);
    }
}

impl Runner for OpaqueRunner {
    fn graph(&self) -> &Arc<Graph> {
        self.inner.graph()
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        let sides = [&batch.source, &batch.target].map(bytes).iter().sum::<usize>();
        let inputs: usize = batch.inputs.iter().map(|input| size_of_val(*input)).sum();
        self.counted.runs.fetch_add(1, Ordering::Relaxed);
        self.counted.to.fetch_add(sides as u64, Ordering::Relaxed);
        self.counted.inputs.fetch_add(inputs as u64, Ordering::Relaxed);
        let parts = state.parts::<Device>();
        let mut device = parts.memory.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The books are the host's; a run takes them along and brings them back.
        std::mem::swap(parts.cache, &mut device.cache);
        std::mem::swap(parts.crossing, &mut device.crossing);
        let done = self.inner.run(&mut device, batch);
        std::mem::swap(parts.cache, &mut device.cache);
        std::mem::swap(parts.crossing, &mut device.crossing);
        parts.rows.clear();
        if done.is_ok() {
            parts.rows.extend((0..self.graph().outputs().len()).map(|output| device.rows(output)));
        }
        done
    }

    fn read<'s>(&self, state: &'s State, output: usize, rows: Range<usize>) -> Result<Cow<'s, [f32]>, Error> {
        let device = state.memory::<Device>().ok_or(Error::NoRun)?;
        let device = device.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = self.inner.read(&device, output, rows)?.into_owned();
        self.count(numbers.len());
        Ok(Cow::Owned(numbers))
    }

    fn write(&self, state: &mut State, name: &str, numbers: &[f32]) -> Result<(), Error> {
        self.counted.kept.fetch_add(size_of_val(numbers) as u64, Ordering::Relaxed);
        let device = &mut state.parts::<Device>().memory.0;
        self.inner.write(device.get_mut().unwrap_or_else(PoisonError::into_inner), name, numbers)
    }

    fn kept<'s>(&self, state: &'s State, name: &str) -> Result<Cow<'s, [f32]>, Error> {
        let device = state.memory::<Device>().ok_or(Error::NoRun)?;
        let device = device.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = self.inner.kept(&device, name)?.into_owned();
        self.count(numbers.len());
        Ok(Cow::Owned(numbers))
    }

    fn leaders(&self, state: &State, output: usize, ask: Ask, into: &mut Leaders) -> Result<(), Error> {
        let device = state.memory::<Device>().ok_or(Error::NoRun)?;
        let device = device.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.leaders(&device, output, ask, into)?;
        // A score and its place for each, and a sum of eight bytes for each row.
        self.count(2 * into.found.len() + 2 * into.sums.len());
        Ok(())
    }

    fn keeps(&self) -> Dtype {
        self.inner.keeps()
    }

    fn page_bytes(&self, layout: &PageLayout) -> usize {
        self.inner.page_bytes(layout)
    }
}

/// What a batch says of the rows of a side.
fn bytes(packed: &Packed) -> usize {
    let Packed { spans, tokens, types, global, picked, labels, weights } = packed;
    let words = tokens.len() + types.len() + picked.len() + labels.len() + weights.len();
    spans.len() * size_of::<Span>() + words * 4 + global.len()
}
