//! The reference backend: every operation as its equation reads, in `f64`. Slow, obvious, and right.

use std::sync::Arc;

use crate::{Backend, Batch, Capacity, Constants, Error, Graph, Leaf, Limits, Runner, State, View};

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
    /// The stored keys and values.
    pub state: &'a mut State,
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
        let mut world = World { batch, state };
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
        let outputs: Vec<_> =
            self.graph.outputs().iter().filter_map(|(_, v)| Some((*v, values[v.0].as_ref()?))).collect();
        let mut offset = 0;
        let total = outputs.iter().map(|(_, array)| array.data.len()).sum();
        let arena = state.arena(total);
        let mut views = Vec::new();
        for (value, array) in outputs {
            for (place, &x) in arena[offset..].iter_mut().zip(&array.data) {
                *place = x as f32;
            }
            views.push(View { offset, rows: array.rows, shape: self.graph.shape(value) });
            offset += array.data.len();
        }
        *state.views_mut() = views;
        Ok(())
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
