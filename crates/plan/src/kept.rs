//! What a state keeps from run to run by name: parameters in training, their moments, sums, remembered rows.

use glassformer_graph::{Capacity, Graph, Leaf, Shape};

/// A kept leaf of a graph.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// What it becomes, where it is updated.
    pub new: Option<Shape>,
    /// The most numbers that it has or becomes.
    pub most: usize,
}

impl Kept {
    /// Those of `graph`, in its order.
    pub fn of(graph: &Graph, capacity: &Capacity) -> Vec<Self> {
        let numbers = |shape: Shape| capacity.count(shape.rows) * shape.width;
        let leaves = graph.leaves(Leaf::Kept).map(|(value, info)| {
            let update = graph.updates().iter().find(|update| update.kept == value);
            let new = update.map(|update| graph.shape(update.new));
            let most = numbers(info.shape).max(new.map_or(0, numbers));
            Self { name: info.name.clone(), shape: info.shape, new, most }
        });
        leaves.collect()
    }
}
