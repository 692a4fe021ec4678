//! The seam between a graph and what runs it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use glassformer_tensor::Tensor;

use crate::ops::Ids;
use crate::{Batch, Error, Graph, Leaf, Rows, Shape, Side, State};

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
}

/// A prepared graph. Immutable: what changes is in the [`State`].
pub trait Runner: Send + Sync {
    /// The graph that it runs.
    fn graph(&self) -> &Arc<Graph>;

    /// Runs `batch` once; the outputs are then in `state`.
    ///
    /// # Errors
    /// If the batch is larger than the capacity or holds an id beyond its table.
    fn run(&self, state: &mut State, batch: &Batch<'_>) -> Result<(), Error>;
}

/// Where weights come from: a file, a map, a model being trained.
pub trait Constants {
    /// The numbers of the weight `name`, row-major.
    fn get(&self, name: &str) -> Option<Cow<'_, [f32]>>;
}

impl Constants for HashMap<String, Tensor> {
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

    /// The most rows that `rows` can be.
    pub fn count(&self, rows: Rows) -> usize {
        match rows {
            Rows::Fixed(n) => n,
            Rows::Tokens(side) => self.side(side).rows,
            Rows::Memory(side) => self.side(side).memory,
            Rows::Recalled(side) => self.side(side).rows + self.side(side).memory,
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
    classes: Option<(Side, Shape)>,
    stores: Vec<(Side, crate::ops::Which)>,
}

impl Limits {
    /// The demands of `graph`.
    pub fn of(graph: &Graph) -> Self {
        use crate::Op;
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
                Op::Squeeze(op) => {
                    limits.lengths.push((op.side, shape(1).width, graph.info(node.inputs[1]).name.clone()));
                }
                Op::CrossEntropy(op) => limits.classes = Some((op.side, shape(0))),
                Op::Store(op) => {
                    if !limits.stores.contains(&(op.side, op.pages)) {
                        limits.stores.push((op.side, op.pages));
                    }
                }
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
        if let Some((side, logits)) = self.classes {
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

    fn admit_pages(&self, batch: &Batch<'_>, state: &State) -> Result<(), Error> {
        for (side, which) in &self.stores {
            for span in &batch.side(*side).spans {
                let room = which.pages(state).room(span.table);
                if room < span.past + span.len {
                    return Err(Error::Capacity {
                        what: "rows in pages",
                        need: span.past + span.len,
                        have: room,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Reads all weights of `graph`, checked: there, of the right size, finite.
///
/// # Errors
/// The first weight that is not.
fn checked<'a>(
    graph: &Graph,
    weights: &'a dyn Constants,
    mut take: impl FnMut(crate::Value, Cow<'a, [f32]>),
) -> Result<(), Error> {
    for (value, info) in graph.leaves(Leaf::Weight) {
        let shape = info.shape;
        let missing = || Error::MissingWeight { name: info.name.clone(), shape: shape.to_string() };
        let data = weights.get(&info.name).ok_or_else(missing)?;
        let expected = if let Rows::Fixed(rows) = shape.rows { rows * shape.width } else { 0 };
        if data.len() != expected {
            let (name, found) = (info.name.clone(), data.len());
            return Err(Error::WeightSize { name, shape: shape.to_string(), expected, found });
        }
        if let Some((index, &value)) = data.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(Error::NotFinite { name: info.name.clone(), index, value });
        }
        take(value, data);
    }
    Ok(())
}

impl Graph {
    /// Reads all weights of this graph from `weights`: each is there, of the right size, and finite.
    ///
    /// # Errors
    /// The first weight that is not.
    pub fn read_weights<'a>(
        &self,
        weights: &'a dyn Constants,
        take: impl FnMut(crate::Value, Cow<'a, [f32]>),
    ) -> Result<(), Error> {
        checked(self, weights, take)
    }
}
