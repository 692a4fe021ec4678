//! What is asked for, and what is answered.

use std::sync::Arc;

use glassformer_formula::Formula;
use glassformer_graph::PAGE;

use crate::decoding::{LONGEST, MOST_BEAMS};
use crate::forward::source_rows;
use crate::{Constraint, Decoding, Error, Observer, Stopper};

/// How much can be under way at once. All memory for keys and values is decided here, before anything runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sequences at once: each beam is one.
    pub sequences: usize,
    /// The longest source.
    pub source: usize,
    /// The longest target, prompt and new tokens together.
    pub target: usize,
    /// Rows of targets in one step; longer prompts are read in several steps, beside what others write.
    pub rows: usize,
    /// Pages for the keys and values of targets, sixteen rows each. When they run out, requests wait.
    pub pages: usize,
    /// Pages for those of sources.
    pub source_pages: usize,
}

impl Room {
    /// Rows of a step where nothing else is said: enough to fill the processor, not so many that others wait long.
    const ROWS: usize = 512;

    /// Pages for as many sequences of the longest kind.
    pub fn new(sequences: usize, source: usize, target: usize) -> Self {
        let pages = |longest: usize| sequences.saturating_mul(longest.div_ceil(PAGE));
        Self {
            sequences,
            source,
            target,
            rows: target.min(Self::ROWS).max(sequences),
            pages: pages(target),
            source_pages: pages(source),
        }
    }

    /// What `requests` of a model of `formula` need to run together, but with at most `sequences` at once.
    pub fn of(formula: &Formula, requests: &[Request], sequences: usize) -> Self {
        let widths = || requests.iter().map(|request| request.decoding.width());
        let wanted = widths().fold(0, usize::saturating_add);
        let sequences = wanted.min(sequences.max(widths().max().unwrap_or(0))).max(1);
        let source = requests.iter().map(|request| request.source_rows(formula).unwrap_or(0));
        let target = requests.iter().map(Request::longest);
        // What no request may ask for is refused when it is submitted; it must not decide how much memory is taken.
        let target = target.filter(|&len| len <= LONGEST).max();
        let room = Self::new(sequences.min(MOST_BEAMS), source.max().unwrap_or(0), target.unwrap_or(1));
        // Short prompts are read together, in as few steps as may be.
        let begins = requests.iter().flat_map(|request| [request.prompt.len(), request.negative().len()]);
        let prompt = begins.max().unwrap_or(0);
        let prompts = prompt.saturating_mul(room.sequences).min(Self::ROWS);
        Self { rows: room.rows.max(prompts), ..room }
    }
}

/// What to generate from, and how.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The source's tokens; empty where the model has no encoder.
    pub source: Vec<u32>,
    /// The numbers of the source's patches, one patch after the other, where it is an image.
    pub patches: Vec<f32>,
    /// What the target begins with: the start token and a forced beginning, or a prompt.
    pub prompt: Vec<u32>,
    /// Where [`Decoding::guidance`] leads away from: a prompt of what is not wanted; empty for the last token of the prompt.
    pub negative: Vec<u32>,
    /// How tokens are chosen.
    pub decoding: Decoding,
    /// Who else may end a text.
    pub stopper: Option<Arc<dyn Stopper>>,
    /// The form that its texts must have.
    pub constraint: Option<Arc<dyn Constraint>>,
    /// Who watches its search.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whose this is, if what is read for it may be kept: later requests of the same owner that begin alike need not read it again.
    pub owner: Option<u64>,
}

impl Request {
    /// A request of a decoder that continues `prompt`.
    pub fn prompt(prompt: Vec<u32>, decoding: Decoding) -> Self {
        Self { prompt, decoding, ..Self::default() }
    }

    /// What guided sequences are compared with: the negative prompt, or else the last token of the prompt. Empty where nothing is
    /// guided.
    pub(crate) fn negative(&self) -> &[u32] {
        match self.prompt.len() {
            _ if !self.decoding.is_guided() => &[],
            last @ 1.. if self.negative.is_empty() => &self.prompt[last - 1..],
            _ => &self.negative,
        }
    }

    /// How long its longest sequence may become.
    pub(crate) fn longest(&self) -> usize {
        let prompt = self.prompt.len();
        let longest = self.decoding.longest(prompt);
        longest.max(self.negative().len().saturating_add(longest.saturating_sub(prompt)))
    }

    /// How many rows its source has in a model of `formula`.
    pub(crate) fn source_rows(&self, formula: &Formula) -> Result<usize, String> {
        source_rows(formula, (&self.source, &self.patches), &mut Vec::new())
    }

    /// A request of an encoder-decoder: the target begins with the start token, and then with `prefix`.
    ///
    /// # Errors
    /// If nothing says what the start token is.
    pub fn source(source: Vec<u32>, prefix: &[u32], decoding: Decoding) -> Result<Self, Error> {
        let start = decoding.start.ok_or_else(|| Error::Request {
            request: 0,
            what: "an encoder-decoder begins to write with its start token, and nothing says which that is"
                .into(),
            hint: "give the start token".into(),
        })?;
        let begun = prefix.first() == Some(&start);
        let prompt = Some(start).filter(|_| !begun).into_iter().chain(prefix.iter().copied()).collect();
        Ok(Self { source, prompt, decoding, ..Self::default() })
    }
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// An end token came.
    Eos,
    /// It was as long as allowed.
    #[default]
    Length,
    /// A stop sequence came, or the request's [`Stopper`] said so.
    Stop,
}

/// A token as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Which.
    pub id: u32,
    /// Its log-probability as the model gives it, before any rule, where that was asked for.
    pub logprob: Option<f32>,
    /// The likeliest tokens at this place with theirs, where they were asked for.
    pub others: Vec<(u32, f32)>,
}

/// What was generated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The new tokens, the end token included.
    pub ids: Vec<u32>,
    /// A beam's score: the sum of its log-probabilities over a power of its length.
    pub score: Option<f32>,
    /// Why it ended.
    pub finish: Finish,
    /// The log-probability of each token as the model gives it, before any rule, where that was asked for.
    pub logprobs: Vec<f32>,
    /// The likeliest tokens at each place with theirs, where they were asked for; not for beams.
    pub others: Vec<Vec<(u32, f32)>>,
}

impl Generated {
    /// Appends a token.
    pub(crate) fn push(&mut self, token: &Token) {
        self.ids.push(token.id);
        if let Some(logprob) = token.logprob {
            self.logprobs.push(logprob);
            self.others.push(token.others.clone());
        }
    }
}

/// What happened to a request in a step.
#[derive(Debug)]
pub enum Event {
    /// A token was written. Beams tell nothing until they are done.
    Token {
        /// The request's number.
        request: usize,
        /// Which of its returned sequences.
        sequence: usize,
        /// The token.
        token: Token,
    },
    /// The request is done.
    Done {
        /// The request's number.
        request: usize,
        /// What was generated, best first: one text or more.
        outputs: Vec<Generated>,
    },
    /// The request could not be answered; others are not concerned.
    Failed {
        /// The request's number.
        request: usize,
        /// Why.
        error: Error,
    },
}
