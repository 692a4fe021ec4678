//! What each head does, in numbers: how widely it looks, and whether it looks at itself, at the token before, at the first one, at what
//! followed the same token earlier (induction), or along the other text (alignment).

use std::sync::Arc;

use glassformer_engine::{Forward, Sequence};
use glassformer_graph::{Backend, Side, tap};
use glassformer_tensor::Random;
use serde::Serialize;

use super::stack::{self, Attention};
use crate::{Error, Trace};

/// A head and what it does, each a mean over the rows that look. Shares of attention lie between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadStatistics {
    /// `source` or `target`.
    pub part: String,
    /// `attend` or `cross`.
    pub sublayer: String,
    /// Counted from 0, as in the names of values.
    pub layer: usize,
    /// Counted from 0.
    pub head: usize,
    /// How widely it looks, in bits: 0 where all goes to one key.
    pub entropy: f64,
    /// The share of the diagonal: of the row itself, or where it looks at another text, of the key as far along in that.
    pub diagonal: f64,
    /// The share of the token before. Nothing where it looks at another text, or there is one row.
    pub previous: Option<f64>,
    /// The share of the first key.
    pub first: f64,
    /// The share of what followed the same token earlier (Olsson et al. 2022). In models that write and have one stack this is measured
    /// on random tokens, said twice; elsewhere there is none.
    pub induction: Option<f64>,
    /// How sharply it points at the other text: the largest share of a key that is neither the first nor the last. Nothing where it
    /// looks at its own text.
    pub alignment: Option<f64>,
}

/// How many random tokens are said twice, to find heads of induction, and what they are drawn from.
pub const INDUCTION_TOKENS: usize = 24;
const SEED: u64 = 36;

/// What the heads of the run in `trace` do. Heads of induction are looked for in a second run.
///
/// # Errors
/// If the second run fails.
pub fn heads(trace: &Trace, backend: &dyn Backend) -> Result<Vec<HeadStatistics>, Error> {
    let induction = induction(trace, backend)?;
    let mut all = Vec::new();
    for attention in stack::attentions(trace.untapped()) {
        let Ok(shares) = trace.read(&format!("{}.probs", attention.scope)) else { continue };
        let [rows, keys, heads] = shares.shape()[..] else { continue };
        // Where rows are squeezed into few, keys are no tokens.
        let own = !attention.crosses();
        if own && keys < rows {
            continue;
        }
        for head in 0..heads {
            let shares = Shares { all: shares.data(), rows, keys, heads, head };
            let found = induction.iter().find(|(scope, of, _)| *scope == attention.scope && *of == head);
            all.push(shares.statistics(&attention, found.map(|(.., share)| *share)));
        }
    }
    Ok(all)
}

/// The shares of one head: `[rows, keys]` of `[rows, keys, heads]`.
struct Shares<'s> {
    all: &'s [f32],
    rows: usize,
    keys: usize,
    heads: usize,
    head: usize,
}

impl Shares<'_> {
    fn at(&self, row: usize, key: usize) -> f64 {
        f64::from(self.all[(row * self.keys + key) * self.heads + self.head])
    }

    /// The mean over rows from `from` on.
    fn mean(&self, from: usize, of: impl Fn(usize) -> f64) -> f64 {
        let rows = self.rows.saturating_sub(from).max(1);
        (from..self.rows).map(of).sum::<f64>() / rows as f64
    }

    fn statistics(&self, attention: &Attention, induction: Option<f64>) -> HeadStatistics {
        let own = !attention.crosses();
        // Remembered rows stand before the text's own.
        let offset = if own { self.keys - self.rows } else { 0 };
        let along = |row: usize| {
            if own { row + offset } else { ((row * self.keys) / self.rows.max(1)).min(self.keys - 1) }
        };
        let bits = |row: usize| {
            let parts = (0..self.keys).map(|key| self.at(row, key)).filter(|p| *p > 0.0);
            parts.map(|p| -p * p.log2()).sum::<f64>()
        };
        let inner = if self.keys > 2 { 1..self.keys - 1 } else { 0..self.keys };
        let sharpest = |row: usize| inner.clone().map(|key| self.at(row, key)).fold(0.0, f64::max);
        HeadStatistics {
            part: attention.side.to_string(),
            sublayer: attention.sublayer.clone(),
            layer: attention.layer,
            head: self.head,
            entropy: self.mean(0, bits),
            diagonal: self.mean(0, |row| self.at(row, along(row))),
            previous: (own && self.rows > 1).then(|| self.mean(1, |row| self.at(row, along(row) - 1))),
            first: self.mean(0, |row| self.at(row, 0)),
            induction,
            alignment: (!own).then(|| self.mean(0, sharpest)),
        }
    }
}

/// The share that each head gives to what followed the same token earlier, by the attention's scope and the head.
fn induction(trace: &Trace, backend: &dyn Backend) -> Result<Vec<(String, usize, f64)>, Error> {
    let graph = trace.untapped();
    let looks_back = |attention: &Attention| attention.side == Side::Target && attention.is_causal();
    let attentions: Vec<Attention> = stack::attentions(graph).into_iter().filter(looks_back).collect();
    let writes_alone = trace.sequence().source.is_empty() && !trace.sequence().target.is_empty();
    let Some(vocabulary) = vocabulary(trace).filter(|_| writes_alone && trace.edited().is_empty()) else {
        return Ok(Vec::new());
    };
    let mut random = Random::new(SEED);
    let first = trace.sequence().target.first().copied();
    let once: Vec<u32> = (0..INDUCTION_TOKENS).map(|_| (random.bits() % vocabulary as u64) as u32).collect();
    let target: Vec<u32> =
        first.into_iter().chain(once.iter().copied()).chain(once.iter().copied()).collect();
    let names: Vec<String> =
        attentions.iter().map(|attention| format!("{}.probs", attention.scope)).collect();
    let mut build = glassformer_graph::Builder::extend(graph.clone());
    build.forget_outputs();
    let tapped = tap::tap(&build.finish(), &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let tapped = Arc::new(glassformer_graph::given::given(&tapped, &[])?);
    let sequence = Sequence { target, ..Sequence::default() };
    // A model may read no more than the text: then nothing is known of this.
    let Ok(run) = Forward::run(trace.model(), &tapped, backend, &[sequence]) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (attention, name) in attentions.iter().zip(&names) {
        let Some(output) = run.output(name)? else { continue };
        let rows = 2 * INDUCTION_TOKENS + 1;
        let keys = output.rows / rows;
        if keys < rows {
            continue;
        }
        let offset = keys - rows;
        for head in 0..output.shape.width {
            let shares = Shares { all: &output.numbers, rows, keys, heads: output.shape.width, head };
            // The second time a token is read, what followed it the first time stands so far back.
            let back = INDUCTION_TOKENS - 1;
            let share = shares.mean(INDUCTION_TOKENS + 1, |row| shares.at(row, row + offset - back));
            all.push((attention.scope.clone(), head, share));
        }
    }
    Ok(all)
}

/// How many words the model knows, where it reads words.
fn vocabulary(trace: &Trace) -> Option<usize> {
    let input = &trace.model().formula().target.as_ref()?.input;
    match input {
        glassformer_formula::Input::Tokens(tokens) => Some(tokens.vocabulary),
        glassformer_formula::Input::Patches(_) => None,
    }
}
