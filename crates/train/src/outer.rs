//! Losses that look at several rows at once: where in a text an answer begins and ends, and which of many texts belong
//! together. No operation of the graph does that, and none has to.
//!
//! The forward graph gives the scores; the loss and its gradient g with respect to them are computed here, on a few numbers;
//! then the graph of `Σ g ⊙ scores`, whose gradient is exactly the loss's, is run. The forward pass is walked twice, with the
//! same numbers left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::ops::{DotColumns, SumRows};
use glassformer_graph::{Backend, Batch, Builder, Capacity, Graph, Leaf, Packed, Runner, Side, Span, State};
use glassformer_model::{Lowering, lower};

use crate::Error;

/// A loss over several rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OuterLoss {
    /// Scores `[rows, 2]`: the cross entropy over the rows of a sequence of where the answer begins, and of where it ends; the
    /// mean of both. The batch's labels are the two places of each sequence.
    Spans,
    /// Rows `[sequences, width]`, of which the first belongs to the second, the third to the fourth, and so on: the cross
    /// entropy over all second ones of `scale` times the cosine (Henderson et al. 2017).
    Pairs {
        /// What cosines are multiplied by.
        scale: f32,
    },
}

impl OuterLoss {
    /// The output of the graph that it looks at.
    fn output(self) -> &'static str {
        match self {
            Self::Spans => "logits",
            Self::Pairs { .. } => "pooled",
        }
    }

    /// The loss of `scores`, `width` to a row, and its gradient. `share` is what the loss of each example is multiplied by.
    pub fn of(self, scores: &[f32], width: usize, packed: &Packed, share: f64) -> (f64, Vec<f32>) {
        match self {
            Self::Spans => spans(scores, packed, share),
            Self::Pairs { scale } => pairs(scores, width, f64::from(scale), share),
        }
    }

    /// How many examples have their highest scores where they should.
    pub fn right(self, scores: &[f32], width: usize, packed: &Packed) -> usize {
        match self {
            Self::Spans => {
                let best = |first: usize, len: usize, end: usize| {
                    let score = |row: usize| scores[2 * (first + row) + end];
                    (0..len).max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap_or(0)
                };
                let right = |(number, span): (usize, &Span)| {
                    (0..2).all(|end| {
                        best(span.start, span.len, end) == packed.labels[2 * number + end] as usize
                    })
                };
                packed.spans.iter().enumerate().filter(|found| right(*found)).count()
            }
            Self::Pairs { .. } => {
                let count = scores.len() / width / 2;
                let row = |at: usize| &scores[at * width..(at + 1) * width];
                let cosine = |a: &[f32], b: &[f32]| {
                    let dot = |a: &[f32], b: &[f32]| {
                        a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>()
                    };
                    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(1e-12)
                };
                let best = |i: usize| {
                    let score = |j: usize| cosine(row(2 * i), row(2 * j + 1));
                    (0..count).max_by(|&a, &b| score(a).total_cmp(&score(b)))
                };
                (0..count).filter(|&i| best(i) == Some(i)).count()
            }
        }
    }

    /// How many examples `packed` has.
    pub fn examples(self, packed: &Packed) -> usize {
        match self {
            Self::Spans => packed.spans.len(),
            Self::Pairs { .. } => packed.spans.len() / 2,
        }
    }
}

/// A forward pass whose end is computed outside the graph.
pub(crate) struct Outer {
    loss: OuterLoss,
    graph: Graph,
    runner: Option<Box<dyn Runner>>,
    state: State,
    side: Side,
}

impl Outer {
    /// What the gradient of the scores is called in the second graph.
    pub const INPUT: &'static str = "given";

    /// The forward pass; and the graph whose loss has the same gradient.
    pub fn new(loss: OuterLoss, formula: &Formula, dropout: f32) -> Result<(Self, Graph), Error> {
        let graph = lower(formula, Lowering::train(dropout))?;
        let output = graph.output(loss.output()).ok_or(Error::NoHead)?;
        let value = graph.outputs()[output].1;
        let mut build = Builder::extend(graph.clone());
        let given = build.input(Self::INPUT, build.shape(value))?;
        let products = build.add("products", DotColumns, &[value, given])?;
        let sum = build.add("loss", SumRows, &[products])?;
        build.output("loss", sum);
        let side = if formula.target.is_some() { Side::Target } else { Side::Source };
        Ok((Self { loss, graph, runner: None, state: State::default(), side }, build.finish()))
    }

    /// Makes another graph of the forward pass.
    pub fn change(&mut self, change: impl Fn(&Graph) -> Result<Graph, Error>) -> Result<(), Error> {
        self.graph = change(&self.graph)?;
        Ok(())
    }

    /// Prepares the forward pass.
    pub fn prepare(&mut self, backend: &dyn Backend, capacity: &Capacity) -> Result<(), Error> {
        let graph = Arc::new(self.graph.clone());
        self.runner = Some(backend.prepare(&graph, &BTreeMap::new(), capacity)?);
        Ok(())
    }

    /// The loss of `batch`, and its gradient with respect to the scores. Where the batch has weights, the first one is what the
    /// loss of each example is multiplied by.
    pub fn run<'w>(
        &mut self,
        batch: &Batch<'_>,
        weights: impl Fn(&str) -> Option<&'w [f32]>,
    ) -> Result<(f32, Vec<f32>), Error> {
        let find = |(_, info): (_, &glassformer_graph::ValueInfo)| {
            weights(&info.name).ok_or_else(|| Error::MissingInput(info.name.clone()))
        };
        let Some(runner) = &self.runner else { return Err(Error::NoHead) };
        let inputs = self.graph.leaves(Leaf::Input).map(find).collect::<Result<Vec<_>, _>>()?;
        let mut bound =
            Batch { source: batch.source.clone(), target: batch.target.clone(), inputs, seed: batch.seed };
        bound.side_mut(self.side).labels.clear();
        bound.side_mut(self.side).weights.clear();
        runner.run(&mut self.state, &bound)?;
        let output = self.graph.output(self.loss.output()).ok_or(Error::NoHead)?;
        let packed = batch.side(self.side);
        let usual = || 1.0 / self.loss.examples(packed).max(1) as f64;
        let share = packed.weights.first().map_or_else(usual, |&weight| f64::from(weight));
        let width = self.graph.shape(self.graph.outputs()[output].1).width;
        let (loss, gradient) = self.loss.of(&runner.output(&self.state, output)?, width, packed, share);
        Ok((loss as f32, gradient))
    }
}

/// Where answers begin and end.
fn spans(scores: &[f32], packed: &Packed, share: f64) -> (f64, Vec<f32>) {
    let mut gradient = vec![0.0; scores.len()];
    let mut loss = 0.0;
    for (number, span) in packed.spans.iter().enumerate() {
        for end in 0..2 {
            let at = |row: usize| 2 * (span.start + row) + end;
            let label = packed.labels[2 * number + end] as usize;
            let most = (0..span.len).map(|row| f64::from(scores[at(row)])).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..span.len).map(|row| (f64::from(scores[at(row)]) - most).exp()).sum();
            loss += share / 2.0 * (most + sum.ln() - f64::from(scores[at(label)]));
            for row in 0..span.len {
                let p = (f64::from(scores[at(row)]) - most).exp() / sum;
                gradient[at(row)] = (share / 2.0 * (p - f64::from(u8::from(row == label)))) as f32;
            }
        }
    }
    (loss, gradient)
}

/// Which texts belong together.
fn pairs(rows: &[f32], width: usize, scale: f64, share: f64) -> (f64, Vec<f32>) {
    let count = rows.len() / width / 2;
    let row = |at: usize| rows[at * width..(at + 1) * width].iter().map(|&x| f64::from(x));
    let length = |at: usize| row(at).map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
    let units: Vec<Vec<f64>> = (0..2 * count).map(|at| row(at).map(|x| x / length(at)).collect()).collect();
    // What flows back into each unit vector.
    let mut flows = vec![vec![0.0; width]; 2 * count];
    let mut loss = 0.0;
    for i in 0..count {
        let dot =
            |j: usize| units[2 * i].iter().zip(&units[2 * j + 1]).map(|(a, b)| a * b).sum::<f64>() * scale;
        let scores: Vec<f64> = (0..count).map(dot).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        loss += share * (most + sum.ln() - scores[i]);
        for (j, score) in scores.iter().enumerate() {
            let p = (score - most).exp() / sum - f64::from(u8::from(i == j));
            let flow = share * scale * p;
            for k in 0..width {
                flows[2 * i][k] += flow * units[2 * j + 1][k];
                flows[2 * j + 1][k] += flow * units[2 * i][k];
            }
        }
    }
    // Through the division by the length: (g − u (u·g)) / length.
    let mut gradient = Vec::with_capacity(rows.len());
    for (at, (unit, flow)) in units.iter().zip(&flows).enumerate() {
        let along: f64 = unit.iter().zip(flow).map(|(u, g)| u * g).sum();
        gradient.extend(unit.iter().zip(flow).map(|(u, g)| ((g - u * along) / length(at)) as f32));
    }
    gradient.resize(rows.len(), 0.0);
    (loss, gradient)
}

#[cfg(test)]
mod tests {
    use glassformer_tensor::Random;

    use super::*;

    /// The gradient against differences of the loss.
    fn check(loss: OuterLoss, width: usize, packed: &Packed) {
        let mut random = Random::new(5);
        let rows = match loss {
            OuterLoss::Spans => packed.rows(),
            OuterLoss::Pairs { .. } => packed.spans.len(),
        };
        let mut scores: Vec<f32> = (0..rows * width).map(|_| random.normal()).collect();
        let (_, gradient) = loss.of(&scores, width, packed, 0.5);
        for at in 0..scores.len() {
            let was = scores[at];
            let mut side = |by: f32| {
                scores[at] = was + by;
                let value = loss.of(&scores, width, packed, 0.5).0;
                scores[at] = was;
                value
            };
            let slope = (side(1e-2) - side(-1e-2)) / 2e-2;
            assert!(
                (slope - f64::from(gradient[at])).abs() < 2e-3,
                "{loss:?} {at}: {slope} {}",
                gradient[at]
            );
        }
    }

    #[test]
    fn gradients_are_slopes() {
        let mut packed = Packed::default();
        for length in [5, 3, 4, 6] {
            packed.push_rows(length, Span::default());
        }
        packed.labels = vec![1, 3, 0, 0, 2, 3, 5, 5];
        check(OuterLoss::Spans, 2, &packed);
        check(OuterLoss::Pairs { scale: 5.0 }, 7, &packed);
    }
}
