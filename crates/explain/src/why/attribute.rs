//! Direct attribution: which heads, feed-forwards and embeddings wrote a score.
//!
//! A score is a sum of products along the rows of the last stack: what each sublayer added, times what the head makes of it. Norms are
//! frozen at the run's own mean and scale, and activations of the head at the run's own ratio of output to input; then all between is
//! linear, and the parts sum to the score. In a pre-norm model one norm stands between (Elhage et al. 2021). In a post-norm model every
//! later norm does: the sum is as exact, but an early part passes through many norms that it helped to set, so less of it is its own.
//! What a part does through later sublayers is not counted; for that, take it away ([`sweep`](super::sweep())).
//!
//! Sums are in `f64`, from the numbers of the run.

use std::borrow::Cow;
use std::collections::HashMap;

use glassformer_engine::Asked;
use glassformer_graph::ops::{Norm, NormKind, Pool};
use glassformer_graph::{Constants, Graph, Node, Op, Origin, Packed, Side, Span, Value};
use serde::Serialize;

use super::focus::{Focus, no_head};
use super::stack::{self, Attention};
use crate::names::Path;
use crate::{Error, Trace};

/// Neurons of a feed-forward that are named, as many as contribute the most.
const NEURONS: usize = 5;

/// What wrote a part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrote {
    /// A head of an attention.
    Head,
    /// A feed-forward.
    Feed,
    /// Tokens, positions or types, as they were embedded.
    Embedding,
    /// A bias, whatever the text.
    Bias,
    /// Something else: pooled rows that cannot be told apart, a learned row.
    Other,
}

/// A part of a score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The value or weight that was added.
    pub value: String,
    /// What it is.
    pub wrote: Wrote,
    /// `attend`, `cross`, `feed`, where it belongs to a sublayer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sublayer: Option<String>,
    /// Which layer, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
    /// Which head, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// How much of the score it is.
    pub share: f64,
    /// The neurons that are the most of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub neurons: Vec<Neuron>,
}

/// A neuron of a feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Neuron {
    /// Which one, counted from 0.
    pub neuron: usize,
    /// How much of the score it is.
    pub share: f64,
}

/// A score and its parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attribution {
    /// Which score.
    pub focus: Focus,
    /// The score, as the engine has it.
    pub score: f64,
    /// The sum of the parts.
    pub sum: f64,
    /// How many norms were frozen on the way.
    pub frozen_norms: usize,
    /// How many activations of the head were.
    pub frozen_activations: usize,
    /// The parts, in the order of computation.
    pub parts: Vec<Part>,
}

/// The parts of the score `focus` of the run in `trace`.
///
/// # Errors
/// If there is no such score, or it is no sum of products: that of an adaptive softmax is the logarithm of a probability.
pub fn attribute(trace: &Trace, focus: Focus) -> Result<Attribution, Error> {
    let graph = trace.untapped();
    let logits = graph.value("logits").map_err(|_| no_head())?;
    let tensor = trace.read("logits")?;
    let (rows, width) = tensor.matrix();
    focus.check(graph, rows)?;
    let score = focus.of(tensor.data(), width).ok_or_else(no_head)?;
    let mut walk = Walk {
        trace,
        graph,
        attentions: stack::attentions(graph),
        back: HashMap::new(),
        parts: Vec::new(),
        frozen_norms: 0,
        frozen_activations: 0,
    };
    if !stack::maker(graph, "logits").is_some_and(|node| matches!(node.op, Op::Linear(_))) {
        let what = "these scores are logarithms of probabilities, no sums of what sublayers wrote".into();
        return Err(Error::Why { what });
    }
    let mut seed = Rows::zeros(rows, width);
    seed.row_mut(focus.row)[focus.column] += 1.0;
    if let Some(other) = focus.against {
        seed.row_mut(focus.row)[other] -= 1.0;
    }
    walk.back.insert(logits, seed);
    for node in graph.nodes().iter().rev() {
        let Some(back) = node.outputs.first().and_then(|value| walk.back.remove(value)) else { continue };
        walk.node(node, back)?;
    }
    walk.leaves();
    let Walk { mut parts, frozen_norms, frozen_activations, .. } = walk;
    parts.reverse();
    let sum = parts.iter().map(|part| part.share).sum();
    Ok(Attribution { focus, score, sum, frozen_norms, frozen_activations, parts })
}

/// What flows back into a value: as many rows as it has.
#[derive(Clone)]
struct Rows {
    width: usize,
    data: Vec<f64>,
}

impl Rows {
    fn zeros(rows: usize, width: usize) -> Self {
        Self { width, data: vec![0.0; rows * width] }
    }

    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.data[row * self.width..(row + 1) * self.width]
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks(self.width.max(1))
    }

    fn count(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    /// Whether a row has nothing in it: most have, where one token is asked about.
    fn is_empty(row: &[f64]) -> bool {
        row.iter().all(|x| *x == 0.0)
    }

    /// The sum of the products with `x`, column by column.
    fn columns(&self, x: &[f32]) -> Vec<f64> {
        let mut sums = vec![0.0; self.width];
        for (back, x) in
            self.rows().zip(x.chunks(self.width.max(1))).filter(|(back, _)| !Self::is_empty(back))
        {
            for ((sum, back), x) in sums.iter_mut().zip(back).zip(x) {
                *sum += back * f64::from(*x);
            }
        }
        sums
    }
}

struct Walk<'t> {
    trace: &'t Trace,
    graph: &'t Graph,
    attentions: Vec<Attention>,
    back: HashMap<Value, Rows>,
    parts: Vec<Part>,
    frozen_norms: usize,
    frozen_activations: usize,
}

impl Walk<'_> {
    /// The numbers of a value or a weight, as they were read.
    fn numbers(&self, value: Value) -> Result<Cow<'_, [f32]>, Error> {
        let name = &self.graph.info(value).name;
        match self.trace.read(name) {
            Ok(tensor) => Ok(Cow::Borrowed(tensor.data())),
            Err(error) => self.trace.model().get(name).ok_or(error),
        }
    }

    fn flow(&mut self, into: Value, back: Rows) {
        match self.back.get_mut(&into) {
            Some(sum) => sum.data.iter_mut().zip(back.data).for_each(|(sum, back)| *sum += back),
            None => {
                self.back.insert(into, back);
            }
        }
    }

    fn part(&mut self, value: &str, wrote: Wrote, share: f64) -> &mut Part {
        let path = Path::of(value);
        let sublayer = path.layer.map(|_| path.part.to_owned());
        let layer = path.layer;
        let value = value.to_owned();
        self.parts.push(Part { value, wrote, sublayer, layer, head: None, share, neurons: Vec::new() });
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// What `back` is where it flows through `node`.
    fn node(&mut self, node: &Node, back: Rows) -> Result<(), Error> {
        let name = self.graph.info(node.outputs[0]).name.clone();
        if self.ends(node.outputs[0], &name, &back)? {
            return Ok(());
        }
        match &node.op {
            Op::Linear(_) => {
                let weight = self.numbers(node.inputs[1])?;
                let flowing = through(&back, &weight, self.graph.shape(node.inputs[0]).width);
                drop(weight);
                self.bias(node.inputs.get(2).copied(), &back)?;
                self.flow(node.inputs[0], flowing);
            }
            Op::Add(_) => {
                self.flow(node.inputs[0], back.clone());
                self.flow(node.inputs[1], back);
            }
            Op::AddRow(_) => {
                let mut sum = Rows::zeros(1, back.width);
                back.rows().for_each(|row| sum.data.iter_mut().zip(row).for_each(|(sum, x)| *sum += x));
                self.flow(node.inputs[1], sum);
                self.flow(node.inputs[0], back);
            }
            Op::Scale(scale) => {
                let mut back = back;
                let width = back.width.max(1);
                for row in back.data.chunks_mut(width) {
                    row.iter_mut().enumerate().for_each(|(column, x)| *x *= f64::from(scale.at(column)));
                }
                self.flow(node.inputs[0], back);
            }
            Op::MulColumn(_) => {
                let column = self.numbers(node.inputs[1])?.into_owned();
                let mut back = back;
                let width = back.width.max(1);
                for (row, factor) in back.data.chunks_mut(width).zip(column) {
                    for x in row {
                        *x *= f64::from(factor);
                    }
                }
                self.flow(node.inputs[0], back);
            }
            Op::Norm(norm) => self.norm(node, norm, back)?,
            Op::Activate(_) => {
                let flowing = self.activation(node, &back)?;
                self.flow(node.inputs[0], flowing);
            }
            Op::Pick(_) => {
                let flowing = self.picked(node, back)?;
                self.flow(node.inputs[0], flowing);
            }
            Op::Pool(pool) => match self.pooled(node, pool, &back)? {
                Some(flowing) => self.flow(node.inputs[0], flowing),
                None => self.whole(node.outputs[0], &name, &back)?,
            },
            // Whatever else wrote into the rows is a part as a whole.
            _ => self.whole(node.outputs[0], &name, &back)?,
        }
        Ok(())
    }

    /// Whether the value is where the way ends: heads side by side, or the neurons of a feed-forward.
    fn ends(&mut self, value: Value, name: &str, back: &Rows) -> Result<bool, Error> {
        let attention = self.attentions.iter().find(|attention| attention.mixed == name).cloned();
        let path = Path::of(name);
        if let Some(attention) = attention {
            let columns = back.columns(&self.numbers(value)?);
            for head in (0..attention.attend.heads).rev() {
                let share = columns[attention.columns(head)].iter().sum();
                self.part(name, Wrote::Head, share).head = Some(head);
            }
            return Ok(true);
        }
        if path.layer.is_some() && path.part.starts_with("feed") && path.last == "hidden" {
            let columns = back.columns(&self.numbers(value)?);
            let mut neurons: Vec<Neuron> =
                (0..columns.len()).map(|neuron| Neuron { neuron, share: columns[neuron] }).collect();
            neurons.sort_by(|a, b| b.share.abs().total_cmp(&a.share.abs()));
            neurons.truncate(NEURONS);
            self.part(name, Wrote::Feed, columns.iter().sum()).neurons = neurons;
            return Ok(true);
        }
        Ok(false)
    }

    /// The value as one part.
    fn whole(&mut self, value: Value, name: &str, back: &Rows) -> Result<(), Error> {
        let share = back.columns(&self.numbers(value)?).iter().sum();
        let wrote = if Path::of(name).part == "embed" { Wrote::Embedding } else { Wrote::Other };
        self.part(name, wrote, share);
        Ok(())
    }

    /// A bias that was added to every row.
    fn bias(&mut self, bias: Option<Value>, back: &Rows) -> Result<(), Error> {
        let Some(bias) = bias else { return Ok(()) };
        let name = self.graph.info(bias).name.clone();
        let numbers = self.numbers(bias)?.into_owned();
        let parts = numbers.len().max(1);
        let share = back.data.chunks(parts).map(|part| dot(part, &numbers)).sum();
        self.part(&name, Wrote::Bias, share);
        Ok(())
    }

    /// `γ ⊙ (x − μ)/σ + β` with μ's weights and σ frozen.
    fn norm(&mut self, node: &Node, norm: &Norm, mut back: Rows) -> Result<(), Error> {
        self.frozen_norms += 1;
        self.bias(node.inputs.get(2).copied(), &back)?;
        let x = self.numbers(node.inputs[0])?;
        let gain = self.numbers(node.inputs[1])?;
        let size = (back.width / norm.parts.max(1)).max(1);
        for (back, x) in back.data.chunks_mut(size).zip(x.chunks(size)) {
            if Rows::is_empty(back) {
                continue;
            }
            let centred = match norm.kind {
                NormKind::Layer | NormKind::LayerWithoutBias => true,
                NormKind::Rms => false,
            };
            let n = size as f64;
            let mean = if centred { x.iter().map(|&x| f64::from(x)).sum::<f64>() / n } else { 0.0 };
            let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
            let inverse = 1.0 / (variance + f64::from(norm.epsilon)).sqrt();
            back.iter_mut().zip(gain.iter()).for_each(|(back, gain)| *back *= f64::from(*gain) * inverse);
            if centred {
                let mean = back.iter().sum::<f64>() / n;
                for back in back {
                    *back -= mean;
                }
            }
        }
        drop((x, gain));
        self.flow(node.inputs[0], back);
        Ok(())
    }

    /// An activation as its output's ratio to its input. Where the input is zero, the output is a part by itself.
    fn activation(&mut self, node: &Node, back: &Rows) -> Result<Rows, Error> {
        self.frozen_activations += 1;
        let (x, y) =
            (self.numbers(node.inputs[0])?.into_owned(), self.numbers(node.outputs[0])?.into_owned());
        let mut flowing = back.clone();
        let mut rest = 0.0;
        for ((back, x), y) in flowing.data.iter_mut().zip(x).zip(y) {
            let (x, y) = (f64::from(x), f64::from(y));
            // Where almost nothing came in, a ratio would be noise times noise.
            if x.abs() < 1e-12 {
                rest += *back * y;
                *back = 0.0;
            } else {
                *back *= y / x;
            }
        }
        if rest != 0.0 {
            let name = self.graph.info(node.outputs[0]).name.clone();
            self.part(&name, Wrote::Other, rest);
        }
        Ok(flowing)
    }

    /// The rows that were asked about, among all.
    fn picked(&self, node: &Node, back: Rows) -> Result<Rows, Error> {
        let Asked::Rows(rows) = &self.trace.sequence().asked else { return Ok(back) };
        let all = self.numbers(node.inputs[0])?.len() / back.width.max(1);
        let mut flowing = Rows::zeros(all, back.width);
        for (from, &to) in back.rows().zip(rows) {
            flowing.row_mut(to).copy_from_slice(from);
        }
        Ok(flowing)
    }

    /// What flows into the rows that were pooled; nothing where the largest were taken, column by column.
    fn pooled(&self, node: &Node, pool: &Pool, back: &Rows) -> Result<Option<Rows>, Error> {
        let width = self.graph.shape(node.inputs[0]).width;
        let rows = self.numbers(node.inputs[0])?.len() / width.max(1);
        let sequence = self.trace.sequence();
        let tokens = match pool.side {
            Side::Source => sequence.source.clone(),
            Side::Target => sequence.target.clone(),
        };
        let packed = Packed { tokens, ..Packed::default() };
        let span = Span { len: rows, unpooled: sequence.unpooled, ..Span::default() };
        let mut flowing = Rows::zeros(rows, width);
        // Several poolings stand side by side.
        for (pooling, back) in pool.poolings.iter().zip(back.data.chunks(width.max(1))) {
            for row in 0..rows {
                let Some(weight) = pooling.weight(&packed, &span, row) else { return Ok(None) };
                flowing.row_mut(row).iter_mut().zip(back).for_each(|(into, x)| *into += weight * x);
            }
        }
        Ok(Some(flowing))
    }

    /// What flowed into values from outside: weights that were added, rows that edits gave.
    fn leaves(&mut self) {
        let mut left: Vec<(Value, Rows)> = self.back.drain().collect();
        left.sort_by_key(|(value, _)| *value);
        for (value, back) in left {
            let info = self.graph.info(value);
            let (Origin::Leaf(_), name) = (info.origin, info.name.clone()) else { continue };
            let Ok(numbers) = self.numbers(value).map(Cow::into_owned) else { continue };
            let ended = name.strip_suffix(".edited").unwrap_or(&name).to_owned();
            if let Ok(false) = self.ends(value, &ended, &back) {
                let wrote = if back.count() == 1 { Wrote::Bias } else { Wrote::Other };
                self.part(&ended, wrote, back.columns(&numbers).iter().sum());
            }
        }
    }
}

/// `back · W`: what flows into the rows of a product, `[rows, width]`.
fn through(back: &Rows, weight: &[f32], width: usize) -> Rows {
    let mut flowing = Rows::zeros(back.count(), width);
    for (row, back) in back.rows().enumerate() {
        let into = flowing.row_mut(row);
        for (&back, weight) in back.iter().zip(weight.chunks(width)).filter(|(back, _)| **back != 0.0) {
            into.iter_mut().zip(weight).for_each(|(into, w)| *into += back * f64::from(*w));
        }
    }
    flowing
}

fn dot(a: &[f64], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum()
}
