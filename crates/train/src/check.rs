//! How good a model is on data that it does not learn from: the mean loss, and how often it is right.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::{Backend, Batch, Builder, Capacity, Leaf, Runner, Side, State};
use glassformer_model::{Lowering, lower, parameters};
use glassformer_tensor::Tensor;

use crate::memory::{Memory, Texts};
use crate::outer::Loss;
use crate::trainer::last_side;
use crate::{Error, OuterLoss};

/// A forward pass with a loss, without anything left out and without smoothing.
pub struct Checker {
    runner: Box<dyn Runner>,
    state: State,
    /// The parameters, in the order of [`parameters`].
    names: Vec<String>,
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
        let side = last_side(formula);
        let loss = Loss { side, smoothing: 0.0, outer };
        let graph = loss.count(loss.append(lower(formula, Lowering::train(Leaf::Kept, 0.0))?)?)?;
        let memory = Memory::new(formula, &graph, texts);
        let outputs = graph.outputs().to_vec();
        let mut build = Builder::extend(graph);
        memory.append(&mut build)?;
        // Scores are counted where they are.
        build.forget_outputs();
        for (name, value) in outputs.iter().filter(|(name, _)| ["loss", "correct"].contains(&name.as_str())) {
            build.output(name, *value);
        }
        let none = BTreeMap::<String, Tensor>::new();
        let runner = backend.prepare(&Arc::new(build.finish()), &none, capacity)?;
        let names = parameters(formula)?.into_iter().map(|parameter| parameter.name).collect();
        Ok(Self { runner, state: State::default(), names, memory, side, outer })
    }

    /// Takes these weights, which are in the order of [`parameters`].
    ///
    /// # Errors
    /// If the backend cannot keep them.
    pub fn load(&mut self, weights: &[Cow<'_, [f32]>]) -> Result<(), Error> {
        for (name, weights) in self.names.iter().zip(weights) {
            self.runner.write(&mut self.state, name, weights)?;
        }
        Ok(())
    }

    /// Forgets what was remembered of earlier batches: a text begins anew.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// Adds what `batch` shows of the weights.
    ///
    /// # Errors
    /// If the batch does not fit.
    pub fn add(&mut self, batch: Batch<'_>, found: &mut Checked) -> Result<(), Error> {
        let mut batch = Batch { seed: 0, ..batch };
        let packed = batch.side_mut(self.side);
        found.count += match self.outer {
            None => packed.labels.len(),
            Some(outer) => {
                packed.weights = vec![1.0];
                outer.weigh(packed);
                outer.examples(packed)
            }
        };
        self.memory.announce(&mut batch.target, &*self.runner, &mut self.state)?;
        self.runner.run(&mut self.state, &batch)?;
        self.memory.remember(&batch.target);
        let one = |name: &str| -> Result<f32, Error> {
            let output = self.runner.graph().output(name).ok_or(Error::NoHead)?;
            Ok(self.runner.output(&self.state, output)?[0])
        };
        found.loss += f64::from(one("loss")?);
        found.right += one("correct")? as usize;
        Ok(())
    }
}
