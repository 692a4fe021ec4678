//! Every head taken away in turn: what becomes of a score?
//!
//! All heads of a layer are taken away at once, each in a copy of the sequence. The copies run as one batch from that layer on; what lies
//! before it is the same for all, and is taken from the run that is there. Each copy gets the bits of a whole run without that head.

use std::sync::Arc;

use glassformer_engine::{Forward, Named, Sequence};
use glassformer_graph::{Backend, Graph, Op, given};
use serde::Serialize;

use super::edit::With;
use super::focus::{Focus, no_head};
use super::lens::scores;
use super::stack::{self, Attention};
use crate::trace::PROBABILITIES;
use crate::{Error, Likely, Trace};

/// The most rows that run as one batch.
const ROWS: usize = 4096;

/// What is taken away in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// Every head of every attention.
    Heads,
    /// What every sublayer adds to the rows.
    Sublayers,
}

/// What becomes of a score without something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablated {
    /// `source` or `target`.
    pub part: String,
    /// `attend`, `cross` or `feed`.
    pub sublayer: String,
    /// Counted from 0.
    pub layer: usize,
    /// Counted from 0; nothing where the whole sublayer is taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<usize>,
    /// The score, or the difference of two.
    pub score: f64,
    /// The probability of what is asked about; the score itself where scores are what is asked for.
    pub p: f64,
}

/// What becomes of a score without each of many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Which score.
    pub focus: Focus,
    /// What was taken away in turn.
    pub each: Each,
    /// What was put in its place.
    pub with: With,
    /// The score with everything in place.
    pub score: f64,
    /// The probability with everything in place.
    pub p: f64,
    /// Without each, in the order of computation.
    pub without: Vec<Ablated>,
}

/// What becomes of the score `focus` of the run in `trace` without each head, or without each sublayer.
///
/// # Errors
/// If there is no such score, or a run fails.
pub fn sweep(
    trace: &Trace,
    backend: &dyn Backend,
    focus: Focus,
    (each, with): (Each, With),
) -> Result<Sweep, Error> {
    if !trace.edited().is_empty() {
        let what = "heads are taken away from the model as it is; list those to take away among the edits";
        return Err(Error::Why { what: what.into() });
    }
    let whole = trace.untapped();
    focus.check(whole, trace.read("logits").map_err(|_| no_head())?.matrix().0)?;
    let (sequence, row) = focus.alone(whole, trace.sequence());
    let alone = Focus { row, ..focus };
    let graph = Arc::new(given::given(&scores(whole)?, &[])?);
    // It stays until the end, so that every layer's run finds its weights prepared.
    let base = Forward::run(trace.model(), &graph, backend, std::slice::from_ref(&sequence))?;
    let context = Context { trace, backend, graph: &graph, sequence, focus: alone };
    let [(score, p)] = context.results(&base, 1)?[..] else { return Err(no_head()) };
    let mut without = Vec::new();
    // What the score does not hang on is not there any more.
    for place in places(whole, each).iter().filter(|place| graph.value(&place.value).is_ok()) {
        without.extend(context.without(place, with)?);
    }
    Ok(Sweep { focus, each, with, score, p, without })
}

/// A value, and the ranges of its columns that are taken away in turn.
struct Place {
    value: String,
    ranges: Vec<std::ops::Range<usize>>,
    ablated: Ablated,
}

fn places(graph: &Graph, each: Each) -> Vec<Place> {
    let named = |side: glassformer_graph::Side, sublayer: &str, layer| Ablated {
        part: side.to_string(),
        sublayer: sublayer.to_owned(),
        layer,
        head: None,
        score: 0.0,
        p: 0.0,
    };
    match each {
        Each::Heads => stack::attentions(graph)
            .into_iter()
            .map(|attention: Attention| Place {
                ranges: (0..attention.attend.heads).map(|head| attention.columns(head)).collect(),
                ablated: named(attention.side, &attention.sublayer, attention.layer),
                value: attention.mixed,
            })
            .collect(),
        Each::Sublayers => stack::sublayers(graph)
            .into_iter()
            .map(|sublayer| {
                let width = graph.value(&sublayer.branch).map_or(0, |value| graph.shape(value).width);
                let all = 0..width;
                Place {
                    ranges: vec![all],
                    ablated: named(sublayer.side, &sublayer.name, sublayer.layer),
                    value: sublayer.branch,
                }
            })
            .collect(),
    }
}

struct Context<'t> {
    trace: &'t Trace,
    backend: &'t dyn Backend,
    graph: &'t Graph,
    sequence: Sequence,
    focus: Focus,
}

impl Context<'_> {
    /// The results without each range of columns at `place`.
    fn without(&self, place: &Place, with: With) -> Result<Vec<Ablated>, Error> {
        let names = given::beside(self.graph, &[&place.value])?;
        let begun = given::given(self.graph, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
        let begun = Arc::new(begun);
        let rows = self.sequence.source.len() + self.sequence.target.len() + self.sequence.patches.len();
        let most = (ROWS / rows.max(1)).max(1);
        let mut found = Vec::new();
        let mut run: Option<Forward> = None;
        for (chunk, ranges) in place.ranges.chunks(most).enumerate() {
            let sequences = vec![self.sequence.clone(); ranges.len()];
            let inputs = names.iter().map(|name| given::name(name)).collect::<Vec<_>>();
            let copies = |name: &String| -> Result<Vec<f32>, Error> {
                let rows = self.trace.read(name)?;
                let copies = ranges.iter().flat_map(|range| {
                    if *name == place.value {
                        with.put(rows.data(), rows.matrix().1, range)
                    } else {
                        rows.data().to_vec()
                    }
                });
                Ok(copies.collect())
            };
            let numbers = names.iter().map(copies).collect::<Result<Vec<_>, Error>>()?;
            let named: Vec<Named<'_>> =
                inputs.iter().zip(&numbers).map(|(name, numbers)| Named { name, numbers }).collect();
            let model = self.trace.model();
            match &mut run {
                Some(run) => run.again(model, &sequences, &named)?,
                None => run = Some(Forward::given(model, &begun, self.backend, &sequences, &named)?),
            }
            let Some(run) = &run else { continue };
            for (at, (score, p)) in self.results(run, ranges.len())?.into_iter().enumerate() {
                let head = (place.ranges.len() > 1 || self.is_head(place)).then_some(chunk * most + at);
                found.push(Ablated { head, score, p, ..place.ablated.clone() });
            }
        }
        Ok(found)
    }

    fn is_head(&self, place: &Place) -> bool {
        stack::maker(self.graph, &place.value).is_some_and(|node| matches!(node.op, Op::Attend(_)))
    }

    /// The score and the probability of each of `copies` sequences.
    fn results(&self, run: &Forward, copies: usize) -> Result<Vec<(f64, f64)>, Error> {
        let logits = run.output("logits")?.ok_or_else(no_head)?;
        let width = logits.shape.width;
        let rows = logits.rows / copies.max(1);
        let likely = match self.trace.scores_mean() {
            Likely::Scores => logits.clone(),
            Likely::Softmax | Likely::Sigmoid => run.output(PROBABILITIES)?.ok_or_else(no_head)?,
        };
        let chunk = (rows * width).max(1);
        logits
            .numbers
            .chunks(chunk)
            .zip(likely.numbers.chunks(chunk))
            .map(|(logits, likely)| {
                let score = self.focus.of(logits, width).ok_or_else(no_head)?;
                Ok((score, f64::from(likely[self.focus.row * width + self.focus.column])))
            })
            .collect()
    }
}
