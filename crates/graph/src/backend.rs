//! The seam between a graph and what runs it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use glassformer_tensor::{Coded, Halves, Tensor};

use crate::{Ask, Batch, Dtype, Error, Graph, Leaders, Leaf, PageLayout, Rows, Shape, Side, State};

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

    /// The weight `name` as it is stored, where that is in 16 bits: for backends that hold it so.
    fn halves(&self, _name: &str) -> Option<Halves<'_>> {
        None
    }

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
