//! Measuring as a pass: what products read, as sums of squares, for those who round weights.

use super::prune;
use crate::ops::{Add, Fill, LinearWeightGrad, Norm, NormKind};
use crate::{Builder, Error, Graph, Leaf, Op, Origin, Shape, Value};

/// Weights that are multiplied by the same rows, and by nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readers {
    /// Their names.
    pub weights: Vec<String>,
    /// The rows: one value, or one for each place where weights are shared.
    pub rows: Vec<Value>,
    /// How many numbers a row has.
    pub width: usize,
}

impl Readers {
    /// What the output of these is called.
    pub fn name(&self) -> String {
        format!("moments.{}", self.weights.first().map_or("", String::as_str))
    }
}

/// The weights of `graph` that `wanted` asks for and that only products read, those of the same rows together, in the order in
/// which they run.
pub fn readers(graph: &Graph, wanted: impl Fn(&str) -> bool) -> Vec<Readers> {
    let mut rows: Vec<Vec<Value>> = vec![Vec::new(); graph.values().len()];
    let mut order = Vec::new();
    let mut others = vec![false; graph.values().len()];
    for node in graph.nodes() {
        for (place, &input) in node.inputs.iter().enumerate() {
            let info = graph.info(input);
            if info.origin != Origin::Leaf(Leaf::Weight) || !wanted(&info.name) {
                continue;
            }
            if !matches!(node.op, Op::Linear(_)) || place != 1 {
                others[input.0] = true;
            } else if rows[input.0].is_empty() {
                order.push(input);
            }
            rows[input.0].extend(node.inputs.first().filter(|_| place == 1));
        }
    }
    let mut found: Vec<Readers> = Vec::new();
    for weight in order.into_iter().filter(|weight| !others[weight.0]) {
        let (name, rows) = (graph.info(weight).name.clone(), std::mem::take(&mut rows[weight.0]));
        match found.iter_mut().find(|readers| readers.rows == rows) {
            Some(readers) => readers.weights.push(name),
            None => found.push(Readers { weights: vec![name], rows, width: graph.shape(weight).width }),
        }
    }
    found
}

/// The part of `graph` that makes what `readers` read, with an output for each of them, by its name: `XᵀX`, `[width, width]`, of the
/// rows X, each of them brought to a mean square of one first. Few tokens have rows that are hundreds of times as long as all
/// others; they would be all that is measured.
///
/// # Errors
/// If a value is none of the graph's.
pub fn moments(graph: &Graph, readers: &[Readers]) -> Result<Graph, Error> {
    let mut build = Builder::extend(graph.clone());
    build.forget_outputs();
    let norm = Norm { kind: NormKind::Rms, epsilon: f32::MIN_POSITIVE, parts: 1 };
    for reader in readers {
        let name = reader.name();
        build.enter(&name);
        let one = build.add("one", Fill { shape: Shape::fixed(1, reader.width), value: 1.0 }, &[])?;
        let mut sum = None;
        for &rows in &reader.rows {
            let rows = build.add("rows", norm, &[rows, one])?; // [rows, width]
            let product = build.add("product", LinearWeightGrad, &[rows, rows])?; // [width, width]
            sum = Some(match sum {
                None => product,
                Some(sum) => build.add("sum", Add, &[sum, product])?,
            });
        }
        build.leave();
        if let Some(sum) = sum {
            build.output(&name, sum);
        }
    }
    prune(&build.finish())
}
