//! One run over whole sequences: what encoders, scoring and showing need.

use std::borrow::Cow;
use std::sync::Arc;

use glassformer_formula::{Formula, Input, Lead};
use glassformer_graph::{
    Backend, Batch, Capacity, Graph, Leaf, Rows, Runner, Shape, Side, Span, State, ValueInfo,
};
use glassformer_model::{Model, Purpose};

use crate::Error;

/// One sequence, or a pair of them where the model has two stacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Tokens of the source; of the only stack where that is an encoder.
    pub source: Vec<u32>,
    /// The numbers of the source's patches, one patch after the other, where it is an image.
    pub patches: Vec<f32>,
    /// Tokens of the target; of the only stack where that is a decoder.
    pub target: Vec<u32>,
    /// Types of the source's tokens, or empty for all 0.
    pub types: Vec<u32>,
    /// Positions of the source that see and are seen by all.
    pub global: Vec<usize>,
    /// How many of the first rows of what is pooled are not: those of a prompt.
    pub unpooled: usize,
    /// Which of its rows the head is asked about.
    pub asked: Asked,
}

/// Rows of the last stack that the head is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Asked {
    /// Every row.
    #[default]
    All,
    /// These, ascending: a head over a large vocabulary costs more than the stack.
    Rows(Vec<usize>),
}

impl Asked {
    /// Appends the rows that are asked about to `picked`, for a sequence that lies at `start` and has `len` rows.
    fn pick(&self, picked: &mut Vec<u32>, start: usize, len: usize) {
        match self {
            Self::All => picked.extend((start..start + len).map(|row| row as u32)),
            Self::Rows(rows) => picked.extend(rows.iter().map(|row| (start + row) as u32)),
        }
    }

    /// A row that is none of `len`, or that does not come after the one before it.
    fn misplaced(&self, len: usize) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Rows(rows) => {
                let next = std::iter::once(None).chain(rows.iter().map(|&row| Some(row)));
                rows.iter()
                    .zip(next)
                    .find(|(row, before)| **row >= len || Some(**row) <= *before)
                    .map(|(row, _)| *row)
            }
        }
    }
}

impl Sequence {
    /// Appends this sequence to `batch`; `rows` is how many rows its source has, `memory` how many its target remembers.
    fn push(&self, batch: &mut Batch<'_>, rows: usize, memory: usize) {
        let source = batch.source.spans.len();
        let unpooled = self.unpooled;
        if rows > 0 {
            batch.source.push_rows(rows, Span { unpooled, ..Span::default() });
            batch.source.tokens.extend(&self.source);
            batch.source.types.extend(self.types.iter().copied().chain(std::iter::repeat(0)).take(rows));
            batch.source.global.extend((0..rows).map(|i| self.global.contains(&i)));
        }
        if !self.target.is_empty() {
            batch.target.push(&self.target, Span { source, memory, unpooled, ..Span::default() });
        }
        let last = if self.target.is_empty() { &mut batch.source } else { &mut batch.target };
        if let Some(span) = last.spans.last().copied() {
            self.asked.pick(&mut last.picked, span.start, span.len);
        }
    }
}

/// A model prepared for whole sequences, one batch after the other. The weights are prepared once, and again only where a
/// batch is larger than any before it.
pub struct Passes {
    model: Model,
    graph: Arc<Graph>,
    backend: Arc<dyn Backend>,
    prepared: Option<Prepared>,
}

struct Prepared {
    capacity: Capacity,
    forward: Forward,
}

impl Passes {
    /// `model`, to be run by `backend`.
    ///
    /// # Errors
    /// If the model cannot be lowered.
    pub fn new(model: &Model, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        Ok(Self::over(model, model.graph(Purpose::Whole)?, backend))
    }

    /// `graph`, which a pass made of a whole graph of `model`.
    pub fn over(model: &Model, graph: Arc<Graph>, backend: Arc<dyn Backend>) -> Self {
        Self { model: model.clone(), graph, backend, prepared: None }
    }

    /// Runs `sequences` as one batch. Each gets the same bits as alone.
    ///
    /// # Errors
    /// If weights or sequences do not fit.
    pub fn run(&mut self, sequences: &[Sequence]) -> Result<&Forward, Error> {
        let mut given = Given::default();
        let mut batch = batch(self.model.formula(), sequences, &mut given)?;
        batch.inputs = inputs(&self.graph, &given, &[]);
        let need = Capacity::of(&batch);
        let prepared = match self.prepared.take() {
            Some(prepared) if prepared.capacity.covers(&need) => prepared,
            before => {
                // What was prepared before stays until then: its weights can be used again.
                let capacity = before.as_ref().map_or(need, |before| before.capacity.union(&need));
                let runner = self.backend.prepare(&self.graph, &self.model, &capacity)?;
                let spans = [Vec::new(), Vec::new()];
                Prepared { capacity, forward: Forward { runner, state: State::default(), spans } }
            }
        };
        let Prepared { forward, .. } = self.prepared.insert(prepared);
        forward.runner.run(&mut forward.state, &batch)?;
        forward.spans = [batch.source.spans, batch.target.spans];
        Ok(forward)
    }
}

/// Numbers that come with sequences.
#[derive(Default)]
struct Given {
    /// Of the source's patches.
    patches: Vec<f32>,
    /// Of the rows that targets remember before their first segment.
    zeros: Vec<f32>,
}

/// The numbers of an input that a pass added to a graph.
#[derive(Clone, Copy, Debug)]
pub struct Named<'n> {
    /// The input's name.
    pub name: &'n str,
    /// Its rows, those of all sequences one after the other.
    pub numbers: &'n [f32],
}

/// The numbers of each input of `graph`, where it reads some: by its name, or else by what its rows are.
fn inputs<'g>(graph: &Graph, given: &'g Given, named: &[Named<'g>]) -> Vec<&'g [f32]> {
    let by_rows = |info: &ValueInfo| match info.shape.rows {
        Rows::Tokens(Side::Source) => &given.patches[..],
        Rows::Memory(Side::Target) => &given.zeros,
        _ => &[],
    };
    let of = |info: &ValueInfo| {
        named
            .iter()
            .find(|named| named.name == info.name)
            .map_or_else(|| by_rows(info), |named| named.numbers)
    };
    graph.leaves(Leaf::Input).map(|(_, info)| of(info)).collect()
}

/// An output of a run.
#[derive(Clone, Debug)]
pub struct Output<'a> {
    /// Its shape.
    pub shape: Shape,
    /// How many rows it has.
    pub rows: usize,
    /// Its numbers, row-major.
    pub numbers: Cow<'a, [f32]>,
}

/// The outputs of one run over whole sequences.
pub struct Forward {
    runner: Box<dyn Runner>,
    state: State,
    spans: [Vec<Span>; 2],
}

impl Forward {
    /// Prepares `graph`, a whole graph of `model` or one that a pass made of it, for exactly these sequences, and runs it.
    ///
    /// # Errors
    /// If weights or sequences do not fit.
    pub fn run(
        model: &Model,
        graph: &Arc<Graph>,
        backend: &dyn Backend,
        sequences: &[Sequence],
    ) -> Result<Self, Error> {
        Self::given(model, graph, backend, sequences, &[])
    }

    /// The same, where a pass added inputs to the graph: `named` has their numbers.
    ///
    /// # Errors
    /// If weights, sequences or numbers do not fit.
    pub fn given(
        model: &Model,
        graph: &Arc<Graph>,
        backend: &dyn Backend,
        sequences: &[Sequence],
        named: &[Named<'_>],
    ) -> Result<Self, Error> {
        let mut given = Given::default();
        let mut batch = batch(model.formula(), sequences, &mut given)?;
        batch.inputs = inputs(graph, &given, named);
        let runner = backend.prepare(graph, model, &Capacity::of(&batch))?;
        let mut state = State::default();
        runner.run(&mut state, &batch)?;
        Ok(Self { runner, state, spans: [batch.source.spans, batch.target.spans] })
    }

    /// Runs again what was prepared for these sequences, or for more of them, with other numbers.
    ///
    /// # Errors
    /// If there are more sequences than it was prepared for, or numbers do not fit.
    pub fn again(&mut self, model: &Model, sequences: &[Sequence], named: &[Named<'_>]) -> Result<(), Error> {
        let mut given = Given::default();
        let mut batch = batch(model.formula(), sequences, &mut given)?;
        batch.inputs = inputs(self.runner.graph(), &given, named);
        self.runner.run(&mut self.state, &batch)?;
        self.spans = [batch.source.spans, batch.target.spans];
        Ok(())
    }

    /// Lowers and runs `model` over `sequences`, asking the head about every row.
    ///
    /// # Errors
    /// If weights or sequences do not fit.
    pub fn whole(model: &Model, backend: &dyn Backend, sequences: &[Sequence]) -> Result<Self, Error> {
        Self::run(model, &model.graph(Purpose::Whole)?, backend, sequences)
    }

    /// The names of the outputs, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.runner.graph().outputs().iter().map(|(name, _)| name.as_str())
    }

    /// The output `name`, for all sequences together, where the graph has one.
    ///
    /// # Errors
    /// If the backend cannot bring it to the host.
    pub fn output(&self, name: &str) -> Result<Option<Output<'_>>, Error> {
        let graph = self.runner.graph();
        let Some(index) = graph.output(name) else { return Ok(None) };
        let (shape, rows) = (graph.shape(graph.outputs()[index].1), self.state.rows(index));
        Ok(Some(Output { shape, rows, numbers: self.runner.output(&self.state, index)? }))
    }

    /// Where sequence `index` lies among the packed rows of `side`.
    pub fn span(&self, side: Side, index: usize) -> Option<Span> {
        let spans = match side {
            Side::Source => &self.spans[0],
            Side::Target => &self.spans[1],
        };
        spans.get(index).copied()
    }
}

/// Packs `sequences`, and collects their patches with an empty row where a learned one leads.
fn batch(formula: &Formula, sequences: &[Sequence], given: &mut Given) -> Result<Batch<'static>, Error> {
    let mut batch = Batch::default();
    let memory = formula.target.as_ref().map_or(0, |side| side.stack.position.zeros());
    for (request, sequence) in sequences.iter().enumerate() {
        let bad = |what: String, hint: &str| Error::Request { request, what, hint: hint.to_owned() };
        let read = (&sequence.source[..], &sequence.patches[..]);
        let rows =
            source_rows(formula, read, &mut given.patches).map_err(|what| bad(what, "check its source"))?;
        if formula.target.is_some() == sequence.target.is_empty() {
            let what =
                if sequence.target.is_empty() { "its target is empty" } else { "the model has no target" };
            return Err(bad(what.to_owned(), "give a target exactly where the model has a decoder"));
        }
        if let Some(place) = sequence.global.iter().find(|&&place| place >= rows) {
            return Err(bad(format!("global position {place} is beyond its {rows} rows"), "count from 0"));
        }
        let last = if sequence.target.is_empty() { rows } else { sequence.target.len() };
        if sequence.unpooled >= last {
            let what = format!("{} of its {last} rows are not pooled", sequence.unpooled);
            return Err(bad(what, "leave at least one row to be pooled"));
        }
        if let Some(row) = sequence.asked.misplaced(last) {
            let what =
                format!("row {row} that the head is asked about is beyond its {last} rows, or out of order");
            return Err(bad(what, "ask about rows in ascending order"));
        }
        sequence.push(&mut batch, rows, memory);
    }
    let width = formula.target.as_ref().map_or(0, |side| side.stack.width);
    given.zeros.resize(batch.target.memory() * width, 0.0);
    Ok(batch)
}

/// How many rows a source of these tokens or these patches has; patches are appended to `patches`, with an empty row where
/// a learned one leads.
pub(crate) fn source_rows(
    formula: &Formula,
    (tokens, given): (&[u32], &[f32]),
    patches: &mut Vec<f32>,
) -> Result<usize, String> {
    match formula.source.as_ref().map(|side| &side.input) {
        None if tokens.len() + given.len() > 0 => Err("the model has no source".to_owned()),
        None => Ok(0),
        Some(Input::Tokens(_)) if tokens.is_empty() => Err("its source is empty".to_owned()),
        Some(Input::Tokens(_)) => Ok(tokens.len()),
        Some(Input::Patches(image)) => {
            let numbers = image.size * image.size * image.channels;
            if given.is_empty() || !given.len().is_multiple_of(numbers) {
                return Err(format!("{} numbers are not patches of {numbers}", given.len()));
            }
            let lead = match image.lead {
                Lead::None => 0,
                Lead::Class => 1,
            };
            patches.resize(patches.len() + lead * numbers, 0.0);
            patches.extend_from_slice(given);
            Ok(lead + given.len() / numbers)
        }
    }
}
