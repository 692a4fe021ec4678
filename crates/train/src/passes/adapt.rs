//! Low-rank adaptation as a pass (Hu et al. 2021): a matrix stays as it is, and a product of two narrow ones learns beside it.

use glassformer_graph::ops::{Add, Linear, Scale};
use glassformer_graph::{Builder, Error, Graph, Leaf, Node, Op, Origin, Rows, Shape, Value};

use super::leaves;

/// What stands beside a matrix W `[out, in]`: A `[rank, in]` and B `[out, rank]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Adapter {
    /// The name of W.
    pub of: String,
    /// How many numbers the rows that W is given have.
    pub width: usize,
    /// How many numbers it makes of them.
    pub out: usize,
}

impl Adapter {
    /// The name of A.
    pub fn down(&self) -> String {
        format!("{}.down", self.of)
    }

    /// The name of B.
    pub fn up(&self) -> String {
        format!("{}.up", self.of)
    }
}

/// `graph` where each `x Wᵀ` whose W comes from outside and is `wanted` by name becomes `x Wᵀ + factor · x Aᵀ Bᵀ`, with A and B
/// as new leaves; and what was put in, in the order in which the graph meets it.
///
/// # Errors
/// If a node does not fit, which is a mistake here.
pub(crate) fn adapt(
    graph: &Graph,
    wanted: impl Fn(&str) -> bool,
    rank: usize,
    factor: f32,
) -> Result<(Graph, Vec<Adapter>), Error> {
    let mut adapters: Vec<Adapter> = Vec::new();
    let (mut build, mut new) = leaves(graph)?;
    for node in graph.nodes() {
        let inputs: Vec<Value> = node.inputs.iter().map(|value| new[value]).collect();
        let mut outputs = build.add_all(&node.name, node.op.clone(), &inputs)?;
        if let Some(adapter) = beside(&build, node, &inputs).filter(|adapter| wanted(&adapter.of)) {
            let down = beside_of(&mut build, inputs[1], &adapter.down(), Shape::fixed(rank, adapter.width))?;
            let up = beside_of(&mut build, inputs[1], &adapter.up(), Shape::fixed(adapter.out, rank))?;
            let y = build.add(&format!("{}.down", node.name), Linear, &[inputs[0], down])?; // [rows, rank]
            let y = build.add(&format!("{}.up", node.name), Linear, &[y, up])?; // [rows, out]
            let y = build.add(&format!("{}.scaled", node.name), Scale::all(factor), &[y])?;
            outputs[0] = build.add(&format!("{}.adapted", node.name), Add, &[outputs[0], y])?;
            if !adapters.contains(&adapter) {
                adapters.push(adapter);
            }
        }
        new.extend(node.outputs.iter().copied().zip(outputs));
    }
    for (name, value) in graph.outputs() {
        build.output(name, new[value]);
    }
    Ok((build.finish(), adapters))
}

/// A leaf of the same kind as the matrix `of`.
fn beside_of(build: &mut Builder, of: Value, name: &str, shape: Shape) -> Result<Value, Error> {
    match build.graph().info(of).origin {
        Origin::Leaf(Leaf::Kept) => build.kept(name, shape),
        Origin::Leaf(Leaf::Weight | Leaf::Input) | Origin::Node(..) => build.input(name, shape),
    }
}

/// What could stand beside the matrix of `node`, where it is a product with one that comes from outside.
fn beside(build: &Builder, node: &Node, inputs: &[Value]) -> Option<Adapter> {
    let (Op::Linear(_), Some(&w)) = (&node.op, inputs.get(1)) else { return None };
    let info = build.graph().info(w);
    let (Origin::Leaf(_), Rows::Fixed(out)) = (info.origin, info.shape.rows) else { return None };
    Some(Adapter { of: info.name.clone(), width: info.shape.width, out })
}
