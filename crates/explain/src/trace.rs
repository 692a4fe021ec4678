//! The named tensors of one run, taken by the tap pass.

use std::slice;
use std::sync::Arc;

use glassformer_engine::{Forward, Named, Output, Sequence};
use glassformer_formula::Head;
use glassformer_graph::ops::{Activate, Activation, AttendShow, Keys, Softmax};
use glassformer_graph::{Backend, Builder, Graph, Leaf, Op, Rows, Shape, Side, Value, tap};
use glassformer_model::{Model, Purpose};
use glassformer_tensor::Tensor;

use crate::Error;

/// The name under which probabilities stand in a trace: what scores of words, classes or tags mean.
pub const PROBABILITIES: &str = "probabilities";

/// What turns the scores of a head into probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likely {
    /// A softmax along each row: one of all is right.
    Softmax,
    /// A sigmoid of each: every one is right or wrong by itself.
    Sigmoid,
    /// Nothing: scores are what is asked for.
    Scores,
}

/// What one axis of a tensor counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Tokens of a side.
    Tokens(Side),
    /// Words of the vocabulary.
    Vocabulary,
    /// Attention heads.
    Heads,
    /// Nothing that has a name.
    Numbers,
}

/// One tensor of a run.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Its name in the graph, or that of a weight.
    pub name: String,
    /// Its numbers. Scores and probabilities of an attention are `[queries, keys, heads]`.
    pub tensor: Tensor,
    /// What its axes count.
    pub axes: Vec<Axis>,
}

/// Everything that one run of one sequence computed, by name.
#[derive(Clone, Debug)]
pub struct Trace {
    model: Model,
    graph: Arc<Graph>,
    /// The graph without taps.
    untapped: Arc<Graph>,
    likely: Likely,
    /// What edits made of values, under the names of these.
    edited: Vec<Traced>,
    sequence: Sequence,
    values: Vec<Traced>,
    outputs: Vec<(String, String)>,
}

impl Trace {
    /// Runs `model` over `sequence` with a tap on every value, the scores and probabilities of every attention, and the
    /// softmax over the vocabulary where the head scores words.
    ///
    /// # Errors
    /// If the model cannot run the sequence.
    pub fn run(model: &Model, backend: &dyn Backend, sequence: &Sequence) -> Result<Self, Error> {
        let likely = match model.formula().head {
            // What the second calls scores are logarithms of probabilities already; their softmax is what they stand for.
            Head::Words { .. } | Head::Adaptive { .. } => Likely::Softmax,
            Head::Rows | Head::Classes { .. } | Head::Tags { .. } | Head::Spans => Likely::Scores,
        };
        Self::likely(model, backend, sequence, likely)
    }

    /// The same, where `likely` says what the head's scores mean.
    ///
    /// # Errors
    /// If the model cannot run the sequence, or has no head that scores.
    pub fn likely(
        model: &Model,
        backend: &dyn Backend,
        sequence: &Sequence,
        likely: Likely,
    ) -> Result<Self, Error> {
        let graph = with_probabilities(&*model.graph(Purpose::Whole)?, likely)?;
        Self::over(model, backend, sequence, Given { graph, likely, edited: Vec::new() })
    }

    /// Runs a graph that edits made of the model's, with a tap on every value.
    pub(crate) fn over(
        model: &Model,
        backend: &dyn Backend,
        sequence: &Sequence,
        given: Given,
    ) -> Result<Self, Error> {
        let Given { graph, likely, edited } = given;
        let names = computed(&graph);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tapped = Arc::new(tap::tap(&graph, &names)?);
        let inputs: Vec<String> = edited.iter().map(|traced| edited_name(&traced.name)).collect();
        let inputs: Vec<Named<'_>> = inputs
            .iter()
            .zip(&edited)
            .map(|(name, traced)| Named { name, numbers: traced.tensor.data() })
            .collect();
        let run = Forward::given(model, &tapped, backend, slice::from_ref(sequence), &inputs)?;
        let mut values = Vec::new();
        for name in names {
            values.extend(output(&tapped, &run, name)?);
        }
        let node = |(name, value): &(String, Value)| (name.clone(), graph.info(*value).name.clone());
        let outputs = graph.outputs().iter().map(node).collect();
        Ok(Self {
            model: model.clone(),
            graph: tapped,
            untapped: Arc::new(graph),
            likely,
            edited,
            sequence: sequence.clone(),
            values,
            outputs,
        })
    }

    /// The graph without taps, with the probabilities behind its scores.
    pub(crate) fn untapped(&self) -> &Graph {
        &self.untapped
    }

    /// What the head's scores mean.
    pub fn scores_mean(&self) -> Likely {
        self.likely
    }

    /// What edits made of values, under the names of these.
    pub fn edited(&self) -> &[Traced] {
        &self.edited
    }

    /// The value `name` as later values read it: edited, where it was.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn read(&self, name: &str) -> Result<&Tensor, Error> {
        let name = name.strip_suffix(EDITED).unwrap_or(name);
        let found = self.edited.iter().chain(&self.values).find(|traced| traced.name == name);
        found.map(|traced| &traced.tensor).ok_or_else(|| self.missing(name))
    }

    /// That there is no value `name`, with the nearest that there is.
    pub(crate) fn missing(&self, name: &str) -> Error {
        nearest(name, self.values.iter().map(|traced| traced.name.as_str()))
    }

    /// The graph that ran: the model's with every value and the inside of every attention as outputs.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What the model read.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// How many tokens the source and the target have.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        [self.sequence.source.len(), self.sequence.target.len()]
    }

    /// The model that ran.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was computed, in the order of computation.
    pub fn values(&self) -> &[Traced] {
        &self.values
    }

    /// What was computed, to keep.
    pub(crate) fn into_values(self) -> Vec<Traced> {
        self.values
    }

    /// The value `name`, where it was computed.
    pub fn value(&self, name: &str) -> Option<&Traced> {
        self.values.iter().find(|traced| traced.name == name)
    }

    /// The names of the outputs, each with the name of its value.
    pub fn outputs(&self) -> &[(String, String)] {
        &self.outputs
    }

    /// The value or weight `name`.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn get(&self, name: &str) -> Result<Traced, Error> {
        if let Some(traced) = self.value(name) {
            return Ok(traced.clone());
        }
        if let Some(tensor) = self.model.tensor(name) {
            let axes = vec![Axis::Numbers; tensor.shape().len()];
            return Ok(Traced { name: name.to_owned(), tensor, axes });
        }
        let weights = self.model.names();
        let known = self.values.iter().map(|traced| traced.name.as_str());
        Err(nearest(name, known.chain(weights.iter().map(String::as_str))))
    }
}

/// What the name of an edited value ends in.
const EDITED: &str = ".edited";

/// The name of the input that stands for the edited value `name`.
pub(crate) fn edited_name(name: &str) -> String {
    format!("{name}{EDITED}")
}

/// A graph that edits made, and the numbers that they made of values.
pub(crate) struct Given {
    pub graph: Graph,
    pub likely: Likely,
    pub edited: Vec<Traced>,
}

/// That there is no tensor `name`, with the nearest of those that are `known`.
pub(crate) fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let shared = |known: &str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    // Of those that begin alike, the one that is about as long.
    let rank = |known: &&str| (shared(known), std::cmp::Reverse(known.len().abs_diff(name.len())));
    let nearest = known.max_by_key(rank).unwrap_or_default().to_owned();
    Error::NoTensor { name: name.to_owned(), nearest }
}

/// `graph` with what its logits mean behind them.
pub(crate) fn with_probabilities(graph: &Graph, likely: Likely) -> Result<Graph, Error> {
    let op: Op = match likely {
        Likely::Scores => return Ok(graph.clone()),
        Likely::Softmax => Softmax.into(),
        Likely::Sigmoid => Activate { act: Activation::Sigmoid }.into(),
    };
    let logits = graph.value("logits")?;
    let mut build = Builder::extend(graph.clone());
    build.add_at(PROBABILITIES, op, &[logits])?;
    Ok(build.finish())
}

/// Everything that can be tapped and does not come from outside: weights are where they were.
fn computed(graph: &Graph) -> Vec<String> {
    let outside: Vec<&str> = [Leaf::Weight, Leaf::Input, Leaf::Kept]
        .into_iter()
        .flat_map(|leaf| graph.leaves(leaf))
        .map(|(_, info)| info.name.as_str())
        .collect();
    tap::all(graph).into_iter().filter(|name| !outside.contains(&name.as_str())).collect()
}

/// The output `name` of a run of `graph`.
pub(crate) fn output(graph: &Graph, run: &Forward, name: &str) -> Result<Option<Traced>, Error> {
    let Some(Output { shape, rows, numbers }) = run.output(name)? else { return Ok(None) };
    let axes = axes(graph, name, shape);
    let shape = sizes(run, &axes, rows, shape.width);
    let tensor = Tensor::new(&shape, numbers.into_owned());
    Ok(tensor.map(|tensor| Traced { name: name.to_owned(), tensor, axes }))
}

/// What the axes of the value `name` count.
fn axes(graph: &Graph, name: &str, shape: Shape) -> Vec<Axis> {
    let rows = |rows: Rows| match rows {
        Rows::Tokens(side) | Rows::Picked(side) => Axis::Tokens(side),
        Rows::Fixed(_)
        | Rows::Memory(_)
        | Rows::Recalled(_)
        | Rows::Remembered(..)
        | Rows::Low(..)
        | Rows::Sequences(_)
        | Rows::Distances(_)
        | Rows::Pairs(_) => Axis::Numbers,
    };
    let columns = if name == PROBABILITIES || name == "logits" { Axis::Vocabulary } else { Axis::Numbers };
    match attention(graph, name) {
        Some(show) => {
            let keys = match show.attend.keys {
                Keys::Rows(keys) => rows(keys),
                Keys::Pages(..) => Axis::Numbers,
            };
            vec![Axis::Tokens(show.attend.side), keys, Axis::Heads]
        }
        None => vec![rows(shape.rows), columns],
    }
}

/// The attention whose inside `name` shows.
fn attention<'g>(graph: &'g Graph, name: &str) -> Option<&'g AttendShow> {
    let node = graph.nodes().iter().find(|node| node.name == name)?;
    if let Op::AttendShow(show) = &node.op { Some(show) } else { None }
}

/// How large the axes are: pairs of queries and keys come as one axis and are taken apart.
fn sizes(run: &Forward, axes: &[Axis], rows: usize, width: usize) -> Vec<usize> {
    match axes {
        [Axis::Tokens(side), _, Axis::Heads] => {
            let queries = run.span(*side, 0).map_or(1, |span| span.len.max(1));
            vec![queries, rows / queries, width]
        }
        _ => vec![rows, width],
    }
}
