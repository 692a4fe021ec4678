//! How much work a run of a graph is, counted from shapes: what a measurement divides its time by.
//!
//! Counted are products with weights and the two products of attention, two operations for each multiply-add, over the pairs
//! of a query and a key that see each other. Norms, activations, softmax, embeddings and choosing are not counted, whatever
//! they cost: the counted work is what no implementation can leave out.

use crate::ops::Linear;
use crate::{At, Batch, Graph, Op, Rows};

/// The work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations of products with weights.
    pub products: f64,
    /// Operations of attention.
    pub attention: f64,
    /// Numbers of stored keys and values that are read, once for each sequence.
    pub stored: f64,
}

/// A batch whose work is counted.
pub struct Tally<'a> {
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// How many rows of a source are stored in a table.
    pub crossing: &'a dyn Fn(usize) -> usize,
    /// The work so far.
    pub work: Work,
}

impl Work {
    /// The work of running `graph` over `batch`, where `crossing` tells how many rows of a source are stored in a table.
    pub fn of(graph: &Graph, batch: &Batch<'_>, crossing: impl Fn(usize) -> usize) -> Self {
        let mut tally = Tally { batch, crossing: &crossing, work: Self::default() };
        for node in graph.nodes() {
            node.op.work(&At { graph, node }, &mut tally);
        }
        tally.work
    }

    /// This work, so many times.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        let Self { products, attention, stored } = self;
        Self { products: products * count, attention: attention * count, stored: stored * count }
    }
}

impl std::ops::Add for Work {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            products: self.products + other.products,
            attention: self.attention + other.attention,
            stored: self.stored + other.stored,
        }
    }
}

/// The weights that products of `graph` multiply with, each once: its name, outputs and inputs.
pub fn multiplied(graph: &Graph) -> Vec<(&str, usize, usize)> {
    let mut found: Vec<(&str, usize, usize)> = Vec::new();
    for node in graph.nodes() {
        if let Op::Linear(Linear) = node.op {
            let (info, shape) = (graph.info(node.inputs[1]), graph.shape(node.inputs[1]));
            if let Rows::Fixed(out) = shape.rows
                && found.iter().all(|(name, ..)| *name != info.name)
            {
                found.push((&info.name, out, shape.width));
            }
        }
    }
    found
}
