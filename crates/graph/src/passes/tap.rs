//! Showing as a pass: makes values outputs, and appends what shows an attention's inside.

use super::rewrite;
use crate::ops::{AttendShow, Shown};
use crate::{Error, Graph, Node, Op, Value};

const SHOWN: [(&str, Shown); 2] = [("scores", Shown::Scores), ("probs", Shown::Probabilities)];

/// `graph` with the values `names` as further outputs, under their names. Besides the graph's own values,
/// `….scores` and `….probs` of every attention can be asked for.
///
/// Nothing else changes: the nodes that were there compute the same bits.
///
/// # Errors
/// If there is no such value.
pub fn tap(graph: &Graph, names: &[&str]) -> Result<Graph, Error> {
    let known = all(graph);
    for &name in names {
        if !known.iter().any(|k| k == name) {
            return Err(graph
                .value(name)
                .err()
                .unwrap_or_else(|| Error::NoSuchValue { name: name.to_owned(), nearest: String::new() }));
        }
    }
    let mut found: Vec<(String, Value)> = Vec::new();
    let tapped = rewrite(
        graph,
        |_| true,
        |build, node, outputs| {
            found.extend(outputs.iter().map(|&v| (build.graph().info(v).name.clone(), v)));
            for (name, shown) in shows(node) {
                if let Op::Attend(attend) = &node.op
                    && names.contains(&name.as_str())
                {
                    let value = build.add(&name, AttendShow { attend: *attend, shown }, &node.inputs)?;
                    found.push((name, value));
                }
            }
            Ok(None)
        },
    )?;
    let mut build = crate::Builder::extend(tapped);
    for &name in names {
        let value = match found.iter().find(|(known, _)| known == name) {
            Some((_, value)) => *value,
            None => build.graph().value(name)?,
        };
        build.output(name, value);
    }
    Ok(build.finish())
}

/// Everything that can be tapped, in the order of computation.
pub fn all(graph: &Graph) -> Vec<String> {
    let leaves = graph.values().iter().filter(|v| matches!(v.origin, crate::Origin::Leaf(_)));
    let mut names: Vec<String> = leaves.map(|v| v.name.clone()).collect();
    for node in graph.nodes() {
        names.extend(shows(node).into_iter().map(|(name, _)| name));
        names.extend(node.outputs.iter().map(|&v| graph.info(v).name.clone()));
    }
    names
}

/// The names under which an attention's inside can be asked for: beside its output.
fn shows(node: &Node) -> Vec<(String, Shown)> {
    let Op::Attend(_) = node.op else { return Vec::new() };
    let beside = |what: &str| match node.name.rsplit_once('.') {
        Some((parent, _)) => format!("{parent}.{what}"),
        None => format!("{}.{what}", node.name),
    };
    SHOWN.map(|(what, shown)| (beside(what), shown)).into()
}
