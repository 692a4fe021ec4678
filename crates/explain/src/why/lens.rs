//! The logit lens: what the model would say after each sublayer, if it stopped there.
//!
//! The rows behind each sublayer are read by everything that stands behind the last one: the final norm and the head, the very nodes of
//! the graph, with other rows given to them. So the last reading is the model's own output, bit for bit (nostalgebraist 2020). Norms of
//! post-norm models are part of the rows.

use std::sync::Arc;

use glassformer_engine::{Asked, Forward, Named, Sequence};
use glassformer_graph::{Backend, Builder, Graph, Origin, Rows, given};
use glassformer_tensor::Tensor;
use serde::Serialize;

use super::focus::no_head;
use super::stack::{self, Stream};
use crate::trace::PROBABILITIES;
use crate::{Error, Likely, Trace};

/// A guess of the head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guess {
    /// Which score: an id of the vocabulary, or the number of a label.
    pub id: usize,
    /// What that is called, where it was given a name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The score.
    pub logit: f32,
    /// What it means: a probability, or the score itself where scores are what is asked for.
    pub p: f32,
    /// How many are larger, and one.
    pub rank: usize,
}

/// What is read at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The largest, the largest first.
    pub top: Vec<Guess>,
    /// What the reader asks about: the token that was written there, the class that was chosen.
    pub wanted: Option<Guess>,
    /// How undecided the row is, in bits, where its probabilities sum to one.
    pub entropy: Option<f32>,
}

impl Cell {
    /// Gives every guess its name.
    pub fn name(&mut self, name: &dyn Fn(usize) -> String) {
        let all = self.top.iter_mut().chain(&mut self.wanted);
        all.for_each(|guess| guess.text = name(guess.id));
    }
}

/// What the head reads behind one sublayer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// The name of the rows.
    pub value: String,
    /// Behind which layer, counted from 0; nothing for the embeddings.
    pub layer: Option<usize>,
    /// Behind which sublayer: `embed`, `attend`, `cross`, `feed`; `output` where several layers are mixed.
    pub part: String,
    /// What is read, a cell for each place.
    pub cells: Vec<Cell>,
}

/// What the head reads behind every sublayer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lens {
    /// Which rows were read; 0 alone where a text has one row of scores.
    pub places: Vec<usize>,
    /// The readings, from the embeddings on; the last is the model's own output.
    pub readings: Vec<Reading>,
}

/// A place that is read, and the score that is asked about there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The row.
    pub row: usize,
    /// The score.
    pub wanted: Option<usize>,
}

/// Scores as a reading gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// `[places, scores]`.
    pub logits: Tensor,
    /// What they mean, alike.
    pub probabilities: Tensor,
}

/// The part of a model behind its last sublayer, ready to read any rows.
pub struct LogitLens<'t> {
    trace: &'t Trace,
    backend: &'t dyn Backend,
    graph: Arc<Graph>,
    input: String,
    streams: Vec<Stream>,
    sequence: Sequence,
    places: Vec<usize>,
    run: Option<Forward>,
}

impl<'t> LogitLens<'t> {
    /// Prepares to read rows of `trace` at `places`; all of them where there are none.
    ///
    /// # Errors
    /// If the model has no head that scores.
    pub fn new(trace: &'t Trace, backend: &'t dyn Backend, places: &[usize]) -> Result<Self, Error> {
        let whole = trace.untapped();
        let shape = whole.shape(whole.value("logits").map_err(|_| no_head())?);
        let entry = stack::entry(whole)?;
        let streams = stack::streams(whole)?;
        let picks = matches!(shape.rows, Rows::Picked(_));
        let rows = trace.read(&streams[0].value)?.matrix().0;
        let places = match (picks, places) {
            (true, []) => (0..rows).collect(),
            (true, _) => places.to_vec(),
            (false, _) => vec![0],
        };
        let asked = if picks { Asked::Rows(places.clone()) } else { Asked::All };
        let (graph, input) = from(&scores(whole)?, &entry)?;
        let sequence = Sequence { asked, ..trace.sequence().clone() };
        Ok(Self { trace, backend, graph: Arc::new(graph), input, streams, sequence, places, run: None })
    }

    /// The rows that can be read, in the order of computation.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Which rows are read.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// What the head reads behind `stream`.
    ///
    /// # Errors
    /// If the run fails, or there is no such value.
    pub fn read(&mut self, stream: &Stream) -> Result<Scores, Error> {
        let rows = self.trace.read(&stream.value)?;
        let named = [Named { name: &self.input, numbers: rows.data() }];
        let sequences = std::slice::from_ref(&self.sequence);
        let model = self.trace.model();
        let run = match self.run.take() {
            Some(mut run) => {
                run.again(model, sequences, &named)?;
                run
            }
            None => Forward::given(model, &self.graph, self.backend, sequences, &named)?,
        };
        let run = self.run.insert(run);
        let output = |name: &str| -> Result<Tensor, Error> {
            let found = run.output(name)?.ok_or_else(no_head)?;
            let shape = [found.rows, found.shape.width];
            Tensor::new(&shape, found.numbers.into_owned()).ok_or_else(no_head)
        };
        let logits = output("logits")?;
        let probabilities = match self.trace.scores_mean() {
            Likely::Scores => logits.clone(),
            Likely::Softmax | Likely::Sigmoid => output(PROBABILITIES)?,
        };
        Ok(Scores { logits, probabilities })
    }
}

/// How many scores are computed in one run: the table of a large vocabulary is read once for many rows.
const TOGETHER: usize = 1 << 24;

impl LogitLens<'_> {
    /// What the head reads behind each of `streams`. Many are read in one run, each with the bits that it has alone.
    ///
    /// # Errors
    /// As [`LogitLens::read`].
    pub fn read_all(&mut self, streams: &[Stream]) -> Result<Vec<Scores>, Error> {
        let [first, rest @ ..] = streams else { return Ok(Vec::new()) };
        let mut all = vec![self.read(first)?];
        let (each, width) = all[0].logits.matrix();
        let together = (TOGETHER / (each * width).max(1)).max(1);
        for streams in rest.chunks(together) {
            let mut numbers = Vec::new();
            for stream in streams {
                numbers.extend_from_slice(self.trace.read(&stream.value)?.data());
            }
            let sequences = vec![self.sequence.clone(); streams.len()];
            let named = [Named { name: &self.input, numbers: &numbers }];
            let run = Forward::given(self.trace.model(), &self.graph, self.backend, &sequences, &named)?;
            let output = |name: &str| -> Result<Vec<Tensor>, Error> {
                let found = run.output(name)?.ok_or_else(no_head)?;
                let size = found.rows / streams.len() * found.shape.width;
                let shape = [found.rows / streams.len(), found.shape.width];
                let parts = found.numbers.chunks(size.max(1));
                let parts: Option<Vec<Tensor>> =
                    parts.map(|part| Tensor::new(&shape, part.to_vec())).collect();
                parts.ok_or_else(no_head)
            };
            let logits = output("logits")?;
            let probabilities = match self.trace.scores_mean() {
                Likely::Scores => logits.clone(),
                Likely::Softmax | Likely::Sigmoid => output(PROBABILITIES)?,
            };
            let scores = logits.into_iter().zip(probabilities);
            all.extend(scores.map(|(logits, probabilities)| Scores { logits, probabilities }));
        }
        Ok(all)
    }
}

/// What the head of the run that `trace` holds reads at `places` behind every sublayer: at each the `most` largest scores.
///
/// # Errors
/// If the model has no head that scores, or the run fails.
pub fn lens(trace: &Trace, backend: &dyn Backend, places: &[Looked], most: usize) -> Result<Lens, Error> {
    let rows: Vec<usize> = places.iter().map(|looked| looked.row).collect();
    let mut lens = LogitLens::new(trace, backend, &rows)?;
    let sums = trace.scores_mean() == Likely::Softmax;
    let mut readings = Vec::new();
    let streams = lens.streams().to_vec();
    let all = lens.read_all(&streams)?;
    for (stream, scores) in streams.into_iter().zip(all) {
        let wanted = |place: usize| places.get(place).and_then(|looked| looked.wanted);
        let cells = (0..scores.logits.matrix().0).map(|row| cell(&scores, row, wanted(row), (most, sums)));
        readings.push(Reading {
            cells: cells.collect(),
            value: stream.value,
            layer: stream.layer,
            part: stream.part,
        });
    }
    Ok(Lens { places: lens.places, readings })
}

/// Row `row` of `scores`.
pub(super) fn cell(scores: &Scores, row: usize, wanted: Option<usize>, (most, sums): (usize, bool)) -> Cell {
    let width = scores.logits.matrix().1;
    let [logits, shares] =
        [&scores.logits, &scores.probabilities].map(|tensor| &tensor.data()[row * width..(row + 1) * width]);
    let guess = |id: usize| Guess {
        id,
        text: String::new(),
        logit: logits[id],
        p: shares[id],
        rank: 1 + logits.iter().filter(|other| **other > logits[id]).count(),
    };
    let top = crate::tour::largest(logits, most.max(1));
    // −Σ p log p, where log p is a score less what all of them have in common: one logarithm, not one for each.
    let entropy = || {
        let common = top.first().map_or(0.0, |&best| f64::from(logits[best]) - f64::from(shares[best]).ln());
        let seen = shares.iter().zip(logits).filter(|(p, _)| **p > 0.0);
        let expected: f64 = seen.map(|(&p, &score)| f64::from(p) * f64::from(score)).sum();
        ((common - expected) / std::f64::consts::LN_2).max(0.0) as f32
    };
    Cell {
        top: top.iter().take(most).map(|&id| guess(id)).collect(),
        wanted: wanted.filter(|id| *id < width).map(guess),
        entropy: sums.then(entropy),
    }
}

/// `graph` with its scores as the only outputs.
pub(super) fn scores(graph: &Graph) -> Result<Graph, Error> {
    let logits = graph.value("logits").map_err(|_| no_head())?;
    let mut build = Builder::extend(graph.clone());
    build.forget_outputs();
    build.output("logits", logits);
    if let Ok(probabilities) = graph.value(PROBABILITIES) {
        build.output(PROBABILITIES, probabilities);
    }
    Ok(build.finish())
}

/// `graph` from the value `entry` on, and the input by which that is given.
pub(super) fn from(graph: &Graph, entry: &str) -> Result<(Graph, String), Error> {
    match graph.info(graph.value(entry)?).origin {
        // It was edited, and so comes from outside already.
        Origin::Leaf(_) => Ok((given::given(graph, &[])?, entry.to_owned())),
        Origin::Node(..) => Ok((given::given(graph, &[entry])?, given::name(entry))),
    }
}
