//! How good a model is on data that it does not learn from: the mean loss, and how often it is right.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::{Backend, Batch, Capacity, Leaf, Runner, Side, State};
use glassformer_model::{Lowering, Parameter, lower, parameters};

use crate::memory::{Memory, Texts};
use crate::trainer::loss_graph;
use crate::{Error, OuterLoss};

/// A forward pass with a loss, without anything left out and without smoothing.
pub struct Checker {
    runner: Box<dyn Runner>,
    state: State,
    /// For each input of the graph: which parameter it is, or its name among what is remembered.
    bindings: Vec<Result<usize, String>>,
    memory: Memory,
    side: Side,
    outer: Option<OuterLoss>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checked {
    /// The sum of all losses.
    pub loss: f64,
    /// How many there were: rows, or examples where a loss is about several rows.
    pub count: usize,
    /// How many of them had the highest score for what is right.
    pub right: usize,
}

impl Checked {
    /// The mean loss. Its exponential is the perplexity.
    pub fn mean(&self) -> f64 {
        self.loss / self.count.max(1) as f64
    }

    /// The share that was right.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.count.max(1) as f64
    }
}

impl Checker {
    /// For models of `formula`.
    ///
    /// # Errors
    /// If the formula has no head.
    pub fn new(
        formula: &Formula,
        backend: &dyn Backend,
        capacity: &Capacity,
        outer: Option<OuterLoss>,
        texts: Texts,
    ) -> Result<Self, Error> {
        let graph = match outer {
            None => loss_graph(formula, 0.0, 0.0)?,
            Some(_) => lower(formula, Lowering::train(0.0))?,
        };
        let names = parameters(formula)?;
        let find = |name: &str| names.iter().position(|Parameter { name: known, .. }| known == name);
        let memory = Memory::new(formula, &graph, texts);
        let bind = |name: &str| match find(name) {
            Some(at) => Ok(Ok(at)),
            None if memory.input(name).is_some() => Ok(Err(name.to_owned())),
            None => Err(Error::MissingInput(name.to_owned())),
        };
        let bindings =
            graph.leaves(Leaf::Input).map(|(_, info)| bind(&info.name)).collect::<Result<_, _>>()?;
        let runner = backend.prepare(&Arc::new(graph), &BTreeMap::new(), capacity)?;
        let side = if formula.target.is_some() { Side::Target } else { Side::Source };
        Ok(Self { runner, state: State::default(), bindings, memory, side, outer })
    }

    /// Forgets what was remembered of earlier batches: a text begins anew.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// Adds what `batch` shows of these weights, which are in the order of [`parameters`].
    ///
    /// # Errors
    /// If the batch does not fit.
    pub fn add(
        &mut self,
        weights: &[Cow<'_, [f32]>],
        batch: Batch<'_>,
        found: &mut Checked,
    ) -> Result<(), Error> {
        let mut batch = batch;
        self.memory.announce(&mut batch.target);
        let input = |binding: &Result<usize, String>| match binding {
            Ok(at) => Ok(&*weights[*at]),
            Err(name) => self.memory.input(name).ok_or_else(|| Error::MissingInput(name.clone())),
        };
        let inputs = self.bindings.iter().map(input).collect::<Result<_, _>>()?;
        let bound = Batch { source: batch.source, target: batch.target, inputs, seed: 0 };
        self.runner.run(&mut self.state, &bound)?;
        let bound = Batch { inputs: Vec::new(), ..bound };
        self.memory.remember(&bound.target, &*self.runner, &self.state)?;
        let packed = bound.side(self.side);
        let graph = self.runner.graph();
        let output = |name: &str| graph.output(name).ok_or(Error::NoHead);
        match self.outer {
            None => {
                let logits = output("logits")?;
                let width = graph.shape(graph.outputs()[logits].1).width;
                let scores = self.runner.output(&self.state, logits)?;
                let rows = scores.chunks_exact(width).zip(&packed.labels);
                found.loss += f64::from(self.runner.output(&self.state, output("loss")?)?[0]);
                found.count += packed.labels.len();
                found.right += rows.filter(|(row, label)| is_highest(row, **label as usize)).count();
            }
            Some(outer) => {
                let name = if outer == OuterLoss::Spans { "logits" } else { "pooled" };
                let at = output(name)?;
                let width = graph.shape(graph.outputs()[at].1).width;
                let scores = self.runner.output(&self.state, at)?;
                found.loss += outer.of(&scores, width, packed, 1.0).0;
                found.count += outer.examples(packed);
                found.right += outer.right(&scores, width, packed);
            }
        }
        Ok(())
    }
}

/// Whether no number of the row is higher than that at `label`.
fn is_highest(row: &[f32], label: usize) -> bool {
    let score = row[label];
    row.iter().all(|&other| other <= score)
}
