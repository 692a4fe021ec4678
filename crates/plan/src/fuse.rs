//! Which steps follow a product so closely that the product does them: the sum with a residual, an activation, a gate, and on the way
//! back a slope, and the sum with another gradient.
//!
//! What the product gives is then never written by itself. So it must have no other reader, nor be an output; where a tap
//! asks for it, the steps stay apart and the bits are the same.

use std::collections::{HashMap, HashSet};

use glassformer_graph::ops::Activation;
use glassformer_graph::{Graph, Node, Op, Origin, Value};

/// What is done to a product at last.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum EpilogueKind {
    /// Nothing.
    #[default]
    Nothing,
    /// f(x).
    Activate(Activation),
    /// f(x). The last output keeps x, rounded to `bf16`.
    ActivateAndKeep(Activation),
    /// x + o, where o is a further input.
    Add,
    /// f(o) · x, where o is a further input.
    Gate(Activation),
    /// f′(o) · x, where o is a further input.
    Derivative(Activation),
    /// The same, where o comes rounded to `bf16`.
    DerivativeBf16(Activation),
}

/// A product with what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Fused {
    /// What follows.
    pub epilogue: EpilogueKind,
    /// The further input.
    pub other: Option<Value>,
    /// What both give together.
    pub output: Value,
}

/// Which nodes are joined.
#[derive(Debug, Default)]
pub struct Fusions {
    /// By the number of the product's node.
    pub products: HashMap<usize, Fused>,
    /// The nodes that products do.
    pub done: HashSet<usize>,
    /// Of products that a gate follows, the product that is the gate, if it reads the same rows and nothing else reads it: both can
    /// be one step.
    gates: HashMap<usize, usize>,
    readers: HashMap<Value, Readers>,
}

impl Fusions {
    /// Those of `graph`.
    pub fn of(graph: &Graph) -> Self {
        let readers = readers(graph);
        let before = |value: Value, product: usize| match graph.info(value).origin {
            Origin::Leaf(_) => true,
            Origin::Node(node, _) => node.0 < product,
        };
        let mut fusions = Self { readers, ..Self::default() };
        for (product, node) in graph.nodes().iter().enumerate() {
            let (Op::Linear(_) | Op::LinearInputGrad(_), &[value]) = (&node.op, &node.outputs[..]) else {
                continue;
            };
            let Some(reader) = fusions.only_reader(value) else { continue };
            let Some(fused) = joined(value, &graph.nodes()[reader]) else { continue };
            if fused.other.is_none_or(|other| before(other, product)) {
                fusions.products.insert(product, fused);
                fusions.done.insert(reader);
                if let Some(gate) = fusions.gate_of(graph, product, &fused) {
                    fusions.gates.insert(product, gate);
                }
            }
        }
        fusions
    }

    /// The product that is the gate of `product`, which comes before it.
    fn gate_of(&self, graph: &Graph, product: usize, fused: &Fused) -> Option<usize> {
        let (EpilogueKind::Gate(_), Some(value)) = (fused.epilogue, fused.other) else { return None };
        let Origin::Node(gate, _) = graph.info(value).origin else { return None };
        let (gate, nodes) = (gate.0, graph.nodes());
        let (this, that) = (&nodes[product], &nodes[gate]);
        let alike = this.inputs.len() == that.inputs.len() && this.inputs.first() == that.inputs.first();
        let fits = matches!(that.op, Op::Linear(_)) && alike && self.only_reader(value).is_some();
        fits.then_some(gate)
    }

    /// Pairs of a gate and the product that it gates.
    pub fn gates(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.gates.iter().map(|(&product, &gate)| (gate, product))
    }

    /// The node that reads a value, where nobody else does, and it once.
    pub fn only_reader(&self, value: Value) -> Option<usize> {
        match self.readers(value) {
            Some(&[reader]) => Some(reader),
            Some(_) | None => None,
        }
    }

    /// The nodes that read a value, each as often as it does, where nobody else does.
    pub fn readers(&self, value: Value) -> Option<&[usize]> {
        match self.readers.get(&value) {
            Some(Readers::Nodes(nodes)) => Some(nodes),
            Some(Readers::Others) | None => None,
        }
    }
}

/// Who reads a value.
#[derive(Debug)]
enum Readers {
    Nodes(Vec<usize>),
    /// Whoever reads the outputs, at least.
    Others,
}

fn readers(graph: &Graph) -> HashMap<Value, Readers> {
    let mut nodes: HashMap<Value, Vec<usize>> = HashMap::new();
    for (index, node) in graph.nodes().iter().enumerate() {
        for &value in &node.inputs {
            nodes.entry(value).or_default().push(index);
        }
    }
    let mut readers: HashMap<Value, Readers> =
        nodes.into_iter().map(|(value, nodes)| (value, Readers::Nodes(nodes))).collect();
    readers.extend(graph.outputs().iter().map(|&(_, value)| (value, Readers::Others)));
    readers
}

/// What `node` does to the product `value`, if a product can do that.
fn joined(value: Value, node: &Node) -> Option<Fused> {
    let (epilogue, other) = match (&node.op, &node.inputs[..]) {
        (Op::Activate(op), _) => (EpilogueKind::Activate(op.act), None),
        (Op::Add(_), &[a, b]) => (EpilogueKind::Add, Some(if a == value { b } else { a })),
        (Op::Gate(op), &[gate, up]) if up == value => (EpilogueKind::Gate(op.act), Some(gate)),
        (Op::ActivateGrad(op), &[x, dy]) if dy == value && x != value => {
            (EpilogueKind::Derivative(op.act), Some(x))
        }
        _ => return None,
    };
    node.outputs.first().map(|&output| Fused { epilogue, other, output })
}
