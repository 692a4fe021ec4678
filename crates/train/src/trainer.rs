//! The training step: forward, loss, gradients and update.

use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::ops::{CrossEntropy, SumRows};
use glassformer_graph::{Backend, Batch, Builder, Capacity, Graph, Leaf, Runner, Side, State, grad};
use glassformer_model::{Lowering, Model, Parameter, lower, parameters};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;

use crate::{AdamW, Error, Rates};

/// How a formula is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much is left out after each branch and after the input.
    pub dropout: f32,
    /// What the right label gives up to all.
    pub smoothing: f32,
    /// The optimiser's rates.
    pub rates: Rates,
    /// Gradients are scaled down to this length if they are longer.
    pub clip: Option<f32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { dropout: 0.1, smoothing: 0.1, rates: Rates::default(), clip: Some(1.0) }
    }
}

/// The graph that trains `formula`: its whole forward pass with parameters as inputs, the output `loss`, and `grad.X` for each
/// parameter X. The loss is the sum over the labelled rows, each times its weight in the batch.
///
/// # Errors
/// If the formula cannot work or has no head.
pub fn training_graph(formula: &Formula, settings: &Settings) -> Result<Graph, Error> {
    let forward = lower(formula, Lowering::train(settings.dropout))?;
    let logits = forward.output("logits").ok_or(Error::NoHead)?;
    let logits = forward.outputs()[logits].1;
    let side = if formula.target.is_some() { Side::Target } else { Side::Source };
    let mut build = Builder::extend(forward);
    let losses = build.add("losses", CrossEntropy { side, smoothing: settings.smoothing }, &[logits])?;
    let loss = build.add("loss", SumRows, &[losses])?;
    build.output("loss", loss);
    let names: Vec<String> = parameters(formula)?.into_iter().map(|parameter| parameter.name).collect();
    let of: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(grad::grad(&build.finish(), "loss", &of)?)
}

/// A model being trained. Its parameters change, so they belong to it; the graph and the plan do not.
pub struct Trainer {
    formula: Formula,
    runner: Box<dyn Runner>,
    state: State,
    parameters: Vec<(Parameter, Tensor)>,
    /// For each input of the graph, in its order: which parameter it is, or its name.
    bindings: Vec<Result<usize, String>>,
    gradients: Vec<usize>,
    loss: usize,
    optimiser: AdamW,
    clip: Option<f32>,
    steps: usize,
}

impl Trainer {
    /// Prepares `model` for training on batches within `capacity`.
    ///
    /// # Errors
    /// If the formula has no head.
    pub fn new(
        model: &Model,
        backend: &dyn Backend,
        capacity: &Capacity,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let formula = model.formula().clone();
        let graph = Arc::new(training_graph(&formula, settings)?);
        let read = |parameter: Parameter| {
            let tensor =
                model.tensor(&parameter.name).ok_or_else(|| Error::MissingInput(parameter.name.clone()))?;
            Ok::<_, Error>((parameter, tensor))
        };
        let parameters = parameters(&formula)?.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let find = |name: &str| parameters.iter().position(|(parameter, _)| parameter.name == name);
        let bindings =
            graph.leaves(Leaf::Input).map(|(_, info)| find(&info.name).ok_or(info.name.clone())).collect();
        let missing = |name: &str| Error::MissingInput(name.to_owned());
        let output = |name: &str| graph.output(name).ok_or_else(|| missing(name));
        let gradients = parameters
            .iter()
            .map(|(parameter, _)| output(&grad::name(&parameter.name)))
            .collect::<Result<Vec<_>, _>>()?;
        let loss = output("loss")?;
        let sizes = parameters.iter().map(|(_, tensor)| tensor.data().len());
        let optimiser = AdamW::new(settings.rates, sizes);
        let runner = backend.prepare(&graph, &BTreeMap::new(), capacity)?;
        let (state, clip) = (State::default(), settings.clip);
        Ok(Self { formula, runner, state, parameters, bindings, gradients, loss, optimiser, clip, steps: 0 })
    }

    /// Runs `batch` and leaves the gradients in place; gives the loss. `inputs` are those of the graph that are not
    /// parameters (patches, remembered rows), by name.
    ///
    /// # Errors
    /// If the batch does not fit, or the loss is not finite.
    pub fn backward(&mut self, batch: Batch<'_>, inputs: &BTreeMap<String, Vec<f32>>) -> Result<f32, Error> {
        let mut bound = Batch { inputs: Vec::with_capacity(self.bindings.len()), ..batch };
        for binding in &self.bindings {
            bound.inputs.push(match binding {
                Ok(parameter) => self.parameters[*parameter].1.data(),
                Err(name) => inputs.get(name).ok_or_else(|| Error::MissingInput(name.clone()))?,
            });
        }
        self.runner.run(&mut self.state, &bound)?;
        let loss = self.state.output(self.loss)[0];
        if loss.is_finite() { Ok(loss) } else { Err(Error::NotFinite { step: self.steps + 1, loss }) }
    }

    /// One step: [`Trainer::backward`], then the optimiser moves every parameter. Gives the loss before it.
    ///
    /// # Errors
    /// As [`Trainer::backward`]; the parameters stay as they were then.
    pub fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Error> {
        let loss = self.backward(batch, &BTreeMap::new())?;
        let clip = self.clip_factor();
        self.steps += 1;
        self.optimiser.begin();
        for (index, (_, tensor)) in self.parameters.iter_mut().enumerate() {
            let gradient = self.state.output(self.gradients[index]);
            self.optimiser.update(index, tensor.data_mut(), gradient, (rate, clip));
        }
        Ok(loss)
    }

    fn clip_factor(&self) -> f32 {
        let Some(most) = self.clip else { return 1.0 };
        let squares =
            |&index: &usize| self.state.output(index).iter().map(|&g| f64::from(g).powi(2)).sum::<f64>();
        let length = self.gradients.iter().map(squares).sum::<f64>().sqrt() as f32;
        if length > most { most / length } else { 1.0 }
    }

    /// The gradient of parameter `name` from the last run.
    pub fn gradient(&self, name: &str) -> Option<&[f32]> {
        let index = self.parameters.iter().position(|(parameter, _)| parameter.name == name)?;
        Some(self.state.output(self.gradients[index]))
    }

    /// The output `name` of the last run.
    pub fn output(&self, name: &str) -> Option<&[f32]> {
        Some(self.state.output(self.runner.graph().output(name)?))
    }

    /// The model as it is now.
    ///
    /// # Errors
    /// If its parameters do not fit the formula, which cannot be.
    pub fn model(&self) -> Result<Model, Error> {
        let tensors = self.parameters.iter().map(|(p, tensor)| (p.name.clone(), tensor.clone()));
        Ok(Model::new(self.formula.clone(), Weights::from_tensors(tensors))?)
    }
}
