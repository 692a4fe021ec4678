//! Values from outside as a pass: a run that begins in the middle, with numbers that another run left or that somebody changed.

use super::{Piece, prune, rewrite};
use crate::{Error, Graph, Node, Origin, Rows, Value};

/// What the input is called that stands for the value `name`.
pub fn name(value: &str) -> String {
    format!("{value}.given")
}

/// `graph` where all that read one of `values` read an input instead, whose name is [`name`] of it. What nothing needs any more is left
/// out, weights too, so that a run begins where its numbers are given.
///
/// # Errors
/// If there is no such value, or it comes from outside already.
pub fn given(graph: &Graph, values: &[&str]) -> Result<Graph, Error> {
    for &value in values {
        let wanted = graph.value(value)?;
        if let Origin::Leaf(_) = graph.info(wanted).origin {
            let why = "it comes from outside; change what is given".to_owned();
            return Err(Error::Shape { node: value.to_owned(), why });
        }
    }
    let fed = rewrite(
        graph,
        |_| true,
        |build, _, outputs| {
            let mut used = outputs.to_vec();
            for (used, &made) in used.iter_mut().zip(outputs) {
                let made_name = build.graph().info(made).name.clone();
                if values.contains(&made_name.as_str()) {
                    *used = build.input(&name(&made_name), build.shape(made))?;
                }
            }
            Ok(Some(used))
        },
    )?;
    let pruned = prune(&fed)?;
    let read = read(&pruned);
    let keep = |piece| match piece {
        Piece::Leaf(value) => read[value.0],
        Piece::Node(_) => true,
    };
    rewrite(&pruned, keep, |_, _, _| Ok(None))
}

/// What has to be given together with `values`, so that nothing runs that does not depend on them: the values that are read beside them
/// and have rows of their own for each sequence. `values` come first.
///
/// # Errors
/// If there is no such value.
pub fn beside(graph: &Graph, values: &[&str]) -> Result<Vec<String>, Error> {
    let mut depends = vec![false; graph.values().len()];
    for value in values {
        depends[graph.value(value)?.0] = true;
    }
    let mut names: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
    let mut beside = |node: &Node, depends: &[bool]| {
        for input in node.inputs.iter().filter(|input| !depends[input.0]) {
            let info = graph.info(*input);
            let made = matches!(info.origin, Origin::Node(..));
            if made && of_sequences(info.shape.rows) && !names.contains(&info.name) {
                names.push(info.name.clone());
            }
        }
    };
    for node in graph.nodes() {
        if node.inputs.iter().any(|input| depends[input.0]) {
            node.outputs.iter().for_each(|output| depends[output.0] = true);
            beside(node, &depends);
        }
    }
    Ok(names)
}

/// Whether rows belong to sequences, so that those of many can be put one after the other.
fn of_sequences(rows: Rows) -> bool {
    match rows {
        Rows::Tokens(_) | Rows::Recalled(_) | Rows::Low(..) | Rows::Sequences(_) | Rows::Picked(_) => true,
        Rows::Fixed(_) | Rows::Memory(_) | Rows::Remembered(..) | Rows::Distances(_) | Rows::Pairs(_) => {
            false
        }
    }
}

/// Which values something reads, or are asked for.
fn read(graph: &Graph) -> Vec<bool> {
    let mut read = vec![false; graph.values().len()];
    let outputs = graph.outputs().iter().map(|(_, value)| value);
    let updates = graph.updates().iter().flat_map(|update| [&update.kept, &update.new]);
    let inputs = graph.nodes().iter().flat_map(|node| &node.inputs);
    outputs.chain(updates).chain(inputs).for_each(|&Value(value)| read[value] = true);
    read
}
