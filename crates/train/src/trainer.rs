//! The training step: forward, loss, gradients and update. Parameters, their moments and what is remembered stay in the backend's
//! memory: a step sends ids, spans and labels, and brings back the loss and the length of the gradient.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::ops::Step as Columns;
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Graph, Leaf, Rows, Runner, Shape, Side, State, Value, grad,
};
use glassformer_model::{Lowering, Model, Parameter, lower, parameters};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;

use crate::Error;
use crate::lora::LowRank;
use crate::memory::{Memory, Texts};
use crate::optimiser::{self, BEGINS, Kept, Learner, Own, Rates, SQUARE, STEP};
use crate::outer::{Loss, OuterLoss};
use crate::passes::adapt::{Adapter, adapt};
use crate::passes::recompute::recompute;

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
    let forward = lower(formula, Lowering::train(Leaf::Input, settings.dropout))?;
    let loss = Loss { side: last_side(formula), smoothing: settings.smoothing, outer: None };
    Ok(grad::grad(&loss.append(forward)?, "loss", &of)?)
}

/// The side that has the head.
pub(crate) fn last_side(formula: &Formula) -> Side {
    if formula.target.is_some() { Side::Target } else { Side::Source }
}

/// A model being trained. Its parameters change where the backend keeps them; graphs and plans do not.
pub struct Trainer {
    formula: Formula,
    plans: Plans,
    state: State,
    parameters: Vec<Parameter>,
    /// Which of them learn.
    learns: Vec<bool>,
    settings: Settings,
    average: Option<f32>,
    /// How many steps moved something.
    moved: i32,
    outer: Option<OuterLoss>,
    side: Side,
    lora: Option<(LowRank, Vec<Adapter>)>,
    memory: Memory,
}

/// The graphs of a training, over one state.
struct Plans {
    /// A whole step over one batch.
    step: Box<dyn Runner>,
    /// Of a step over several batches: one of them, whose gradients are added to the sums.
    gather: Box<dyn Runner>,
    /// Its end: the update by these sums.
    apply: Box<dyn Runner>,
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
        let side = last_side(&formula);
        let loss = Loss { side, smoothing: settings.smoothing, outer: more.outer };
        let mut forward = loss.append(lower(&formula, Lowering::train(Leaf::Kept, settings.dropout))?)?;
        let memory = Memory::new(&formula, &forward, more.texts);
        let mut own = if more.own.is_empty() {
            vec![Own { rate: 1.0, decay: settings.rates.decay }; parameters.len()]
        } else {
            more.own.clone()
        };
        let mut lora = None;
        if let Some(low) = &more.lora {
            let (adapted, adapters) = adapt(&forward, |name| low.wants(name), low.rank, low.factor)?;
            if adapters.is_empty() {
                let names = parameters.iter().filter(|(_, tensor)| tensor.shape().len() == 2);
                let names: Vec<&str> = names.map(|(parameter, _)| parameter.name.as_str()).take(6).collect();
                return Err(Error::config(
                    format!("model.lora.names has no part of a weight's name: {}", low.names.join(", ")),
                    format!("some weights are {}", names.join(", ")),
                ));
            }
            forward = adapted;
            low.fits(&adapters)?;
            // What has no adapter stays as it is; what is new to the model learns.
            for ((parameter, _), own) in parameters.iter().zip(&mut own) {
                own.rate = if low.whole.contains(&parameter.name) { own.rate } else { 0.0 };
            }
            parameters.extend(low.begin(&adapters));
            own.resize(parameters.len(), Own { rate: 1.0, decay: 0.0 });
            lora = Some((low.clone(), adapters));
        }
        let learners: Vec<Learner> = parameters
            .iter()
            .zip(&own)
            .filter(|(_, own)| own.rate > 0.0)
            .map(|((parameter, _), &own)| {
                Ok(Learner { name: parameter.name.clone(), shape: shape(&forward, parameter)?, own })
            })
            .collect::<Result<_, Error>>()?;
        let graphs = Graphs { forward: &forward, learners: &learners, settings, more, memory: &memory };
        let none = BTreeMap::<String, Tensor>::new();
        let prepare = |graph: Graph| backend.prepare(&Arc::new(graph), &none, capacity);
        let plans = Plans {
            step: prepare(graphs.step()?)?,
            gather: prepare(graphs.gather()?)?,
            apply: prepare(graphs.apply()?)?,
        };
        let mut state = State::default();
        for ((Parameter { name, .. }, tensor), own) in parameters.iter().zip(&own) {
            let data = tensor.data();
            plans.step.write(&mut state, name, data)?;
            if own.rate > 0.0 {
                let zeros = vec![0.0; data.len()];
                for kind in [Kept::First, Kept::Second, Kept::Sum] {
                    plans.step.write(&mut state, &kind.of(name), &zeros)?;
                }
                if more.average.is_some() {
                    plans.step.write(&mut state, &Kept::Average.of(name), data)?;
                }
            }
        }
        Ok(Self {
            formula,
            plans,
            state,
            parameters: parameters.into_iter().map(|(parameter, _)| parameter).collect(),
            learns: own.iter().map(|own| own.rate > 0.0).collect(),
            settings: *settings,
            average: more.average,
            moved: 0,
            outer: more.outer,
            side,
            lora,
            memory,
        })
    }

    /// Runs `batch` and leaves the gradients to be read; gives the loss. `inputs` are those of the graph that are no parameters
    /// (patches, remembered rows), by name.
    ///
    /// # Errors
    /// If the batch does not fit, or the loss is not finite.
    pub fn backward(&mut self, batch: Batch<'_>, inputs: &BTreeMap<String, Vec<f32>>) -> Result<f32, Error> {
        let loss = self.run(Plan::Gather { begins: true }, batch, inputs)?;
        if loss.is_finite() {
            Ok(loss)
        } else {
            Err(Error::NotFinite { step: self.moved as usize + 1, loss })
        }
    }

    /// Runs one batch and gives its loss.
    fn run(
        &mut self,
        plan: Plan,
        batch: Batch<'_>,
        inputs: &BTreeMap<String, Vec<f32>>,
    ) -> Result<f32, Error> {
        let (runner, own): (_, Vec<f32>) = match plan {
            Plan::Step(columns) => (&*self.plans.step, columns.columns().to_vec()),
            Plan::Gather { begins } => (&*self.plans.gather, vec![f32::from(u8::from(begins))]),
        };
        let mut bound = batch;
        if let Some(outer) = self.outer {
            outer.weigh(bound.side_mut(self.side));
        }
        // Whoever gives what is remembered says so in the spans.
        let given: Vec<&String> = inputs.keys().filter(|name| self.memory.keeps(name)).collect();
        if given.is_empty() {
            self.memory.announce(&mut bound.target, runner, &mut self.state)?;
        }
        for name in given {
            runner.write(&mut self.state, name, &inputs[name])?;
        }
        let graph = runner.graph();
        let input = |name: &str| match name {
            STEP | BEGINS => Ok(&own[..]),
            _ => inputs.get(name).map(Vec::as_slice).ok_or_else(|| Error::MissingInput(name.to_owned())),
        };
        let bound_inputs =
            graph.leaves(Leaf::Input).map(|(_, info)| input(&info.name)).collect::<Result<Vec<_>, _>>()?;
        let bound =
            Batch { source: bound.source, target: bound.target, inputs: bound_inputs, seed: bound.seed };
        runner.run(&mut self.state, &bound)?;
        let loss = graph.output("loss").ok_or(Error::NoHead)?;
        let loss = runner.output(&self.state, loss)?[0];
        self.memory.remember(&bound.target);
        Ok(loss)
    }

    /// One step: forward, back, and the optimiser moves every parameter. Gives the loss before it.
    ///
    /// # Errors
    /// As [`Trainer::backward`]; the parameters stay as they were then.
    pub fn step(&mut self, batch: Batch<'_>, rate: f32) -> Result<f32, Error> {
        let step = self.step_over(vec![batch], rate)?;
        if step.moved {
            Ok(step.loss)
        } else {
            Err(Error::NotFinite { step: self.moved as usize + 1, loss: step.loss })
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
        let none = BTreeMap::new();
        let columns = self.settings.rates.step(self.moved + 1, rate, self.average);
        let many = batches.len() > 1;
        let mut loss = 0.0;
        for (at, batch) in batches.into_iter().enumerate() {
            let plan = if many { Plan::Gather { begins: at == 0 } } else { Plan::Step(columns) };
            loss += self.run(plan, batch, &none)?;
        }
        let runner = if many { &self.plans.apply } else { &self.plans.step };
        if many && loss.is_finite() {
            let columns = columns.columns();
            let batch = Batch { inputs: vec![&columns], ..Batch::default() };
            runner.run(&mut self.state, &batch)?;
        }
        // Where nothing learns there are no gradients.
        let length = match runner.graph().output(SQUARE) {
            Some(square) if loss.is_finite() => runner.output(&self.state, square)?[0].sqrt(),
            Some(_) => f32::NAN,
            None => 0.0,
        };
        let moved = length.is_finite();
        if moved {
            self.moved += 1;
        } else {
            // What was remembered may not be finite either.
            self.memory.forget();
        }
        Ok(Step { loss, length, moved })
    }

    /// Forgets what was remembered of earlier batches: a text begins anew.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// How many steps moved something.
    pub fn steps(&self) -> i32 {
        self.moved
    }

    /// The gradient of parameter `name` from the last [`Trainer::backward`].
    pub fn gradient(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        self.plans.gather.kept(&self.state, &Kept::Sum.of(name)).ok()
    }

    /// The output `name` of the last [`Trainer::backward`].
    pub fn output(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        let runner = &self.plans.gather;
        runner.output(&self.state, runner.graph().output(name)?).ok()
    }

    /// The parameters, those that learn beside others behind them.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// How many numbers learn.
    pub fn learning(&self) -> usize {
        let learns = self.parameters.iter().zip(&self.learns).filter(|(_, learns)| **learns);
        learns.map(|(parameter, _)| parameter.shape.iter().product::<usize>()).sum()
    }

    /// The parameter `name` as it is now.
    ///
    /// # Errors
    /// If there is none, or the backend cannot bring it to the host.
    pub fn tensor(&self, name: &str) -> Result<Tensor, Error> {
        let missing = || Error::MissingInput(name.to_owned());
        let parameter =
            self.parameters.iter().find(|parameter| parameter.name == name).ok_or_else(missing)?;
        let numbers = self.plans.step.kept(&self.state, name)?.into_owned();
        Tensor::new(&parameter.shape, numbers).ok_or_else(missing)
    }

    /// All numbers that change while training, by kind and name.
    pub(crate) fn numbers(&self) -> Result<BTreeMap<String, Tensor>, Error> {
        let mut all = BTreeMap::new();
        for (parameter, learns) in self.parameters.iter().zip(&self.learns) {
            let kinds = [Kept::First, Kept::Second, Kept::Average];
            let kinds = kinds.into_iter().filter(|&kind| *learns && self.keeps(kind));
            let names = kinds.map(|kind| (kind.of(&parameter.name), kind.of(&parameter.name)));
            for (as_known, kept) in
                names.chain([(format!("weights.{}", parameter.name), parameter.name.clone())])
            {
                let numbers = self.plans.step.kept(&self.state, &kept)?.into_owned();
                all.extend(Tensor::new(&parameter.shape, numbers).map(|tensor| (as_known, tensor)));
            }
        }
        let remembered = self.memory.tensors(&*self.plans.step, &self.state)?;
        all.extend(remembered.into_iter().map(|(name, tensor)| (format!("memory.{name}"), tensor)));
        Ok(all)
    }

    /// Goes on from where another has been, after so many steps that moved something. Gives the name of what does not fit.
    pub(crate) fn restore(&mut self, numbers: &Weights, moved: i32) -> Result<Option<String>, Error> {
        let Self { plans, state, parameters, learns, .. } = self;
        let average = self.average.is_some();
        for (Parameter { name, shape }, learns) in parameters.iter().zip(learns) {
            let mut kinds = vec![(format!("weights.{name}"), name.clone())];
            for kind in [Kept::First, Kept::Second, Kept::Average] {
                if *learns && (kind != Kept::Average || average) {
                    kinds.push((kind.of(name), kind.of(name)));
                }
            }
            for (as_known, kept) in kinds {
                let found = numbers.get(&as_known).map(|view| view.values().into_owned());
                let Some(found) = found.filter(|data| data.len() == shape.iter().product::<usize>()) else {
                    return Ok(Some(as_known));
                };
                plans.step.write(state, &kept, &found)?;
            }
        }
        let get = |name: &str| {
            let view = numbers.get(&format!("memory.{name}"))?;
            Some((view.shape().to_vec(), Cow::Owned(view.values().into_owned())))
        };
        self.moved = moved;
        Ok((!self.memory.restore(get, &*plans.step, state)?).then(|| "memory".to_owned()))
    }

    fn keeps(&self, kind: Kept) -> bool {
        match kind {
            Kept::First | Kept::Second | Kept::Sum => true,
            Kept::Average => self.average.is_some(),
        }
    }

    /// The weights of the formula that are to be used: the average where one is kept, or else those of the last step, each with
    /// what was learned beside it.
    ///
    /// # Errors
    /// If the backend cannot bring them to the host.
    pub fn weights(&self) -> Result<Vec<Cow<'_, [f32]>>, Error> {
        let of = |at: usize| {
            let name = &self.parameters[at].name;
            let averaged = self.average.is_some() && self.learns[at];
            let name = if averaged { Cow::Owned(Kept::Average.of(name)) } else { Cow::Borrowed(name) };
            self.plans.step.kept(&self.state, &name)
        };
        let find = |name: &str| self.parameters.iter().position(|parameter| parameter.name == name);
        let plain = self.parameters.len() - 2 * self.lora.as_ref().map_or(0, |(_, adapters)| adapters.len());
        let mut all = Vec::new();
        for at in 0..plain {
            let adapted = self.lora.as_ref().and_then(|(low, adapters)| {
                let adapter = adapters.iter().find(|adapter| adapter.of == self.parameters[at].name)?;
                Some((low, find(&adapter.down())?, find(&adapter.up())?))
            });
            all.push(match adapted {
                Some((low, down, up)) => {
                    Cow::Owned(LowRank::merge(&of(at)?, &of(down)?, &of(up)?, (low.rank, low.factor)))
                }
                None => of(at)?,
            });
        }
        Ok(all)
    }

    /// The model as it is now, without averages and without what was learned beside it.
    ///
    /// # Errors
    /// If the backend cannot bring it to the host.
    pub fn model(&self) -> Result<Model, Error> {
        let plain = parameters(&self.formula)?;
        let read = |parameter: Parameter| Ok((parameter.name.clone(), self.tensor(&parameter.name)?));
        let tensors = plain.into_iter().map(read).collect::<Result<Vec<_>, Error>>()?;
        Ok(Model::new(self.formula.clone(), Weights::from_tensors(tensors))?)
    }
}

/// Which graph runs over a batch.
#[derive(Clone, Copy)]
enum Plan {
    Step(Columns),
    Gather { begins: bool },
}

/// What the graphs of a training are made of.
struct Graphs<'a> {
    /// The forward pass with its loss.
    forward: &'a Graph,
    learners: &'a [Learner],
    settings: &'a Settings,
    more: &'a More,
    memory: &'a Memory,
}

impl Graphs<'_> {
    /// A whole step over one batch.
    fn step(&self) -> Result<Graph, Error> {
        let (mut build, gradients) = self.gradients()?;
        let loss = build.graph().value("loss")?;
        self.update(&mut build, &gradients, Some(loss))?;
        self.memory.append(&mut build)?;
        Ok(build.finish())
    }

    /// One of several batches.
    fn gather(&self) -> Result<Graph, Error> {
        let (mut build, gradients) = self.gradients()?;
        optimiser::gather(&mut build, &gradients)?;
        self.memory.append(&mut build)?;
        Ok(build.finish())
    }

    /// The end of a step over several batches.
    fn apply(&self) -> Result<Graph, Error> {
        let mut build = Builder::new();
        let sum = |learner: &Learner| {
            Ok((learner.clone(), build.kept(&Kept::Sum.of(&learner.name), learner.shape)?))
        };
        let gradients = self.learners.iter().map(sum).collect::<Result<Vec<_>, Error>>()?;
        self.update(&mut build, &gradients, None)?;
        Ok(build.finish())
    }

    fn update(
        &self,
        build: &mut Builder,
        gradients: &[(Learner, Value)],
        loss: Option<Value>,
    ) -> Result<(), Error> {
        let Settings { rates, clip, .. } = self.settings;
        Ok(optimiser::update(build, gradients, loss, rates, *clip, self.more.average.is_some())?)
    }

    /// The way forward and back, whose outputs are those of the forward pass; and the gradients.
    fn gradients(&self) -> Result<(Builder, Vec<(Learner, Value)>), Error> {
        let of: Vec<&str> = self.learners.iter().map(|learner| learner.name.as_str()).collect();
        let graph = grad::grad(self.forward, "loss", &of)?;
        let graph = match self.more.inside {
            Inside::Kept => graph,
            Inside::Recomputed => recompute(&graph)?,
        };
        let gradient = |learner: &Learner| {
            let name = grad::name(&learner.name);
            let output = graph.output(&name).ok_or(Error::MissingInput(name))?;
            Ok((learner.clone(), graph.outputs()[output].1))
        };
        let gradients = self.learners.iter().map(gradient).collect::<Result<Vec<_>, Error>>()?;
        let outputs: Vec<(String, Value)> = graph.outputs().to_vec();
        let mut build = Builder::extend(graph);
        build.forget_outputs();
        // Gradients are read by the optimiser alone.
        for (name, value) in outputs {
            if self.forward.output(&name).is_some() {
                build.output(&name, value);
            }
        }
        Ok((build, gradients))
    }
}

/// The shape of a parameter in `graph`.
fn shape(graph: &Graph, parameter: &Parameter) -> Result<Shape, Error> {
    let value = graph.value(&parameter.name).ok();
    let numbers = parameter.shape.iter().product::<usize>();
    let known = value.map(|value| graph.shape(value)).filter(|shape| match shape.rows {
        Rows::Fixed(rows) => rows * shape.width == numbers,
        _ => false,
    });
    known.ok_or_else(|| Error::MissingInput(parameter.name.clone()))
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
