//! Recomputation as a pass (Chen et al. 2016): what a layer made on the way forward is not kept for the way back but made
//! again, so that memory holds the inside of one layer at a time, for one more forward pass of work.

use std::collections::{HashMap, HashSet};

use glassformer_graph::{Builder, Error, Graph, Node, Value};

use super::leaves;

/// The node with which the way back begins; the gradient pass appends it.
const SEED: &str = "grad.seed";

/// `graph`, which is a gradient graph, where the way back reads copies of what layers have inside. The outputs are the same
/// bits: every operation, dropout too, gives the same numbers again.
///
/// # Errors
/// If a node does not fit, which is a mistake here.
pub(crate) fn recompute(graph: &Graph) -> Result<Graph, Error> {
    let nodes = graph.nodes();
    let turn = nodes.iter().position(|node| node.name == SEED).unwrap_or(nodes.len());
    // Which layer each value of the way forward is inside of. What the rest of the way forward reads of a layer is kept.
    let mut inside: HashMap<Value, &str> = HashMap::new();
    for node in &nodes[..turn] {
        for &value in &node.outputs {
            inside.extend(layer(&node.name).map(|layer| (value, layer)));
        }
    }
    let kept: HashSet<Value> = graph.outputs().iter().map(|(_, value)| *value).collect();
    let border = |value: &Value, reader: Option<&str>| inside.get(value).copied() != reader;
    let mut borders: HashSet<Value> = kept;
    for node in &nodes[..turn] {
        let reader = layer(&node.name);
        borders.extend(node.inputs.iter().filter(|value| border(value, reader)));
    }

    let (mut build, mut new) = leaves(graph)?;
    let mut again: HashMap<Value, Value> = HashMap::new();
    let mut done: HashSet<&str> = HashSet::new();
    for (index, node) in nodes.iter().enumerate() {
        if index >= turn {
            let wanted: Vec<&str> = node
                .inputs
                .iter()
                .filter(|value| !borders.contains(value))
                .filter_map(|value| inside.get(value).copied())
                .collect();
            for name in wanted {
                if done.insert(name) {
                    let layer = needed(graph, (name, turn), &borders);
                    repeat(&layer, &mut build, (&new, &borders, &mut again))?;
                }
            }
        }
        let read = |value: &Value| match again.get(value) {
            Some(copy) if index >= turn => *copy,
            _ => new[value],
        };
        let inputs: Vec<Value> = node.inputs.iter().map(read).collect();
        let outputs = build.add_all(&node.name, node.op.clone(), &inputs)?;
        new.extend(node.outputs.iter().copied().zip(outputs));
    }
    for (name, value) in graph.outputs() {
        build.output(name, new[value]);
    }
    Ok(build.finish())
}

/// The nodes of the layer `name` that the way back needs again, in their order: not those that only lead out of the layer.
fn needed<'g>(graph: &'g Graph, (name, turn): (&str, usize), borders: &HashSet<Value>) -> Vec<&'g Node> {
    let (forward, back) = graph.nodes().split_at(turn);
    let mut wanted: HashSet<Value> = back.iter().flat_map(|node| node.inputs.iter().copied()).collect();
    let mut kept = Vec::new();
    for node in forward.iter().rev().filter(|node| layer(&node.name) == Some(name)) {
        if node.outputs.iter().any(|value| wanted.contains(value) && !borders.contains(value)) {
            wanted.extend(&node.inputs);
            kept.push(node);
        }
    }
    kept.reverse();
    kept
}

/// Appends nodes once more; what lies on the borders of their layer is there already.
fn repeat(
    nodes: &[&Node],
    build: &mut Builder,
    (new, borders, again): (&HashMap<Value, Value>, &HashSet<Value>, &mut HashMap<Value, Value>),
) -> Result<(), Error> {
    for node in nodes {
        let read = |value: &Value| again.get(value).copied().unwrap_or_else(|| new[value]);
        let inputs: Vec<Value> = node.inputs.iter().map(read).collect();
        let outputs = build.add_all(&format!("again.{}", node.name), node.op.clone(), &inputs)?;
        let copies = node.outputs.iter().copied().zip(outputs);
        again.extend(copies.filter(|(value, _)| !borders.contains(value)));
    }
    Ok(())
}

/// The layer that a node belongs to: the side and the number that its name begins with.
fn layer(name: &str) -> Option<&str> {
    let (side, rest) = name.split_once('.')?;
    let number = rest.split('.').next()?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| &name[..side.len() + 1 + number.len()])
}
