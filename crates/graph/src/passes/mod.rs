//! Passes: from a graph to a graph. Training, showing, editing and measuring are these, so every backend has them for nothing.

pub mod edit;
pub mod given;
pub mod grad;
pub mod moments;
pub mod tap;

use std::collections::HashMap;

use crate::{Builder, Error, Graph, Leaf, Node, Op, Origin, Value};

/// A part of a graph that a copy may leave out.
#[derive(Clone, Copy)]
enum Piece {
    Leaf(Value),
    Node(usize),
}

/// Copies `graph` node by node, what `keep` keeps of it. After each node, `then` may append more and give values that later nodes shall use in place
/// of the node's outputs. Outputs of the graph stay the outputs, replaced alike.
fn rewrite(
    graph: &Graph,
    keep: impl Fn(Piece) -> bool,
    mut then: impl FnMut(&mut Builder, &Node, &[Value]) -> Result<Option<Vec<Value>>, Error>,
) -> Result<Graph, Error> {
    let mut build = Builder::new();
    let mut new: HashMap<Value, Value> = HashMap::new();
    for (index, info) in graph.values().iter().enumerate().filter(|(at, _)| keep(Piece::Leaf(Value(*at)))) {
        let copy = match info.origin {
            Origin::Leaf(Leaf::Weight) => build.weight(&info.name, info.shape)?,
            Origin::Leaf(Leaf::Input) => build.input(&info.name, info.shape)?,
            Origin::Leaf(Leaf::Kept) => build.kept(&info.name, info.shape)?,
            Origin::Node(..) => continue,
        };
        new.insert(Value(index), copy);
    }
    for (index, node) in graph.nodes().iter().enumerate() {
        if !keep(Piece::Node(index)) {
            continue;
        }
        let inputs: Vec<Value> = node.inputs.iter().map(|v| new[v]).collect();
        let outputs = build.add_all(&node.name, node.op.clone(), &inputs)?;
        let copied = Node { inputs, outputs: outputs.clone(), ..node.clone() };
        let used = then(&mut build, &copied, &outputs)?.unwrap_or(outputs);
        new.extend(node.outputs.iter().copied().zip(used));
    }
    for (name, value) in graph.outputs() {
        build.output(name, new[value]);
    }
    for update in graph.updates() {
        build.update(new[&update.kept], new[&update.new])?;
    }
    Ok(build.finish())
}

/// Without the nodes that no output and no update needs. Storing is always needed: later runs read it.
fn prune(graph: &Graph) -> Result<Graph, Error> {
    let mut needed = vec![false; graph.values().len()];
    graph.outputs().iter().for_each(|(_, value)| needed[value.0] = true);
    graph.updates().iter().for_each(|update| needed[update.new.0] = true);
    let mut keep = vec![false; graph.nodes().len()];
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        keep[index] = matches!(node.op, Op::Store(_)) || node.outputs.iter().any(|v| needed[v.0]);
        if keep[index] {
            node.inputs.iter().for_each(|v| needed[v.0] = true);
        }
    }
    let keep = |piece| match piece {
        Piece::Leaf(_) => true,
        Piece::Node(index) => keep[index],
    };
    rewrite(graph, keep, |_, _, _| Ok(None))
}
