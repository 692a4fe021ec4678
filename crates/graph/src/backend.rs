//! The seam between a graph and what runs it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use glassformer_tensor::{Coded, Tensor};

use crate::ops::{Attend, Ids, Keys, Squeeze, SqueezeGrad, What, Which};
use crate::{Ask, Batch, Dtype, Error, Graph, Leaders, Leaf, Op, PageLayout, Rows, Shape, Side, Slot, State};

/// Turns graphs into something that runs.
pub trait Backend: Send + Sync {
    /// Prepares `graph` for batches up to `capacity`: memory is laid out and weights are packed, once.
    ///
    /// # Errors
    /// If a weight is missing, of another size, or not finite.
    fn prepare(
        &self,
        graph: &Arc<Graph>,
        weights: &dyn Constants,
        capacity: &Capacity,
    ) -> Result<Box<dyn Runner>, Error>;

    /// How many threads it computes on. What is done between its runs takes no more.
    fn threads(&self) -> usize {
        1
    }
}

/// A prepared graph. Immutable: what changes is in the [`State`], whose memory belongs to the backend.
pub trait Runner: Send + Sync {
    /// The graph that it runs.
    fn graph(&self) -> &Arc<Graph>;

    /// Runs `batch` once. The outputs stay in the memory of `state` until the next run.
    ///
    /// # Errors
    /// If the batch is larger than the capacity or holds an id beyond its table.
    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error>;

    /// Brings `rows` of output `output` of the last run to the host, row-major: borrowed where the host can see that memory.
    ///
    /// # Errors
    /// If the last run of `state` was another backend's.
    fn read<'s>(&self, state: &'s State, output: usize, rows: Range<usize>) -> Result<Cow<'s, [f32]>, Error>;

    /// All rows of output `output` of the last run; see [`Runner::read`].
    ///
    /// # Errors
    /// As for [`Runner::read`].
    fn output<'s>(&self, state: &'s State, output: usize) -> Result<Cow<'s, [f32]>, Error> {
        self.read(state, output, 0..state.rows(output))
    }

    /// The largest numbers of each row of output `output` of the last run, so that a search for tokens need not read a whole
    /// vocabulary of scores.
    ///
    /// # Errors
    /// As for [`Runner::read`].
    fn leaders(&self, state: &State, output: usize, ask: Ask, into: &mut Leaders) -> Result<(), Error> {
        let width = self.graph().shape(self.graph().outputs()[output].1).width;
        into.find(ask, &self.output(state, output)?, width);
        Ok(())
    }

    /// Writes the kept leaf `name` of `state`, row-major; see [`Leaf::Kept`].
    ///
    /// # Errors
    /// If the memory is another backend's, or there is none.
    fn write(&self, state: &mut State, name: &str, numbers: &[f32]) -> Result<(), Error>;

    /// Brings the kept leaf `name` of `state` to the host; see [`Runner::read`].
    ///
    /// # Errors
    /// If it was never written.
    fn kept<'s>(&self, state: &'s State, name: &str) -> Result<Cow<'s, [f32]>, Error>;

    /// The type in which it keeps keys and values in pages of that type; it can always keep them in `f32`.
    fn keeps(&self) -> Dtype {
        Dtype::F32
    }

    /// How many bytes a page of `layout` takes.
    fn page_bytes(&self, layout: &PageLayout) -> usize;
}

/// Where weights come from: a file, a map, a model being trained.
pub trait Constants: Sync {
    /// The numbers of the weight `name`, row-major.
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>>;

    /// The weight `name` as it is stored, where that is in few bits and row by row: for backends that compute on it so.
    fn coded(&self, _name: &str) -> Option<Box<dyn Coded + '_>> {
        None
    }

    /// A number that stands for exactly these weights, where they never change: what gives the same one gives the same
    /// weights, so a backend may keep what it made of them for the next graph.
    fn identity(&self) -> Option<u64> {
        None
    }
}

impl<S: std::hash::BuildHasher + Sync> Constants for HashMap<String, Tensor, S> {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        HashMap::get(self, name).map(|tensor| Cow::Borrowed(tensor.data()))
    }
}

impl Constants for BTreeMap<String, Tensor> {
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>> {
        BTreeMap::get(self, name).map(|tensor| Cow::Borrowed(tensor.data()))
    }
}

/// The most that a batch may bring of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideCapacity {
    /// Rows in all.
    pub rows: usize,
    /// Sequences.
    pub sequences: usize,
    /// Rows that the head is asked about.
    pub picked: usize,
    /// Remembered rows in all (Transformer-XL).
    pub memory: usize,
    /// Keys that one row can look at, stored ones included.
    pub keys: usize,
}

/// The most that a batch may bring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Of the encoder's rows.
    pub source: SideCapacity,
    /// Of the decoder's rows.
    pub target: SideCapacity,
}

impl Capacity {
    /// Of `side`.
    pub fn side(&self, side: Side) -> &SideCapacity {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    /// Just enough for `batch`.
    pub fn of(batch: &Batch<'_>) -> Self {
        let side = |side: Side| SideCapacity {
            rows: batch.count(Rows::Tokens(side)),
            sequences: batch.count(Rows::Sequences(side)),
            picked: batch.count(Rows::Picked(side)),
            memory: batch.count(Rows::Memory(side)),
            keys: batch.count(Rows::Distances(side)),
        };
        Self { source: side(Side::Source), target: side(Side::Target) }
    }

    /// Enough for whatever either is enough for.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let side = |a: SideCapacity, b: SideCapacity| SideCapacity {
            rows: a.rows.max(b.rows),
            sequences: a.sequences.max(b.sequences),
            picked: a.picked.max(b.picked),
            memory: a.memory.max(b.memory),
            keys: a.keys.max(b.keys),
        };
        Self { source: side(self.source, other.source), target: side(self.target, other.target) }
    }

    /// Whether this is enough for whatever `other` is enough for.
    pub fn covers(&self, other: &Self) -> bool {
        self.union(other) == *self
    }

    /// The most rows that `rows` can be.
    pub fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Fixed(n) => n,
            Rows::Tokens(side) => self.side(side).rows,
            Rows::Memory(side) => self.side(side).memory,
            Rows::Recalled(side) => self.side(side).rows + self.side(side).memory,
            Rows::Remembered(side, most) => {
                let SideCapacity { rows, sequences, memory, .. } = *self.side(side);
                (sequences.saturating_mul(most)).min(rows + memory)
            }
            Rows::Low(side, rank) => self.side(side).sequences * rank,
            Rows::Sequences(side) => self.side(side).sequences,
            Rows::Picked(side) => self.side(side).picked,
            Rows::Distances(side) => self.side(side).keys,
            Rows::Pairs(side) => self.side(side).rows * self.source.keys.max(self.target.keys),
        }
    }

    /// Refuses a batch that is larger.
    ///
    /// # Errors
    /// The first thing of which there is too much.
    pub fn admit(&self, batch: &Batch<'_>) -> Result<(), Error> {
        let need = Self::of(batch);
        for (need, have) in [(need.source, self.source), (need.target, self.target)] {
            let pairs = [
                ("rows", need.rows, have.rows),
                ("sequences", need.sequences, have.sequences),
                ("rows for the head", need.picked, have.picked),
                ("remembered rows", need.memory, have.memory),
                ("keys in one sequence", need.keys, have.keys),
            ];
            for (what, need, have) in pairs {
                if need > have {
                    return Err(Error::Capacity { what, need, have });
                }
            }
        }
        Ok(())
    }
}

/// What a graph demands of any batch: ids within their tables, stored rows within their pages, inputs of the right length.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    tables: Vec<(Ids, usize, String)>,
    clusters: Vec<(Side, usize, String)>,
    inputs: Vec<(String, Shape)>,
    lengths: Vec<(Side, usize, String)>,
    classes: Vec<(Side, Shape)>,
    /// Sides whose labels are two places of each sequence, and the rows that have scores.
    places: Vec<(Side, Rows)>,
    /// Sides whose sequences belong together two by two.
    pairs: Vec<Side>,
    /// What slots of pages must be.
    slots: Vec<(Which, usize, Slot)>,
    /// Pages with room for the rows of this side, their past included.
    own: Vec<(Side, Which)>,
    /// Whose rows look at a source that was stored before.
    stored: Vec<Side>,
    /// Whose rows look at rows of the other side.
    crossings: Vec<(Side, Side)>,
    /// The type of pages that its attentions can read, besides `f32`.
    keeps: Dtype,
}

impl Limits {
    /// The demands of `graph`.
    pub fn of(graph: &Graph) -> Self {
        let mut limits = Self::default();
        limits.inputs.extend(graph.leaves(Leaf::Input).map(|(_, info)| (info.name.clone(), info.shape)));
        for node in graph.nodes() {
            let shape = |k: usize| graph.shape(node.inputs[k]);
            match &node.op {
                Op::Lookup(op) => {
                    let name = graph.info(node.inputs[0]).name.clone();
                    if let Ids::Cluster { side, to, .. } = op.ids {
                        limits.clusters.push((side, to, name));
                    } else if let Rows::Fixed(rows) = shape(0).rows {
                        limits.tables.push((op.ids, rows, name));
                    }
                }
                Op::LookupGrad(op) => {
                    if let Rows::Fixed(rows) = op.table.rows {
                        limits.tables.push((op.ids, rows, node.name.clone()));
                    }
                }
                Op::Squeeze(Squeeze { side }) | Op::SqueezeGrad(SqueezeGrad { side }) => {
                    limits.lengths.push((*side, shape(1).width, graph.info(node.inputs[1]).name.clone()));
                }
                Op::SpanLoss(op) => note(&mut limits.places, (op.side, shape(0).rows)),
                Op::SpanLossGrad(op) => note(&mut limits.places, (op.of.side, shape(0).rows)),
                Op::PairLoss(op) => note(&mut limits.pairs, op.side),
                Op::PairLossGrad(op) => note(&mut limits.pairs, op.of.side),
                Op::Correct(op) => match op.what {
                    What::Rows => note(&mut limits.classes, (op.side, shape(0))),
                    What::Spans => note(&mut limits.places, (op.side, shape(0).rows)),
                    What::Pairs => note(&mut limits.pairs, op.side),
                },
                Op::CrossEntropy(op) => note(&mut limits.classes, (op.side, shape(0))),
                Op::CrossEntropyGrad(op) => note(&mut limits.classes, (op.of.side, shape(0))),
                Op::Store(op) => {
                    note(&mut limits.slots, (op.pages, op.slot, op.heads));
                    note(&mut limits.own, (op.side, op.pages));
                }
                Op::Attend(op) => limits.attend(op),
                Op::AttendGrad(op) => limits.attend(&op.attend),
                Op::AttendShow(op) => limits.attend(&op.attend),
                _ => {}
            }
        }
        // Only the last cluster bounds the vocabulary.
        for side in [Side::Source, Side::Target] {
            let last = limits.clusters.iter().filter(|(of, ..)| *of == side).max_by_key(|(_, to, _)| *to);
            limits.tables.extend(last.map(|(side, to, name)| (Ids::Tokens(*side), *to, name.clone())));
        }
        limits
    }

    fn attend(&mut self, op: &Attend) {
        match op.keys {
            Keys::Pages(which, slot) => {
                note(&mut self.slots, (which, slot, Slot { heads: op.key_heads, size: op.size }));
                match which {
                    Which::Cache => note(&mut self.own, (op.side, which)),
                    Which::Crossing => note(&mut self.stored, op.side),
                }
            }
            Keys::Rows(rows) => {
                if let Some(other) = rows.side().filter(|&other| other != op.side) {
                    note(&mut self.crossings, (op.side, other));
                }
            }
        }
    }

    /// The same for a runner that keeps keys and values in `dtype` ([`Runner::keeps`]).
    #[must_use]
    pub fn keeping(self, dtype: Dtype) -> Self {
        Self { keeps: dtype, ..self }
    }

    /// Refuses a batch that the graph cannot run.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn admit(&self, batch: &Batch<'_>, state: &State) -> Result<(), Error> {
        batch.check()?;
        let bad = |what: String, hint: &str| Err(Error::Batch { what, hint: hint.to_owned() });
        for (ids, rows, table) in &self.tables {
            if let Some((row, id)) = ids.beyond(batch, *rows) {
                return match ids {
                    Ids::Positions { side, .. } => bad(
                        format!("position {id} of {side} row {row} is beyond the {rows} rows of {table}"),
                        "shorten the sequence",
                    ),
                    Ids::Tokens(side) | Ids::Cluster { side, .. } | Ids::Types(side) => bad(
                        format!("id {id} of {side} row {row} is beyond the {rows} rows of {table}"),
                        "use ids of this model's vocabulary",
                    ),
                };
            }
        }
        for (ids, _, table) in &self.tables {
            if let Ids::Tokens(side) = ids
                && batch.side(*side).tokens.len() != batch.side(*side).rows()
            {
                return bad(format!("the {side} rows have no token ids for {table}"), "give token ids");
            }
        }
        for (side, most, name) in &self.lengths {
            if let Some(span) = batch.side(*side).spans.iter().find(|span| span.len > *most) {
                return bad(
                    format!("a {side} sequence of {} rows is beyond the {most} columns of {name}", span.len),
                    "shorten the sequence",
                );
            }
        }
        for &(side, logits) in &self.classes {
            let (packed, counted) = (batch.side(side), batch.count(logits.rows));
            if packed.labels.len() != counted || packed.weights.len() != counted {
                return bad(
                    format!(
                        "{} labels and {} weights for {counted} rows",
                        packed.labels.len(),
                        packed.weights.len()
                    ),
                    "give one of each for every row of the loss",
                );
            }
            if let Some(label) = packed.labels.iter().find(|&&label| label as usize >= logits.width) {
                return bad(
                    format!("label {label} is beyond the {} classes", logits.width),
                    "check the labels",
                );
            }
        }
        self.admit_sequences(batch)?;
        for &(side, other) in &self.crossings {
            let sources = batch.side(other).spans.len();
            if let Some(span) = batch.side(side).spans.iter().find(|span| span.source >= sources) {
                return bad(
                    format!("a {side} sequence looks at {other} sequence {}, of {sources}", span.source),
                    "give the sequences that are looked at in the same batch",
                );
            }
        }
        self.admit_pages(batch, state)?;
        if batch.inputs.len() != self.inputs.len() {
            return bad(
                format!("{} inputs for a graph with {}", batch.inputs.len(), self.inputs.len()),
                "give each of the graph's inputs, in order",
            );
        }
        for ((name, shape), given) in self.inputs.iter().zip(&batch.inputs) {
            let need = batch.count(shape.rows) * shape.width;
            if given.len() != need {
                return bad(
                    format!("the input {name} has {} numbers, not {need}", given.len()),
                    "check its shape",
                );
            }
        }
        Ok(())
    }

    /// Refuses labels and weights that are not those of whole sequences, where a loss looks at these.
    fn admit_sequences(&self, batch: &Batch<'_>) -> Result<(), Error> {
        let bad = |what: String, hint: &str| Err(Error::Batch { what, hint: hint.to_owned() });
        for &(side, rows) in &self.places {
            let packed = batch.side(side);
            let count = packed.spans.len();
            if batch.count(rows) != packed.rows() {
                let (found, rows) = (batch.count(rows), packed.rows());
                return bad(format!("scores of {found} of {rows} {side} rows"), "pick all rows");
            }
            if packed.labels.len() != 2 * count || packed.weights.len() != count {
                let (labels, weights) = (packed.labels.len(), packed.weights.len());
                return bad(
                    format!(
                        "{labels} labels and {weights} weights for {count} sequences with two places each"
                    ),
                    "give two labels and one weight for every sequence",
                );
            }
            let places = packed.labels.chunks(2).zip(&packed.spans);
            let mut places =
                places.flat_map(|(labels, span)| labels.iter().map(move |&label| (label, span.len)));
            if let Some((label, _)) = places.find(|&(label, len)| label as usize >= len) {
                return bad(format!("place {label} is beyond its {side} sequence"), "check the labels");
            }
        }
        for &side in &self.pairs {
            let packed = batch.side(side);
            if packed.spans.len() % 2 == 1 || packed.weights.len() != packed.spans.len() / 2 {
                let (sequences, weights) = (packed.spans.len(), packed.weights.len());
                return bad(
                    format!("{sequences} sequences and {weights} weights where sequences come in pairs"),
                    "give pairs of sequences, and one weight for every pair",
                );
            }
        }
        Ok(())
    }

    fn admit_pages(&self, batch: &Batch<'_>, state: &State) -> Result<(), Error> {
        for (which, slot, heads) in &self.slots {
            let layout = which.pages(state).layout();
            let dtype = layout.dtype();
            if ![Dtype::F32, self.keeps].contains(&dtype) {
                return Err(Error::Batch {
                    what: format!(
                        "the pages are for keys and values in {dtype}, and these are in {}",
                        self.keeps
                    ),
                    hint: "make the state's pages with the layout of this model".to_owned(),
                });
            }
            let found = layout.slots().get(*slot);
            if found != Some(heads) {
                return Err(Error::Batch {
                    what: format!("slot {slot} of the pages is {found:?} where {heads:?} is needed"),
                    hint: "make the state's pages with the layout of this model".to_owned(),
                });
            }
        }
        let room = |have: usize, need: usize| {
            if have < need { Err(Error::Capacity { what: "rows in pages", need, have }) } else { Ok(()) }
        };
        for (side, which) in &self.own {
            for span in &batch.side(*side).spans {
                room(which.pages(state).room(span.table), span.past + span.len)?;
            }
        }
        for side in &self.stored {
            for span in &batch.side(*side).spans {
                let have = state.crossing.room(span.source);
                room(have, if have == 0 { 1 } else { state.crossing.len(span.source) })?;
            }
        }
        Ok(())
    }
}

/// Appends what is not there yet.
fn note<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

impl Graph {
    /// Reads all weights of this graph from `weights`: each is there, of the right size, and finite.
    ///
    /// # Errors
    /// The first weight that is not.
    pub fn read_weights<'a>(
        &self,
        weights: &'a dyn Constants,
        mut take: impl FnMut(crate::Value, Cow<'a, [f32]>),
    ) -> Result<(), Error> {
        for value in self.weights() {
            take(value, self.read_weight(weights, value)?);
        }
        Ok(())
    }

    /// Its weights, the largest first: a weight is there twice while it is prepared, and nothing else is there yet.
    pub fn weights(&self) -> Vec<crate::Value> {
        let mut leaves: Vec<_> = self.leaves(Leaf::Weight).collect();
        leaves.sort_by_key(|(_, info)| std::cmp::Reverse(size(info.shape)));
        leaves.into_iter().map(|(value, _)| value).collect()
    }

    /// Reads one weight: it is there, of the right size, and finite.
    ///
    /// # Errors
    /// If it is not.
    pub fn read_weight<'a>(
        &self,
        weights: &'a dyn Constants,
        value: crate::Value,
    ) -> Result<Cow<'a, [f32]>, Error> {
        let crate::ValueInfo { name, shape, .. } = self.info(value);
        let missing = || Error::MissingWeight { name: name.clone(), shape: shape.to_string() };
        let data = weights.get(name).ok_or_else(missing)?;
        let (expected, found) = (size(*shape), data.len());
        if found != expected {
            return Err(Error::WeightSize { name: name.clone(), shape: shape.to_string(), expected, found });
        }
        // Lines at once, which is quick; then one by one, in a line that has one.
        let strange = |line: &[f32]| line.iter().fold(false, |found, x| found | !x.is_finite());
        if let Some(line) = data.chunks(LINE).position(strange) {
            let mut numbers = data.iter().enumerate().skip(line * LINE);
            if let Some((index, &value)) = numbers.find(|(_, x)| !x.is_finite()) {
                return Err(Error::NotFinite { name: name.clone(), index, value });
            }
        }
        Ok(data)
    }
}

/// Numbers that are looked at together.
const LINE: usize = 1024;

fn size(shape: Shape) -> usize {
    if let Rows::Fixed(rows) = shape.rows { rows * shape.width } else { 0 }
}
