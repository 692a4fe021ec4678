//! How much work a run of a graph is, counted from shapes: what a measurement divides its time by.
//!
//! Counted are products with weights and the two products of attention, two operations for each multiply-add, over the pairs
//! of a query and a key that see each other. Norms, activations, softmax, embeddings and choosing are not counted, whatever
//! they cost: the counted work is what no implementation can leave out.

use crate::ops::{Attend, Keys, Linear, Pattern, Reach};
use crate::{Batch, Graph, Op, Rows};

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

impl Work {
    /// The work of running `graph` over `batch`, where `crossing` tells how many rows of a source are stored in a table.
    pub fn of(graph: &Graph, batch: &Batch<'_>, crossing: impl Fn(usize) -> usize) -> Self {
        let mut work = Self::default();
        for node in graph.nodes() {
            match &node.op {
                Op::Linear(Linear) => {
                    let (x, y) = (graph.shape(node.inputs[0]), graph.shape(node.outputs[0]));
                    work.products += 2.0 * batch.count(y.rows) as f64 * x.width as f64 * y.width as f64;
                }
                Op::Attend(op) => work.attend(op, batch, &crossing),
                _ => {}
            }
        }
        work
    }

    fn attend(&mut self, op: &Attend, batch: &Batch<'_>, crossing: &impl Fn(usize) -> usize) {
        for (s, span) in batch.side(op.side).spans.iter().enumerate() {
            let keys = op.keys_with(batch, crossing, s);
            let seen = (keys.offset..keys.offset + span.len).map(|at| seen(op, at, keys.first, keys.end));
            self.attention += 4.0 * (seen.sum::<usize>() * op.heads * op.size) as f64;
            if let Keys::Pages(..) = op.keys {
                self.stored += (2 * (keys.end - keys.first) * op.key_heads * op.size) as f64;
            }
        }
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

/// How many keys the row at position `at` sees, of those from `first` to `end`; global rows see as much as others here.
fn seen(op: &Attend, at: usize, first: usize, end: usize) -> usize {
    let reach = match op.reach {
        Reach::Both => end,
        Reach::Past => end.min(at + 1),
    };
    let (from, to) = match op.pattern {
        Pattern::Dense => (first, reach),
        Pattern::Window(window) | Pattern::WindowAndGlobal(window) => {
            (first.max(at.saturating_sub(window)), reach.min(at + window + 1))
        }
    };
    to.saturating_sub(from)
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
    use crate::ops::{Relative, Which, Who};
    use crate::{Builder, Shape, Side, Span};

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
        let mut work = Work::default();
        let pages = Keys::Pages(Which::Cache, 0);
        work.attend(&attention(Reach::Past, Pattern::Dense, pages), &batch, &|_| 0);
        let pairs = (11..=16).sum::<usize>();
        assert_eq!(work.attention, (4 * pairs * 4 * 8) as f64);
        assert_eq!(work.stored, f64::from(2 * 16 * 2 * 8));
        let mut windowed = Work::default();
        windowed.attend(&attention(Reach::Past, Pattern::Window(3), pages), &batch, &|_| 0);
        assert_eq!(windowed.attention, f64::from(4 * 6 * 4 * 4 * 8));
        let mut both = Work::default();
        let rows = Keys::Rows(Rows::Tokens(Side::Target));
        both.attend(&attention(Reach::Both, Pattern::Dense, rows), &batch, &|_| 0);
        assert_eq!((both.attention, both.stored), (f64::from(4 * 6 * 6 * 4 * 8), 0.0));
    }
}
