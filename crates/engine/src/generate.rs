//! Generation: ▷, one token after the other, until the end token or the longest length.

use glassformer_formula::Position;
use glassformer_graph::ops::Which;
use glassformer_graph::{Backend, Batch, Capacity, PAGE, Pages, Runner, SideCapacity, Span, State};
use glassformer_model::{Model, Purpose, page_layout};

use crate::Error;

/// How much can be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Sequences at once.
    pub sequences: usize,
    /// The longest source.
    pub source: usize,
    /// The longest target, prompt and new tokens together.
    pub target: usize,
}

/// What to generate from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The source's tokens; empty where the model has no encoder.
    pub source: Vec<u32>,
    /// What the target begins with: `<sos>`, or a prompt.
    pub prompt: Vec<u32>,
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// After this token, `<eos>`.
    pub end: Option<u32>,
    /// After that many new tokens.
    pub max_new_tokens: usize,
}

/// Why a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The end token came.
    Eos,
    /// It was as long as allowed.
    Length,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// The new tokens, the end token included.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish: Finish,
}

/// A model prepared to generate.
pub struct Generator {
    encode: Option<Box<dyn Runner>>,
    step: Box<dyn Runner>,
    room: Room,
    remembered: usize,
}

/// A sequence under way.
struct Live {
    request: usize,
    table: usize,
    source: Option<usize>,
    past: usize,
    next: Vec<u32>,
}

impl Generator {
    /// Prepares `model` for requests within `room`.
    ///
    /// # Errors
    /// If the model has no target, or its weights do not fit.
    pub fn new(model: &Model, backend: &dyn Backend, room: Room) -> Result<Self, Error> {
        let source = SideCapacity {
            rows: room.sequences * room.source,
            sequences: room.sequences,
            keys: room.source,
            ..SideCapacity::default()
        };
        let target = SideCapacity {
            rows: room.sequences * room.target,
            sequences: room.sequences,
            picked: room.sequences,
            keys: room.target,
            ..SideCapacity::default()
        };
        let capacity = Capacity { source, target };
        let step = backend.prepare(&model.graph(Purpose::Step)?, model, &capacity)?;
        let encode = match model.formula().source {
            Some(_) => Some(backend.prepare(&model.graph(Purpose::Encode)?, model, &capacity)?),
            None => None,
        };
        let position = model.formula().target.as_ref().map(|target| &target.stack.position);
        let remembered = match position {
            Some(Position::TransformerXl { memory, .. }) => *memory,
            _ => usize::MAX,
        };
        Ok(Self { encode, step, room, remembered })
    }

    /// A state with pages for all that `room` allows.
    fn state(&self) -> State {
        let pages = |longest: usize| self.room.sequences * longest.div_ceil(PAGE);
        let cache = Pages::new(page_layout(self.step.graph(), Which::Cache), pages(self.room.target));
        let crossing = match &self.encode {
            Some(encode) => Pages::new(page_layout(encode.graph(), Which::Crossing), pages(self.room.source)),
            None => Pages::default(),
        };
        State::new(cache, crossing)
    }

    /// The most likely token at each step (greedy decoding), for all requests as one batch.
    ///
    /// # Errors
    /// If a request is empty, too long, or holds a token beyond the vocabulary.
    pub fn greedy(&self, requests: &[Request], stop: Stop) -> Result<Vec<Generated>, Error> {
        self.admit(requests, stop)?;
        let mut done: Vec<Generated> =
            requests.iter().map(|_| Generated { ids: Vec::new(), finish: Finish::Length }).collect();
        if stop.max_new_tokens == 0 {
            return Ok(done);
        }
        let waiting: Vec<usize> = (0..requests.len()).collect();
        for group in waiting.chunks(self.room.sequences.max(1)) {
            let mut state = self.state();
            let mut live = self.start(&mut state, requests, group)?;
            while !live.is_empty() {
                let tokens = self.advance(&mut state, &mut live)?;
                let mut kept = Vec::new();
                for (mut sequence, token) in live.into_iter().zip(tokens) {
                    let generated = &mut done[sequence.request];
                    generated.ids.push(token);
                    if Some(token) == stop.end {
                        generated.finish = Finish::Eos;
                    }
                    if generated.finish == Finish::Eos || generated.ids.len() >= stop.max_new_tokens {
                        state.cache.close(sequence.table);
                        continue;
                    }
                    sequence.next = vec![token];
                    kept.push(sequence);
                }
                live = kept;
            }
        }
        Ok(done)
    }

    fn admit(&self, requests: &[Request], stop: Stop) -> Result<(), Error> {
        for (request, given) in requests.iter().enumerate() {
            let bad = |what: String, hint: &str| Err(Error::Request { request, what, hint: hint.to_owned() });
            if given.prompt.is_empty() {
                return bad("its prompt is empty".into(), "begin with the start token");
            }
            if self.encode.is_some() == given.source.is_empty() {
                return bad(
                    if given.source.is_empty() { "its source is empty" } else { "the model reads no source" }
                        .into(),
                    "give a source exactly where the model has an encoder",
                );
            }
            if given.source.len() > self.room.source {
                let what =
                    format!("its source has {} tokens, the room is {}", given.source.len(), self.room.source);
                return bad(what, "shorten it or prepare more room");
            }
            let longest = given.prompt.len().saturating_add(stop.max_new_tokens);
            if longest > self.room.target {
                return bad(
                    format!("it may grow to {longest} tokens, the room is {}", self.room.target),
                    "ask for less",
                );
            }
        }
        Ok(())
    }

    /// Encodes the sources of a group and opens its tables.
    fn start(&self, state: &mut State, requests: &[Request], group: &[usize]) -> Result<Vec<Live>, Error> {
        let mut live = Vec::new();
        let mut batch = Batch::default();
        for &request in group {
            let given = &requests[request];
            let source = if self.encode.is_some() {
                let table = state.crossing.open();
                state.crossing.reserve(table, given.source.len())?;
                batch.source.push(&given.source, Span { table, ..Span::default() });
                Some(table)
            } else {
                None
            };
            let table = state.cache.open();
            live.push(Live { request, table, source, past: 0, next: given.prompt.clone() });
        }
        if let Some(encode) = &self.encode {
            encode.run(state, &batch)?;
            for span in &batch.source.spans {
                state.crossing.set_len(span.table, span.len);
            }
        }
        Ok(live)
    }

    /// Runs one step of every live sequence and gives each its next token.
    fn advance(&self, state: &mut State, live: &mut [Live]) -> Result<Vec<u32>, Error> {
        let mut batch = Batch::default();
        for sequence in live.iter_mut() {
            let Live { table, source, past, .. } = *sequence;
            state.cache.reserve(table, past + sequence.next.len())?;
            let first = past.saturating_sub(self.remembered);
            let span = Span { table, past, first, source: source.unwrap_or(0), ..Span::default() };
            batch.target.push(&sequence.next, span);
            sequence.past += sequence.next.len();
        }
        batch.target.pick_last();
        self.step.run(state, &batch)?;
        for sequence in live.iter() {
            state.cache.set_len(sequence.table, sequence.past);
        }
        let index = self.step.graph().output("logits").unwrap_or(0);
        let logits = state.output(index); // [sequences, vocabulary]
        let vocabulary = logits.len() / live.len();
        Ok(logits.chunks(vocabulary).map(largest).collect())
    }
}

/// The place of the largest number; the first of equals.
fn largest(row: &[f32]) -> u32 {
    let better = |best: usize, (i, x): (usize, &f32)| if *x > row[best] { i } else { best };
    row.iter().enumerate().fold(0, better) as u32
}
