//! The reference backend: every operation as its equation reads, in `f64`. Slow, obvious, and right.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::ops::Which;
use crate::{
    Backend, Batch, Capacity, Constants, Error, Graph, Leaf, Limits, PAGE, PageLayout, Pages, Parts, Runner,
    State, ValueInfo,
};

/// Rows of `f64`: what a value is while the reference runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array {
    /// How many rows.
    pub rows: usize,
    /// Numbers per row.
    pub width: usize,
    /// The numbers, row-major.
    pub data: Vec<f64>,
}

impl Array {
    /// Zeros.
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self { rows, width, data: vec![0.0; rows * width] }
    }

    /// Widened from `f32`.
    pub fn widen(rows: usize, width: usize, data: &[f32]) -> Self {
        Self { rows, width, data: data.iter().map(|&x| f64::from(x)).collect() }
    }

    /// `f` of each row and column.
    pub fn tabulate(rows: usize, width: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let f = &f;
        Self { rows, width, data: (0..rows).flat_map(|i| (0..width).map(move |j| f(i, j))).collect() }
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.width..(i + 1) * self.width]
    }

    /// Row `i`, to change.
    pub fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.width..(i + 1) * self.width]
    }

    /// The number at row `i`, column `j`.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.width + j]
    }

    /// `f` of each number.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { rows: self.rows, width: self.width, data: self.data.iter().map(|&x| f(x)).collect() }
    }

    /// `f` of each number and its counterpart in `other`.
    #[must_use]
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let data = self.data.iter().zip(&other.data).map(|(&a, &b)| f(a, b)).collect();
        Self { rows: self.rows, width: self.width, data }
    }
}

/// What an operation can see of a run besides its inputs.
#[derive(Debug)]
pub struct World<'a> {
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// The target's stored keys and values.
    pub cache: Stored<'a>,
    /// The source's.
    pub crossing: Stored<'a>,
}

impl<'a> World<'a> {
    /// A run of `batch` with what the reference has stored in `state`.
    pub fn of(batch: &'a Batch<'a>, state: &'a mut State) -> Self {
        let Parts { cache, crossing, memory, .. } = state.parts::<Memory>();
        Self {
            batch,
            cache: prepare(cache, &mut memory.cache),
            crossing: prepare(crossing, &mut memory.crossing),
        }
    }

    /// The stored keys and values of that kind.
    pub fn stored(&self, which: Which) -> &Stored<'_> {
        match which {
            Which::Cache => &self.cache,
            Which::Crossing => &self.crossing,
        }
    }
}

/// Stored keys and values: the book of pages, and what is in them.
#[derive(Debug)]
pub struct Stored<'a> {
    /// Which pages are whose.
    pub pages: &'a Pages,
    rows: &'a mut Vec<f32>,
}

/// Whether a key or a value is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A key.
    Key,
    /// A value.
    Value,
}

/// Which key or value of a page is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The page.
    pub page: usize,
    /// The row within it.
    pub row: usize,
    /// The slot.
    pub slot: usize,
    /// The head.
    pub head: usize,
    /// Key or value.
    pub part: Part,
}

impl Stored<'_> {
    /// The numbers of a key or a value.
    pub fn at(&self, place: Place) -> &[f32] {
        &self.rows[range(self.pages.layout(), place)]
    }

    /// The same, to be written.
    pub fn at_mut(&mut self, place: Place) -> &mut [f32] {
        &mut self.rows[range(self.pages.layout(), place)]
    }
}

/// Where the numbers of a key or a value lie: page by page, slot by slot, row by row, keys before values.
fn range(layout: &PageLayout, place: Place) -> Range<usize> {
    let before: usize = layout.slots()[..place.slot].iter().map(|slot| slot.heads * slot.size).sum();
    let slot = layout.slots()[place.slot];
    let row = 2 * (PAGE * before + place.row * slot.heads * slot.size);
    let part = match place.part {
        Part::Key => 0,
        Part::Value => slot.heads * slot.size,
    };
    let start = place.page * page_size(layout) + row + part + place.head * slot.size;
    start..start + slot.size
}

/// A kept leaf that nobody has written.
fn missing(info: &ValueInfo) -> Error {
    Error::MissingWeight { name: info.name.clone(), shape: info.shape.to_string() }
}

/// Numbers in a page.
fn page_size(layout: &PageLayout) -> usize {
    2 * PAGE * layout.slots().iter().map(|slot| slot.heads * slot.size).sum::<usize>()
}

/// The memory of a state: stored keys and values, and the outputs of the last run.
#[derive(Debug, Default)]
struct Memory {
    cache: Vec<f32>,
    crossing: Vec<f32>,
    outputs: Vec<Vec<f32>>,
    kept: HashMap<String, Vec<f32>>,
}

/// Makes room for the pages of `book`, and clears those that must hold zeros.
fn prepare<'a>(book: &'a mut Pages, rows: &'a mut Vec<f32>) -> Stored<'a> {
    let size = page_size(book.layout());
    rows.resize(book.count() * size, 0.0);
    for page in book.take_blank() {
        rows[page * size..(page + 1) * size].fill(0.0);
    }
    Stored { pages: book, rows }
}

/// The reference backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

struct ReferenceRunner {
    graph: Arc<Graph>,
    limits: Limits,
    weights: Vec<Option<Array>>,
}

impl Backend for Reference {
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        _: &Capacity,
    ) -> Result<Box<dyn Runner>, Error> {
        let mut held = vec![None; graph.values().len()];
        graph.read_weights(weights, |value, data| {
            let width = graph.shape(value).width;
            held[value.0] = Some(Array::widen(data.len() / width.max(1), width, &data));
        })?;
        Ok(Box::new(ReferenceRunner { graph: graph.clone(), limits: Limits::of(graph), weights: held }))
    }
}

impl ReferenceRunner {
    fn values(&self, state: &mut State, batch: &Batch<'_>) -> Result<Vec<Option<Array>>, Error> {
        self.limits.admit(batch, state)?;
        let mut values = self.weights.clone();
        for ((value, info), given) in self.graph.leaves(Leaf::Input).zip(&batch.inputs) {
            values[value.0] = Some(Array::widen(batch.count(info.shape.rows), info.shape.width, given));
        }
        let kept = &state.parts::<Memory>().memory.kept;
        for (value, info) in self.graph.leaves(Leaf::Kept) {
            let numbers = kept.get(&info.name).ok_or_else(|| missing(info))?;
            let width = info.shape.width;
            values[value.0] = Some(Array::widen(numbers.len() / width.max(1), width, numbers));
        }
        let mut world = World::of(batch, state);
        for node in self.graph.nodes() {
            let inputs: Vec<&Array> = node.inputs.iter().filter_map(|v| values[v.0].as_ref()).collect();
            let made = node.op.reference(&inputs, &mut world);
            for (&value, array) in node.outputs.iter().zip(made) {
                values[value.0] = Some(array);
            }
        }
        Ok(values)
    }
}

impl Runner for ReferenceRunner {
    fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error> {
        let values = self.values(state, batch)?;
        let outputs: Vec<&Array> =
            self.graph.outputs().iter().filter_map(|(_, v)| values[v.0].as_ref()).collect();
        let Parts { rows, memory, .. } = state.parts::<Memory>();
        *rows = outputs.iter().map(|array| array.rows).collect();
        memory.outputs = outputs.iter().map(|array| array.data.iter().map(|&x| x as f32).collect()).collect();
        for update in self.graph.updates() {
            let Some(new) = &values[update.new.0] else { continue };
            let numbers = new.data.iter().map(|&x| x as f32).collect();
            memory.kept.insert(self.graph.info(update.kept).name.clone(), numbers);
        }
        Ok(())
    }

    fn write(&self, state: &mut State, name: &str, numbers: &[f32]) -> Result<(), Error> {
        state.parts::<Memory>().memory.kept.insert(name.to_owned(), numbers.to_vec());
        Ok(())
    }

    fn kept<'s>(&self, state: &'s State, name: &str) -> Result<Cow<'s, [f32]>, Error> {
        let kept = state.memory::<Memory>().and_then(|memory| memory.kept.get(name));
        kept.map(|numbers| Cow::Borrowed(&numbers[..])).ok_or(Error::NoRun)
    }

    fn read<'s>(&self, state: &'s State, output: usize, rows: Range<usize>) -> Result<Cow<'s, [f32]>, Error> {
        let width = self.graph.shape(self.graph.outputs()[output].1).width;
        let numbers =
            state.memory::<Memory>().and_then(|memory| memory.outputs.get(output)).ok_or(Error::NoRun)?;
        Ok(Cow::Borrowed(&numbers[rows.start * width..rows.end * width]))
    }

    fn page_bytes(&self, layout: &PageLayout) -> usize {
        page_size(layout) * size_of::<f32>()
    }
}

impl Reference {
    /// The outputs of one run in full precision, for finite differences.
    ///
    /// # Errors
    /// As [`Backend::prepare`] and [`Runner::run`].
    pub fn evaluate(
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        batch: &Batch<'_>,
    ) -> Result<Vec<Array>, Error> {
        let mut held = vec![None; graph.values().len()];
        graph.read_weights(weights, |value, data| {
            let width = graph.shape(value).width;
            held[value.0] = Some(Array::widen(data.len() / width.max(1), width, &data));
        })?;
        let runner = ReferenceRunner { graph: graph.clone(), limits: Limits::of(graph), weights: held };
        let values = runner.values(&mut State::default(), batch)?;
        Ok(graph.outputs().iter().map(|(_, v)| values[v.0].clone().unwrap_or_default()).collect())
    }
}
