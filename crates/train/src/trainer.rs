//! The training step: forward, loss, gradients and update.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::ops::{CrossEntropy, SumRows};
use glassformer_graph::{Backend, Batch, Builder, Capacity, Graph, Leaf, Runner, Side, State, grad};
use glassformer_model::{Lowering, Model, Parameter, lower, parameters};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;

use crate::adamw::{Move, Own};
use crate::lora::LowRank;
use crate::memory::{Memory, Texts};
use crate::outer::{Outer, OuterLoss};
use crate::passes::adapt::{Adapter, adapt};
use crate::passes::recompute::recompute;
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

/// What a training may ask for besides [`Settings`].
#[derive(Clone, Debug, Default)]
pub struct More {
    /// A rate and a decay for each parameter, in the order of [`parameters`]; all alike where it is empty. What has a rate of 0
    /// gets no gradient.
    pub own: Vec<Own>,
    /// How much of the average of weights is kept at each step, where one is wanted.
    pub average: Option<f32>,
    /// A loss that looks at several rows at once, where cross entropy row by row is not what is wanted.
    pub outer: Option<OuterLoss>,
    /// Narrow matrices that learn in place of all that there is.
    pub lora: Option<LowRank>,
    /// What becomes of the numbers inside layers.
    pub inside: Inside,
    /// Whether what one batch leaves is remembered at the next, where the formula remembers.
    pub texts: Texts,
}

/// What becomes of the numbers inside layers between the way forward and the way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inside {
    /// They are kept.
    #[default]
    Kept,
    /// They are computed again, layer by layer: less memory, more work, the same bits.
    Recomputed,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The loss before it.
    pub loss: f32,
    /// The length of the gradient before it was clipped.
    pub length: f32,
    /// Whether anything moved: a loss or a gradient that is not finite moves nothing.
    pub moved: bool,
}

/// The graph that trains `formula`: its whole forward pass with parameters as inputs, the output `loss`, and `grad.X` for each
/// parameter X. The loss is the sum over the labelled rows, each times its weight in the batch.
///
/// # Errors
/// If the formula cannot work or has no head.
pub fn training_graph(formula: &Formula, settings: &Settings) -> Result<Graph, Error> {
    let names: Vec<String> = parameters(formula)?.into_iter().map(|parameter| parameter.name).collect();
    let of: Vec<&str> = names.iter().map(String::as_str).collect();
    let graph = loss_graph(formula, settings.dropout, settings.smoothing)?;
    Ok(grad::grad(&graph, "loss", &of)?)
}

/// The forward pass of `formula` with parameters as inputs and the output `loss`.
pub(crate) fn loss_graph(formula: &Formula, dropout: f32, smoothing: f32) -> Result<Graph, Error> {
    let forward = lower(formula, Lowering::train(dropout))?;
    let logits = forward.output("logits").ok_or(Error::NoHead)?;
    let logits = forward.outputs()[logits].1;
    let side = if formula.target.is_some() { Side::Target } else { Side::Source };
    let mut build = Builder::extend(forward);
    let losses = build.add("losses", CrossEntropy { side, smoothing }, &[logits])?;
    let loss = build.add("loss", SumRows, &[losses])?;
    build.output("loss", loss);
    Ok(build.finish())
}

/// A model being trained. Its parameters change, so they belong to it; the graph and the plan do not.
pub struct Trainer {
    formula: Formula,
    runner: Box<dyn Runner>,
    state: State,
    parameters: Vec<(Parameter, Tensor)>,
    /// For each input of the graph, in its order: which parameter it is, or its name.
    bindings: Vec<Result<usize, String>>,
    /// The output that is each parameter's gradient; nothing for those that stay as they are.
    gradients: Vec<Option<usize>>,
    loss: usize,
    optimiser: AdamW,
    clip: Option<f32>,
    steps: usize,
    outer: Option<Outer>,
    /// Sums of gradients, where a step has several batches.
    sums: Vec<Vec<f32>>,
    lora: Option<(LowRank, Vec<Adapter>)>,
    memory: Memory,
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
        Self::with(model, backend, capacity, settings, &More::default())
    }

    /// Prepares `model` for training with more wishes.
    ///
    /// # Errors
    /// If the formula has no head.
    pub fn with(
        model: &Model,
        backend: &dyn Backend,
        capacity: &Capacity,
        settings: &Settings,
        more: &More,
    ) -> Result<Self, Error> {
        let formula = model.formula().clone();
        let mut parameters = read(model)?;
        let (mut outer, mut forward) = match more.outer {
            None => (None, loss_graph(&formula, settings.dropout, settings.smoothing)?),
            Some(loss) => {
                let (outer, graph) = Outer::new(loss, &formula, settings.dropout)?;
                (Some(outer), graph)
            }
        };
        let mut own = if more.own.is_empty() {
            vec![Own { rate: 1.0, decay: settings.rates.decay }; parameters.len()]
        } else {
            more.own.clone()
        };
        let mut lora = None;
        if let Some(low) = &more.lora {
            let change = |graph: &Graph| adapt(graph, |name| low.wants(name), low.rank, low.factor);
            let (adapted, adapters) = change(&forward)?;
            if adapters.is_empty() {
                let names = parameters.iter().filter(|(_, tensor)| tensor.shape().len() == 2);
                let names: Vec<&str> = names.map(|(parameter, _)| parameter.name.as_str()).take(6).collect();
                return Err(Error::config(
                    format!("model.lora.names has no part of a weight's name: {}", low.names.join(", ")),
                    format!("some weights are {}", names.join(", ")),
                ));
            }
            forward = adapted;
            if let Some(outer) = &mut outer {
                outer.change(|graph| Ok(change(graph)?.0))?;
            }
            low.fits(&adapters)?;
            // What has no adapter stays as it is; what is new to the model learns.
            for ((parameter, _), own) in parameters.iter().zip(&mut own) {
                own.rate = if low.whole.contains(&parameter.name) { own.rate } else { 0.0 };
            }
            parameters.extend(low.begin(&adapters));
            own.resize(parameters.len(), Own { rate: 1.0, decay: 0.0 });
            lora = Some((low.clone(), adapters));
        }
        let learns = parameters.iter().zip(&own).filter(|(_, own)| own.rate > 0.0);
        let of: Vec<&str> = learns.map(|((parameter, _), _)| parameter.name.as_str()).collect();
        let graph = grad::grad(&forward, "loss", &of)?;
        let graph = Arc::new(match more.inside {
            Inside::Kept => graph,
            Inside::Recomputed => recompute(&graph)?,
        });
        let find = |name: &str| parameters.iter().position(|(parameter, _)| parameter.name == name);
        let bindings =
            graph.leaves(Leaf::Input).map(|(_, info)| find(&info.name).ok_or(info.name.clone())).collect();
        let gradients =
            parameters.iter().map(|(parameter, _)| graph.output(&grad::name(&parameter.name))).collect();
        let loss = graph.output("loss").ok_or_else(|| Error::MissingInput("loss".to_owned()))?;
        let sizes = parameters.iter().zip(&own);
        let sizes = sizes.map(|((_, tensor), own)| if own.rate > 0.0 { tensor.data().len() } else { 0 });
        let mut optimiser =
            AdamW::new(settings.rates, sizes).with_own(own.clone()).on_threads(backend.threads());
        if let Some(kept) = more.average {
            let weights = parameters.iter().map(|(_, tensor)| tensor.data().to_vec()).collect();
            optimiser = optimiser.with_average(kept, weights);
        }
        if let Some(outer) = &mut outer {
            outer.prepare(backend, capacity)?;
        }
        let runner = backend.prepare(&graph, &BTreeMap::new(), capacity)?;
        let memory = Memory::new(&formula, &graph, more.texts);
        Ok(Self {
            formula,
            runner,
            state: State::default(),
            parameters,
            bindings,
            gradients,
            loss,
            optimiser,
            clip: settings.clip,
            steps: 0,
            outer,
            sums: Vec::new(),
            lora,
            memory,
        })
    }

    /// Runs `batch` and leaves the gradients in place; gives the loss. `inputs` are those of the graph that are not
    /// parameters (patches, remembered rows), by name.
    ///
    /// # Errors
    /// If the batch does not fit, or the loss is not finite.
    pub fn backward(&mut self, batch: Batch<'_>, inputs: &BTreeMap<String, Vec<f32>>) -> Result<f32, Error> {
        let loss = self.run(batch, inputs)?;
        if loss.is_finite() { Ok(loss) } else { Err(Error::NotFinite { step: self.steps + 1, loss }) }
    }

    /// The same, whatever the loss is.
    fn run(&mut self, batch: Batch<'_>, inputs: &BTreeMap<String, Vec<f32>>) -> Result<f32, Error> {
        let (mut known, mut given) = (None, None);
        if let Some(outer) = &mut self.outer {
            let weights = |name: &str| {
                self.parameters
                    .iter()
                    .find(|(parameter, _)| parameter.name == name)
                    .map(|(_, tensor)| tensor.data())
            };
            let (loss, gradient) = outer.run(&batch, weights)?;
            (known, given) = (Some(loss), Some(gradient));
        }
        let mut bound = Batch { inputs: Vec::with_capacity(self.bindings.len()), ..batch };
        if inputs.is_empty() {
            self.memory.announce(&mut bound.target);
        }
        for binding in &self.bindings {
            bound.inputs.push(match binding {
                Ok(parameter) => self.parameters[*parameter].1.data(),
                Err(name) => match (given.as_ref().filter(|_| name == Outer::INPUT), inputs.get(name)) {
                    (Some(gradient), _) => gradient,
                    (None, Some(given)) => given,
                    (None, None) => {
                        self.memory.input(name).ok_or_else(|| Error::MissingInput(name.clone()))?
                    }
                },
            });
        }
        if self.outer.is_some() {
            let side = if self.formula.target.is_some() { Side::Target } else { Side::Source };
            let packed = bound.side_mut(side);
            packed.labels.clear();
            packed.weights.clear();
        }
        self.runner.run(&mut self.state, &bound)?;
        let Batch { target, .. } = bound;
        if inputs.is_empty() {
            self.memory.remember(&target, &*self.runner, &self.state)?;
        }
        match known {
            Some(loss) => Ok(loss),
            None => Ok(self.runner.output(&self.state, self.loss)?[0]),
        }
    }

    /// One step: [`Trainer::backward`], then the optimiser moves every parameter. Gives the loss before it.
    ///
    /// # Errors
    /// As [`Trainer::backward`]; the parameters stay as they were then.
    pub fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Error> {
        let step = self.step_over(vec![batch], rate)?;
        if step.moved {
            Ok(step.loss)
        } else {
            Err(Error::NotFinite { step: self.steps + 1, loss: step.loss })
        }
    }

    /// One step over several batches, whose losses and gradients are added. A loss or a gradient that is not finite moves
    /// nothing, and neither do no batches.
    ///
    /// # Errors
    /// If a batch does not fit.
    pub fn step_over(&mut self, batches: Vec<Batch<'_>>, rate: f32) -> Result<Step, Error> {
        if batches.is_empty() {
            return Ok(Step { loss: 0.0, length: 0.0, moved: false });
        }
        let many = batches.len() > 1;
        let mut loss = 0.0;
        if many {
            self.clear_sums();
        }
        for batch in batches {
            loss += self.run(batch, &BTreeMap::new())?;
            if many {
                let gradients = outputs(&*self.runner, &self.state, &self.gradients)?;
                self.optimiser.gather(&mut self.sums, &gradients);
            }
        }
        let gradients: Vec<Cow<'_, [f32]>> = if many {
            self.sums.iter().map(|sum| Cow::Borrowed(&sum[..])).collect()
        } else {
            outputs(&*self.runner, &self.state, &self.gradients)?
        };
        let length = self.optimiser.length(&gradients) as f32;
        if !loss.is_finite() || !length.is_finite() {
            // What was remembered may not be finite either.
            self.memory.forget();
            return Ok(Step { loss, length, moved: false });
        }
        let clip = self.clip.filter(|&most| length > most).map_or(1.0, |most| most / length);
        self.steps += 1;
        let mut weights: Vec<&mut [f32]> =
            self.parameters.iter_mut().map(|(_, tensor)| tensor.data_mut()).collect();
        self.optimiser.step(&mut weights, &gradients, Move { rate, clip });
        Ok(Step { loss, length, moved: true })
    }

    /// Forgets what was remembered of earlier batches: a text begins anew.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// What is remembered of earlier batches.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same, to be changed.
    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    fn clear_sums(&mut self) {
        if self.sums.is_empty() {
            let sizes = self.optimiser.moments().iter().map(|(first, _)| first.len());
            self.sums = sizes.map(|size| vec![0.0; size]).collect();
        } else {
            self.sums.iter_mut().for_each(|sum| sum.fill(0.0));
        }
    }

    /// The gradient of parameter `name` from the last run.
    pub fn gradient(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        let index = self.parameters.iter().position(|(parameter, _)| parameter.name == name)?;
        self.runner.output(&self.state, self.gradients[index]?).ok()
    }

    /// The output `name` of the last run.
    pub fn output(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        self.runner.output(&self.state, self.runner.graph().output(name)?).ok()
    }

    /// The parameters as they are now.
    pub fn parameters(&self) -> &[(Parameter, Tensor)] {
        &self.parameters
    }

    /// The parameters, to be changed.
    pub(crate) fn parameters_mut(&mut self) -> &mut [(Parameter, Tensor)] {
        &mut self.parameters
    }

    /// The optimiser as it is now.
    pub fn optimiser(&self) -> &AdamW {
        &self.optimiser
    }

    /// The optimiser, to be changed.
    pub(crate) fn optimiser_mut(&mut self) -> &mut AdamW {
        &mut self.optimiser
    }

    /// The weights of the formula that are to be used: the average where one is kept, or else those of the last step, each with
    /// what was learned beside it.
    pub fn weights(&self) -> Vec<Cow<'_, [f32]>> {
        let of = |at: usize| match self.optimiser.average() {
            Some(average) => &average[at][..],
            None => self.parameters[at].1.data(),
        };
        let find = |name: &str| self.parameters.iter().position(|(parameter, _)| parameter.name == name);
        let plain = self.parameters.len() - 2 * self.lora.as_ref().map_or(0, |(_, adapters)| adapters.len());
        let one = |at: usize| {
            let adapted = self.lora.as_ref().and_then(|(low, adapters)| {
                let name = &self.parameters[at].0.name;
                let adapter = adapters.iter().find(|adapter| adapter.of == *name)?;
                let (down, up) = (of(find(&adapter.down())?), of(find(&adapter.up())?));
                Some(LowRank::merge(of(at), down, up, (low.rank, low.factor)))
            });
            adapted.map_or(Cow::Borrowed(of(at)), Cow::Owned)
        };
        (0..plain).map(one).collect()
    }

    /// The model as it is now, without averages and without what was learned beside it.
    ///
    /// # Errors
    /// If its parameters do not fit the formula, which cannot be.
    pub fn model(&self) -> Result<Model, Error> {
        let plain = parameters(&self.formula)?.len();
        let tensors = self.parameters[..plain].iter().map(|(p, tensor)| (p.name.clone(), tensor.clone()));
        Ok(Model::new(self.formula.clone(), Weights::from_tensors(tensors))?)
    }
}

/// The parameters of a model, in the order of [`parameters`].
fn read(model: &Model) -> Result<Vec<(Parameter, Tensor)>, Error> {
    let read = |parameter: Parameter| {
        let tensor =
            model.tensor(&parameter.name).ok_or_else(|| Error::MissingInput(parameter.name.clone()))?;
        Ok((parameter, tensor))
    };
    parameters(model.formula())?.into_iter().map(read).collect()
}

/// The gradients of a run; an empty one for what has none.
fn outputs<'s>(
    runner: &dyn Runner,
    state: &'s State,
    gradients: &[Option<usize>],
) -> Result<Vec<Cow<'s, [f32]>>, Error> {
    let read = |output: &Option<usize>| match output {
        Some(output) => Ok(runner.output(state, *output)?),
        None => Ok(Cow::Borrowed(&[][..])),
    };
    gradients.iter().map(read).collect()
}
