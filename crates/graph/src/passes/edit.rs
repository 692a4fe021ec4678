//! Editing as a pass: what would the model say without this head, or with that row?

use super::rewrite;
use crate::ops::Scale;
use crate::{Error, Graph, Op};

/// What is done to a value before others read it.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Columns are multiplied by a number; by 0 they are silenced (ablation).
    Scale(Scale),
    /// It is replaced by the numbers of a new input of this name (patching).
    Replace(String),
}

/// `graph` where all that read `value` read it edited. The untouched value keeps its name; the edited one is
/// `value.edited`.
///
/// # Errors
/// If there is no such value, or it comes from outside: change the weight or input itself then.
pub fn edit(graph: &Graph, value: &str, edit: &Edit) -> Result<Graph, Error> {
    let wanted = graph.value(value)?;
    if let crate::Origin::Leaf(_) = graph.info(wanted).origin {
        let why = "it comes from outside; change what is given".to_owned();
        return Err(Error::Shape { node: value.to_owned(), why });
    }
    rewrite(
        graph,
        |_| true,
        |build, _, outputs| {
            let Some(place) = outputs.iter().position(|&v| build.graph().info(v).name == value) else {
                return Ok(None);
            };
            let mut used = outputs.to_vec();
            used[place] = match edit {
                Edit::Scale(scale) => build.add(&format!("{value}.edited"), *scale, &[outputs[place]])?,
                Edit::Replace(name) => build.input(name, build.shape(outputs[place]))?,
            };
            Ok(Some(used))
        },
    )
}

/// `graph` with head `head` of the attention that makes `value` silenced.
///
/// # Errors
/// If `value` is not made by an attention, or that has fewer heads.
pub fn silence_head(graph: &Graph, value: &str, head: usize) -> Result<Graph, Error> {
    let wanted = graph.value(value)?;
    let attend = graph.nodes().iter().find(|node| node.outputs.first() == Some(&wanted)).map(|node| &node.op);
    match attend {
        Some(Op::Attend(attend)) if head < attend.heads => {
            let (from, to) = (head * attend.size, (head + 1) * attend.size);
            edit(graph, value, &Edit::Scale(Scale { factor: 0.0, from, to }))
        }
        _ => Err(Error::Shape {
            node: value.to_owned(),
            why: format!("it is not an attention with a head {head}"),
        }),
    }
}
