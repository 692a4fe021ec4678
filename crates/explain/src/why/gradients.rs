//! Which input tokens a score hangs on, by the engine's own gradients.
//!
//! Gradient × input is the product of each token's embedding with the score's gradient there: how much of the score would be lost, to
//! first order, if the embedding shrank to nothing (Shrikumar et al. 2017). Integrated gradients take the mean of that gradient on the
//! way from the average token, the mean of the vocabulary's embeddings, to each token; then the shares sum to the score minus that of a
//! text of average tokens, up to what a sum of steps misses of an integral, which is told (Sundararajan et al. 2017). Their baseline of
//! zeros is none here: a model that norms its rows and adds no positions to them turns rows next to zero into large ones, layer after
//! layer, and no sum of steps finds its way back.

use std::sync::Arc;

use glassformer_engine::{Forward, Named, Sequence};
use glassformer_graph::ops::{Linear, SumRows};
use glassformer_graph::{Backend, Builder, Constants, Graph, Op, Shape, Side, given, grad};
use serde::Serialize;

use super::focus::{Focus, no_head};
use super::lens::scores;
use super::stack;
use crate::{Error, Trace};

/// How many copies of a sequence run as one batch.
const COPIES: usize = 16;
const SCORE: &str = "why.score";
const SEED: &str = "why.seed";

/// How shares are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Gradient × input.
    GradientTimesInput,
    /// Integrated gradients, from the average token, in so many steps.
    Integrated {
        /// The steps from the average token to each token.
        steps: usize,
    },
}

/// A token of the input, and how much of a score hangs on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenShare {
    /// `source` or `target`.
    pub part: String,
    /// Which token, counted from 0.
    pub token: usize,
    /// What it is called, where it was given a name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// How much of the score.
    pub share: f64,
}

/// How much of a score hangs on each token.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gradients {
    /// Which score.
    pub focus: Focus,
    /// How the shares were found.
    pub method: Method,
    /// The score.
    pub score: f64,
    /// The score of a text of average tokens; only integrated gradients need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<f64>,
    /// What the shares miss of the score minus the baseline: how far the steps are from the integral.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<f64>,
    /// The tokens of each stack, in order.
    pub tokens: Vec<TokenShare>,
}

/// How much of the score `focus` of the run in `trace` hangs on each token that was read.
///
/// # Errors
/// If there is no such score, no token is embedded, or the way back leads through something that has no gradient.
pub fn gradients(
    trace: &Trace,
    backend: &dyn Backend,
    focus: Focus,
    method: Method,
) -> Result<Gradients, Error> {
    if !trace.edited().is_empty() {
        return Err(Error::Why { what: "gradients are of the model as it is, without edits".into() });
    }
    let graph = trace.untapped();
    focus.check(graph, trace.read("logits").map_err(|_| no_head())?.matrix().0)?;
    let (sequence, row) = focus.alone(graph, trace.sequence());
    let alone = Focus { row, ..focus };
    let mut slope = Slope::new(trace, backend, alone, sequence)?;
    let mut found =
        Gradients { focus, method, score: 0.0, baseline: None, missing: None, tokens: Vec::new() };
    let shares = match method {
        Method::GradientTimesInput => {
            let points = slope.at(&[1.0])?;
            found.score = points.scores[0];
            slope.along(&points.gradients[0], Way::FromNothing)
        }
        Method::Integrated { steps } => {
            let steps = steps.max(1);
            // Steps are shorter near the average token, whose row is small and is normed to a large one: α = t², so dα = 2t dt.
            let middle = |step: usize| (step as f64 + 0.5) / steps as f64;
            let mut shares = vec![0.0; slope.tokens()];
            let ends = slope.at(&[0.0, 1.0])?;
            for first in (0..steps).step_by(COPIES) {
                let chunk: Vec<f64> = (first..steps.min(first + COPIES)).map(middle).collect();
                let points = slope.at(&chunk.iter().map(|t| t * t).collect::<Vec<_>>())?;
                for (t, gradient) in chunk.iter().zip(&points.gradients) {
                    let part = slope.along(gradient, Way::FromAverage);
                    let weight = 2.0 * t / steps as f64;
                    shares.iter_mut().zip(part).for_each(|(share, part)| *share += weight * part);
                }
            }
            found.score = ends.scores[1];
            found.baseline = Some(ends.scores[0]);
            found.missing = Some(ends.scores[1] - ends.scores[0] - shares.iter().sum::<f64>());
            shares
        }
    };
    let tokens = slope
        .embedded
        .iter()
        .flat_map(|embedded| (0..embedded.rows).map(|token| (embedded.side.to_string(), token)));
    found.tokens = tokens
        .zip(shares)
        .map(|((part, token), share)| TokenShare { part, token, text: String::new(), share })
        .collect();
    Ok(found)
}

/// Where the words of a side are embedded, and their rows.
struct Embedded {
    side: Side,
    /// The input by which they are given.
    input: String,
    rows: usize,
    numbers: Vec<f32>,
    /// The average token.
    average: Vec<f64>,
}

/// From where a token came to be.
#[derive(Clone, Copy)]
enum Way {
    FromNothing,
    FromAverage,
}

impl Embedded {
    /// The rows on the way from the average token, at 0, to the tokens, at 1.
    fn at(&self, scale: f64) -> impl Iterator<Item = f32> + '_ {
        let averages = self.average.iter().cycle();
        self.numbers
            .iter()
            .zip(averages)
            .map(move |(&x, average)| (average + (f64::from(x) - average) * scale) as f32)
    }
}

/// A score as a function of the embeddings, with its slope.
struct Slope<'t> {
    trace: &'t Trace,
    backend: &'t dyn Backend,
    graph: Arc<Graph>,
    focus: Focus,
    sequence: Sequence,
    embedded: Vec<Embedded>,
    seed: Vec<f32>,
    run: Option<(usize, Forward)>,
}

/// Scores and slopes at some points.
struct Points {
    scores: Vec<f64>,
    /// For each point the gradients of all embeddings, side after side.
    gradients: Vec<Vec<f32>>,
}

impl<'t> Slope<'t> {
    fn new(
        trace: &'t Trace,
        backend: &'t dyn Backend,
        focus: Focus,
        sequence: Sequence,
    ) -> Result<Self, Error> {
        let whole = trace.untapped();
        let words: Vec<(Side, String)> = [Side::Source, Side::Target]
            .into_iter()
            .filter_map(|side| words(whole, side).map(|name| (side, name)))
            .collect();
        if words.is_empty() {
            return Err(Error::Why { what: "the model embeds no tokens".into() });
        }
        let names: Vec<&str> = words.iter().map(|(_, name)| name.as_str()).collect();
        let inputs: Vec<String> = names.iter().map(|name| given::name(name)).collect();
        let begun = given::given(&scores(whole)?, &names)?;
        let logits = begun.value("logits").map_err(|_| no_head())?;
        let width = begun.shape(logits).width;
        let mut build = Builder::extend(begun);
        build.forget_outputs();
        let seed = build.input(SEED, Shape::fixed(1, width))?;
        let score = build.add(SCORE, Linear, &[logits, seed])?; // [asked, 1]
        build.output("logits", logits);
        let sum = build.add("why.sum", SumRows, &[score])?; // [1, 1]
        let sum = build.graph().info(sum).name.clone();
        let inputs_named: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let graph = Arc::new(grad::grad(&build.finish(), &sum, &inputs_named)?);
        let mut weights = vec![0.0; width];
        weights[focus.column] += 1.0;
        if let Some(other) = focus.against {
            weights[other] -= 1.0;
        }
        let mut embedded = Vec::new();
        for ((side, name), input) in words.into_iter().zip(inputs) {
            let tensor = trace.read(&name)?;
            let numbers = tensor.data().to_vec();
            let average = average(trace, whole, &name, tensor.matrix().1);
            embedded.push(Embedded { side, input, rows: tensor.matrix().0, numbers, average });
        }
        Ok(Self { trace, backend, graph, focus, sequence, embedded, seed: weights, run: None })
    }

    /// How many tokens there are.
    fn tokens(&self) -> usize {
        self.embedded.iter().map(|embedded| embedded.rows).sum()
    }

    /// The score and its slope at each of `scales` of the way from the average token; all run as one batch.
    fn at(&mut self, scales: &[f64]) -> Result<Points, Error> {
        let sequences = vec![self.sequence.clone(); scales.len()];
        let scaled: Vec<Vec<f32>> = self
            .embedded
            .iter()
            .map(|embedded| scales.iter().flat_map(|&scale| embedded.at(scale)).collect())
            .collect();
        let mut named: Vec<Named<'_>> = self
            .embedded
            .iter()
            .zip(&scaled)
            .map(|(embedded, numbers)| Named { name: &embedded.input, numbers })
            .collect();
        named.push(Named { name: SEED, numbers: &self.seed });
        let model = self.trace.model();
        let run = match self.run.take() {
            Some((room, mut run)) if room >= scales.len() => {
                run.again(model, &sequences, &named)?;
                (room, run)
            }
            _ => {
                let run = Forward::given(model, &self.graph, self.backend, &sequences, &named)?;
                (scales.len(), run)
            }
        };
        let (_, run) = self.run.insert(run);
        let logits = run.output("logits")?.ok_or_else(no_head)?;
        let (width, rows) = (logits.shape.width, logits.rows / scales.len().max(1));
        let scores = logits.numbers.chunks((rows * width).max(1));
        let scores = scores.map(|logits| self.focus.of(logits, width).ok_or_else(no_head));
        let scores = scores.collect::<Result<Vec<f64>, Error>>()?;
        let mut gradients = vec![Vec::new(); scales.len()];
        for embedded in &self.embedded {
            let gradient = run.output(&grad::name(&embedded.input))?.ok_or_else(no_head)?;
            let each = embedded.numbers.len().max(1);
            for (into, part) in gradients.iter_mut().zip(gradient.numbers.chunks(each)) {
                into.extend_from_slice(part);
            }
        }
        Ok(Points { scores, gradients })
    }

    /// The product of each token's gradient with the way that its embedding came.
    fn along(&self, gradient: &[f32], way: Way) -> Vec<f64> {
        let mut shares = Vec::new();
        let mut from = 0;
        for embedded in &self.embedded {
            let width = (embedded.numbers.len() / embedded.rows.max(1)).max(1);
            let part = &gradient[from..from + embedded.numbers.len()];
            from += embedded.numbers.len();
            let start = |column: usize| match way {
                Way::FromNothing => 0.0,
                Way::FromAverage => embedded.average[column],
            };
            let rows = part.chunks(width).zip(embedded.numbers.chunks(width));
            shares.extend(rows.map(|(gradient, x)| {
                let columns = gradient.iter().zip(x).enumerate();
                columns.map(|(at, (g, x))| f64::from(*g) * (f64::from(*x) - start(at))).sum::<f64>()
            }));
        }
        shares
    }
}

/// The mean of the table from which the value `words` is looked up; zeros where words come from several tables.
fn average(trace: &Trace, graph: &Graph, words: &str, width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; width];
    let table = stack::maker(graph, words).filter(|node| matches!(node.op, Op::Lookup(_)));
    let table = table.and_then(|node| trace.model().get(&graph.info(node.inputs[0]).name));
    let Some(table) = table else { return sums };
    for row in table.chunks(width.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let rows = (table.len() / width.max(1)).max(1) as f64;
    for sum in &mut sums {
        *sum /= rows;
    }
    sums
}

/// The value in which the words of `side` are embedded, before anything is added to them.
fn words(graph: &Graph, side: Side) -> Option<String> {
    let begins = |name: &str| graph.nodes().iter().rfind(|node| node.name.starts_with(name));
    let clusters = begins(&format!("{side}.embed.clusters"));
    let found = clusters.or_else(|| begins(&format!("{side}.embed.up0")));
    found.or_else(|| begins(&format!("{side}.embed.words"))).map(|node| node.name.clone())
}
