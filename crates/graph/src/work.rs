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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attend, Keys, Pattern, Reach, Relative, Which, Who};
    use crate::{Builder, Node, Operation, Shape, Side, Span};

    fn attention(reach: Reach, pattern: Pattern, keys: Keys) -> Attend {
        Attend {
            side: Side::Target,
            heads: 4,
            key_heads: 2,
            size: 8,
            scale: 1.0,
            reach,
            pattern,
            who: Who::Every,
            relative: Relative::None,
            keys,
        }
    }

    #[test]
    fn products_count_two_operations_for_each_weight_and_row() {
        let mut build = Builder::new();
        let x = build.weight("x", Shape::fixed(7, 5)).unwrap();
        let w = build.weight("w", Shape::fixed(3, 5)).unwrap();
        let y = build.add("y", Linear, &[x, w]).unwrap();
        build.output("y", y);
        let graph = build.finish();
        let work = Work::of(&graph, &Batch::default(), |_| 0);
        assert_eq!(work, Work { products: 2.0 * 7.0 * 5.0 * 3.0, ..Work::default() });
        assert_eq!(multiplied(&graph), [("w", 3, 5)]);
    }

    #[test]
    fn attention_counts_the_pairs_that_see_each_other() {
        let mut batch = Batch::default();
        batch.target.push(&[1; 6], Span { past: 10, ..Span::default() });
        let of = |attend: Attend| {
            let graph = Graph::default();
            let node =
                Node { name: String::new(), op: attend.into(), inputs: Vec::new(), outputs: Vec::new() };
            let mut tally = Tally { batch: &batch, crossing: &|_| 0, work: Work::default() };
            attend.work(&At { graph: &graph, node: &node }, &mut tally);
            tally.work
        };
        let pages = Keys::Pages(Which::Cache, 0);
        let work = of(attention(Reach::Past, Pattern::Dense, pages));
        let pairs = (11..=16).sum::<usize>();
        assert_eq!(work.attention, (4 * pairs * 4 * 8) as f64);
        assert_eq!(work.stored, f64::from(2 * 16 * 2 * 8));
        let windowed = of(attention(Reach::Past, Pattern::Window(3), pages));
        assert_eq!(windowed.attention, f64::from(4 * 6 * 4 * 4 * 8));
        let rows = Keys::Rows(Rows::Tokens(Side::Target));
        let both = of(attention(Reach::Both, Pattern::Dense, rows));
        assert_eq!((both.attention, both.stored), (f64::from(4 * 6 * 6 * 4 * 8), 0.0));
    }
}
