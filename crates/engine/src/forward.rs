//! One run over whole sequences: what encoders, scoring and showing need.

use std::sync::Arc;

use glassformer_formula::{Formula, Input, Lead};
use glassformer_graph::{Backend, Batch, Capacity, Graph, Leaf, Rows, Shape, Side, Span, State, ValueInfo};
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
}

impl Sequence {
    /// Appends this sequence to `batch`; `rows` is how many rows its source has.
    fn push(&self, batch: &mut Batch<'_>, rows: usize) {
        let source = batch.source.spans.len();
        if rows > 0 {
            batch.source.push_rows(rows, Span::default());
            batch.source.tokens.extend(&self.source);
            batch.source.types.extend(self.types.iter().copied().chain(std::iter::repeat(0)).take(rows));
            batch.source.global.extend((0..rows).map(|i| self.global.contains(&i)));
        }
        if !self.target.is_empty() {
            batch.target.push(&self.target, Span { source, ..Span::default() });
        }
    }
}

/// The outputs of one run over whole sequences.
pub struct Forward {
    graph: Arc<Graph>,
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
        let mut patches = Vec::new();
        let mut batch = batch(model.formula(), sequences, &mut patches)?;
        let given =
            |info: &ValueInfo| if info.shape.rows == Rows::Tokens(Side::Source) { &patches[..] } else { &[] };
        batch.inputs = graph.leaves(Leaf::Input).map(|(_, info)| given(info)).collect();
        let runner = backend.prepare(graph, model, &Capacity::of(&batch))?;
        let mut state = State::default();
        runner.run(&mut state, &batch)?;
        Ok(Self { graph: graph.clone(), state, spans: [batch.source.spans, batch.target.spans] })
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
        self.graph.outputs().iter().map(|(name, _)| name.as_str())
    }

    /// The output `name`: its shape, its number of rows and its numbers, for all sequences together.
    pub fn output(&self, name: &str) -> Option<(Shape, usize, &[f32])> {
        let index = self.graph.output(name)?;
        let shape = self.graph.shape(self.graph.outputs()[index].1);
        Some((shape, self.state.output_rows(index), self.state.output(index)))
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
fn batch(formula: &Formula, sequences: &[Sequence], patches: &mut Vec<f32>) -> Result<Batch<'static>, Error> {
    let mut batch = Batch::default();
    for (request, sequence) in sequences.iter().enumerate() {
        let bad = |what: String, hint: &str| Error::Request { request, what, hint: hint.to_owned() };
        let rows = source_rows(formula, sequence, patches).map_err(|what| bad(what, "check its source"))?;
        if formula.target.is_some() == sequence.target.is_empty() {
            let what =
                if sequence.target.is_empty() { "its target is empty" } else { "the model has no target" };
            return Err(bad(what.to_owned(), "give a target exactly where the model has a decoder"));
        }
        if let Some(place) = sequence.global.iter().find(|&&place| place >= rows) {
            return Err(bad(format!("global position {place} is beyond its {rows} rows"), "count from 0"));
        }
        sequence.push(&mut batch, rows);
    }
    batch.source.pick_all();
    batch.target.pick_all();
    Ok(batch)
}

/// How many rows the source of `sequence` has.
fn source_rows(formula: &Formula, sequence: &Sequence, patches: &mut Vec<f32>) -> Result<usize, String> {
    let tokens = sequence.source.len();
    match formula.source.as_ref().map(|side| &side.input) {
        None if tokens + sequence.patches.len() > 0 => Err("the model has no source".to_owned()),
        None => Ok(0),
        Some(Input::Tokens(_)) if tokens == 0 => Err("its source is empty".to_owned()),
        Some(Input::Tokens(_)) => Ok(tokens),
        Some(Input::Patches(image)) => {
            let numbers = image.size * image.size * image.channels;
            if sequence.patches.is_empty() || !sequence.patches.len().is_multiple_of(numbers) {
                return Err(format!("{} numbers are not patches of {numbers}", sequence.patches.len()));
            }
            let lead = match image.lead {
                Lead::None => 0,
                Lead::Class => 1,
            };
            patches.resize(patches.len() + lead * numbers, 0.0);
            patches.extend(&sequence.patches);
            Ok(lead + sequence.patches.len() / numbers)
        }
    }
}
