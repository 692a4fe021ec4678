//! Passes over a graph that only training needs: narrow matrices beside wide ones, and layers that are computed again.

pub(crate) mod adapt;
pub(crate) mod recompute;

use std::collections::HashMap;

use glassformer_graph::{Builder, Error, Graph, Leaf, Origin, Value};

/// A new graph with the leaves of `graph`, and where each of them is in it.
fn leaves(graph: &Graph) -> Result<(Builder, HashMap<Value, Value>), Error> {
    let mut build = Builder::new();
    let mut new = HashMap::new();
    for (index, info) in graph.values().iter().enumerate() {
        let copy = match info.origin {
            Origin::Leaf(Leaf::Weight) => build.weight(&info.name, info.shape)?,
            Origin::Leaf(Leaf::Input) => build.input(&info.name, info.shape)?,
            Origin::Leaf(Leaf::Kept) => build.kept(&info.name, info.shape)?,
            Origin::Node(..) => continue,
        };
        new.insert(Value(index), copy);
    }
    Ok((build, new))
}
