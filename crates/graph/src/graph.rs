//! The graph: values, the nodes that make them, and a builder that refuses what does not fit.

use std::collections::HashMap;

use crate::{Error, Op, Shape};

/// A value of a graph, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub usize);

/// A node of a graph, by number. Nodes run in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// What comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A constant, given once when the graph is prepared.
    Weight,
    /// Numbers given anew with each batch: patches, remembered rows.
    Input,
    /// Numbers that a state keeps from run to run: parameters in training, their moments, sums of gradients. They are written once
    /// ([`Runner::write`](crate::Runner::write)), and changed by [updates](Graph::updates).
    Kept,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From outside.
    Leaf(Leaf),
    /// From a node, as its output of that number.
    Node(NodeId, usize),
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Its path-like name: `target.3.attend.query`. Unique in its graph.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Where it comes from.
    pub origin: Origin,
}

/// One operation with its inputs and outputs.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name: that of its first output, or what it does where it has none.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// What it reads.
    pub inputs: Vec<Value>,
    /// What it makes.
    pub outputs: Vec<Value>,
}

/// A node where it stands: what an operation is asked about itself with.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// One of its nodes.
    pub node: &'a Node,
}

impl<'a> At<'a> {
    /// The shape of input number `k`.
    pub fn shape(&self, k: usize) -> Shape {
        self.graph.shape(self.node.inputs[k])
    }

    /// The name of input number `k`.
    pub fn name(&self, k: usize) -> &'a str {
        &self.graph.info(self.node.inputs[k]).name
    }

    /// The shape of the first output.
    pub fn output(&self) -> Shape {
        self.graph.shape(self.node.outputs[0])
    }
}

/// A flat list of operations. Immutable once built; passes make new ones.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    values: Vec<ValueInfo>,
    nodes: Vec<Node>,
    outputs: Vec<(String, Value)>,
    updates: Vec<Update>,
    names: HashMap<String, Value>,
}

/// What a kept leaf becomes when a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The leaf.
    pub kept: Value,
    /// What it becomes.
    pub new: Value,
}

impl Graph {
    /// The nodes, in the order in which they run.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values.
    pub fn values(&self) -> &[ValueInfo] {
        &self.values
    }

    /// What is known of `value`.
    pub fn info(&self, value: Value) -> &ValueInfo {
        &self.values[value.0]
    }

    /// The shape of `value`.
    pub fn shape(&self, value: Value) -> Shape {
        self.values[value.0].shape
    }

    /// The outputs: what a run leaves behind, by name.
    pub fn outputs(&self) -> &[(String, Value)] {
        &self.outputs
    }

    /// What kept leaves become when a run ends. During a run they are what they were.
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// The number of the output `name`.
    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|(known, _)| known == name)
    }

    /// The value `name`.
    ///
    /// # Errors
    /// If there is none; the error names the nearest.
    pub fn value(&self, name: &str) -> Result<Value, Error> {
        self.names.get(name).copied().ok_or_else(|| {
            let shared = |known: &str| known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
            let nearest = self.values.iter().map(|v| &v.name).max_by_key(|known| shared(known));
            Error::NoSuchValue { name: name.to_owned(), nearest: nearest.cloned().unwrap_or_default() }
        })
    }

    /// The leaves of one kind, in the order in which they were declared.
    pub fn leaves(&self, leaf: Leaf) -> impl Iterator<Item = (Value, &ValueInfo)> {
        let of_kind = move |(_, info): &(usize, &ValueInfo)| info.origin == Origin::Leaf(leaf);
        self.values.iter().enumerate().filter(of_kind).map(|(index, info)| (Value(index), info))
    }
}

/// Appends to a graph. Names are given relative to a scope, and made unique.
#[derive(Debug, Default)]
pub struct Builder {
    graph: Graph,
    scope: String,
    scopes: Vec<usize>,
}

impl Builder {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on where `graph` ends.
    pub fn extend(graph: Graph) -> Self {
        Self { graph, ..Self::default() }
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.graph
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Names from here on are below `name`, until [`Builder::leave`] ends it.
    pub fn enter(&mut self, name: &str) {
        self.scopes.push(self.scope.len());
        self.scope = self.path(name);
    }

    /// Ends what [`Builder::enter`] began last.
    pub fn leave(&mut self) {
        self.scope.truncate(self.scopes.pop().unwrap_or(0));
    }

    /// `name` below the present scope.
    pub fn path(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_owned() } else { format!("{}.{name}", self.scope) }
    }

    /// The shape of `value`.
    pub fn shape(&self, value: Value) -> Shape {
        self.graph.shape(value)
    }

    /// The value named exactly `name`, whatever the scope.
    pub fn find(&self, name: &str) -> Option<Value> {
        self.graph.names.get(name).copied()
    }

    /// The weight of exactly this name, declared the first time that it is asked for.
    ///
    /// # Errors
    /// If it was declared with another shape.
    pub fn weight(&mut self, name: &str, shape: Shape) -> Result<Value, Error> {
        self.leaf(name, shape, Leaf::Weight)
    }

    /// The input of exactly this name, declared the first time that it is asked for.
    ///
    /// # Errors
    /// If it was declared with another shape.
    pub fn input(&mut self, name: &str, shape: Shape) -> Result<Value, Error> {
        self.leaf(name, shape, Leaf::Input)
    }

    /// The kept leaf of exactly this name, declared the first time that it is asked for.
    ///
    /// # Errors
    /// If it was declared with another shape.
    pub fn kept(&mut self, name: &str, shape: Shape) -> Result<Value, Error> {
        self.leaf(name, shape, Leaf::Kept)
    }

    /// Lets the leaf `kept` be `new` from the next run on.
    ///
    /// # Errors
    /// If it is no kept leaf, or not as wide.
    pub fn update(&mut self, kept: Value, new: Value) -> Result<(), Error> {
        let (info, shape) = (self.graph.info(kept), self.shape(new));
        let why = if info.origin != Origin::Leaf(Leaf::Kept) {
            "only what is kept can be updated".to_owned()
        } else if self.graph.updates.iter().any(|update| update.kept == kept) {
            "it is updated already".to_owned()
        } else if info.shape.width != shape.width {
            format!("it is {} and would become {shape}", info.shape)
        } else {
            self.graph.updates.push(Update { kept, new });
            return Ok(());
        };
        Err(Error::Shape { node: info.name.clone(), why })
    }

    fn leaf(&mut self, name: &str, shape: Shape, leaf: Leaf) -> Result<Value, Error> {
        match self.find(name) {
            Some(value) if self.graph.info(value).shape == shape => Ok(value),
            Some(value) => Err(Error::Shape {
                node: name.to_owned(),
                why: format!("declared as {} and as {shape}", self.shape(value)),
            }),
            None => Ok(self.value(name, shape, Origin::Leaf(leaf))),
        }
    }

    fn value(&mut self, name: &str, shape: Shape, origin: Origin) -> Value {
        let value = Value(self.graph.values.len());
        let mut unique = name.to_owned();
        let mut count = 1;
        while self.graph.names.contains_key(&unique) {
            count += 1;
            unique = format!("{name}.{count}");
        }
        self.graph.names.insert(unique.clone(), value);
        self.graph.values.push(ValueInfo { name: unique, shape, origin });
        value
    }

    /// Appends a node named `name` (relative to the scope) and gives its first output.
    ///
    /// # Errors
    /// If the inputs do not fit the operation.
    pub fn add(&mut self, name: &str, op: impl Into<Op>, inputs: &[Value]) -> Result<Value, Error> {
        Ok(self.add_all(name, op, inputs)?[0])
    }

    /// Appends a node named exactly `name`, whatever the scope, and gives its first output.
    ///
    /// # Errors
    /// If the inputs do not fit the operation.
    pub fn add_at(&mut self, name: &str, op: impl Into<Op>, inputs: &[Value]) -> Result<Value, Error> {
        let scope = std::mem::take(&mut self.scope);
        let value = self.add(name, op, inputs);
        self.scope = scope;
        value
    }

    /// Appends a node and gives all its outputs; further ones are named after what they are.
    ///
    /// # Errors
    /// If the inputs do not fit the operation.
    pub fn add_all(&mut self, name: &str, op: impl Into<Op>, inputs: &[Value]) -> Result<Vec<Value>, Error> {
        let op = op.into();
        let name = self.path(name);
        let shapes: Vec<Shape> = inputs.iter().map(|&input| self.shape(input)).collect();
        let made = op.shape(&shapes).map_err(|why| Error::Shape { node: name.clone(), why })?;
        let id = NodeId(self.graph.nodes.len());
        let labels = op.outputs();
        let outputs: Vec<Value> = made
            .iter()
            .enumerate()
            .map(|(k, &shape)| {
                let full = if k == 0 { name.clone() } else { format!("{name}.{}", labels[k]) };
                self.value(&full, shape, Origin::Node(id, k))
            })
            .collect();
        let name = outputs.first().map_or(name, |&first| self.graph.info(first).name.clone());
        self.graph.nodes.push(Node { name, op, inputs: inputs.to_vec(), outputs: outputs.clone() });
        Ok(outputs)
    }

    /// Makes `value` an output of the graph, called `name`.
    pub fn output(&mut self, name: &str, value: Value) {
        self.graph.outputs.push((name.to_owned(), value));
    }

    /// Forgets the outputs so far, for those who want others.
    pub fn forget_outputs(&mut self) {
        self.graph.outputs.clear();
    }
}
