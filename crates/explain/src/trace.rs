//! The named tensors of one run, taken by the tap pass.

use std::slice;
use std::sync::Arc;

use glassformer_engine::{Forward, Output, Sequence};
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
        let names = computed(&graph);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tapped = Arc::new(tap::tap(&graph, &names)?);
        let run = Forward::run(model, &tapped, backend, slice::from_ref(sequence))?;
        let mut values = Vec::new();
        for name in names {
            let Some(Output { shape, rows, numbers }) = run.output(name)? else { continue };
            let axes = axes(&tapped, name, shape);
            let shape = sizes(&run, &axes, rows, shape.width);
            let tensor = Tensor::new(&shape, numbers.into_owned());
            values.extend(tensor.map(|tensor| Traced { name: name.to_owned(), tensor, axes }));
        }
        let node = |(name, value): &(String, Value)| (name.clone(), graph.info(*value).name.clone());
        let outputs = graph.outputs().iter().map(node).collect();
        Ok(Self { model: model.clone(), graph: tapped, sequence: sequence.clone(), values, outputs })
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
        let shared = |known: &str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let known = self.values.iter().map(|traced| traced.name.clone()).chain(self.model.names());
        let nearest = known.max_by_key(|known| shared(known)).unwrap_or_default();
        Err(Error::NoTensor { name: name.to_owned(), nearest })
    }
}

/// `graph` with what its logits mean behind them.
fn with_probabilities(graph: &Graph, likely: Likely) -> Result<Graph, Error> {
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
