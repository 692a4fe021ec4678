//! Workloads to measure: what runs, which part of it is timed, and how much work that is.
//!
//! Token ids are random. Exactly as many tokens are written as asked for: no token ends a text before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassformer_formula::{Formula, Input};
use glassformer_graph::{Backend, Batch, Side, Span, Work};
use glassformer_model::{Model, Purpose};
use glassformer_tensor::Random;

use crate::{Asked, Decoding, Error, Event, Generator, Passes, Request, Room, Sequence, Session};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Texts through an encoder, to the last stack's rows; the head is asked about the first row of each.
    Encode,
    /// A prompt through a decoder, to the scores of the next token.
    Prefill,
    /// New tokens of a decoder, one after the other, after a prompt that is not timed.
    Decode,
    /// Texts through an encoder, and new tokens of its decoder.
    Translate,
}

impl Kind {
    /// What a model of `formula` can be measured at.
    pub fn of(formula: &Formula) -> &'static [Self] {
        match (&formula.source, &formula.target) {
            (Some(_), Some(_)) => &[Self::Translate],
            (None, Some(_)) => &[Self::Prefill, Self::Decode],
            (Some(_) | None, None) => &[Self::Encode],
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Translate => "translate",
        }
    }
}

/// A workload: what is done, with how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// What.
    pub kind: Kind,
    /// Texts at once.
    pub batch: usize,
    /// Texts in all.
    pub texts: usize,
    /// Tokens of the shortest text, or prompt.
    pub shortest: usize,
    /// Tokens of the longest; in between, lengths are drawn evenly.
    pub longest: usize,
    /// New tokens of each text.
    pub new: usize,
    /// Beams of a search; 1 for none.
    pub beams: usize,
}

impl Workload {
    /// How many tokens a run is: those read by an encoder or in a prompt, else those written.
    fn tokens(&self, lengths: &[usize]) -> usize {
        match self.kind {
            Kind::Encode | Kind::Prefill => lengths.iter().sum(),
            Kind::Decode | Kind::Translate => self.texts * self.new,
        }
    }
}

/// A workload prepared for a model.
pub struct Bench {
    workload: Workload,
    lengths: Vec<usize>,
    prepared: Prepared,
}

enum Prepared {
    Encode(Box<Passes>, Vec<Sequence>),
    Generate(Generator, Vec<Request>),
}

impl Bench {
    /// Prepares `workload`; `decoding` says which tokens begin and end a text.
    ///
    /// # Errors
    /// If the model cannot do that, or not with so many tokens.
    pub fn new(
        model: &Model,
        backend: &Arc<dyn Backend>,
        workload: Workload,
        decoding: &Decoding,
    ) -> Result<Self, Error> {
        let formula = model.formula();
        if !Kind::of(formula).contains(&workload.kind) {
            let able: Vec<&str> = Kind::of(formula).iter().map(|kind| kind.name()).collect();
            return Err(refused(
                format!("this model does not {}", workload.kind.name()),
                format!("measure {}", able.join(" or ")),
            ));
        }
        let Workload { batch, texts, shortest, longest, new, beams, .. } = workload;
        if [batch, texts, shortest, new, beams].contains(&0) || shortest > longest {
            return Err(refused(
                "a workload of nothing".to_owned(),
                "use numbers from 1 on, and lengths in their order".to_owned(),
            ));
        }
        if workload.kind == Kind::Decode && (beams > 1 || texts != batch) {
            return Err(refused(
                "decoding is measured without beams, and all texts at once".to_owned(),
                "leave beams out".to_owned(),
            ));
        }
        let mut random = Random::new(1);
        let lengths: Vec<usize> =
            (0..texts).map(|_| shortest + random.below(longest - shortest + 1)).collect();
        let side = if workload.kind == Kind::Encode || workload.kind == Kind::Translate {
            Side::Source
        } else {
            Side::Target
        };
        let vocabulary = vocabulary(formula, side).ok_or_else(|| {
            refused(
                "this model does not read tokens".to_owned(),
                "only models that do are measured".to_owned(),
            )
        })?;
        // The last ids are often special ones, and so are the first.
        let mut ids = |len: usize| -> Vec<u32> {
            (0..len).map(|_| (vocabulary / 16 + random.below(vocabulary - vocabulary / 8)) as u32).collect()
        };
        let texts: Vec<Vec<u32>> = lengths.iter().map(|&len| ids(len)).collect();
        let prepared = if workload.kind == Kind::Encode {
            let sequence = |source| Sequence { source, asked: Asked::Rows(vec![0]), ..Sequence::default() };
            let passes = Passes::new(model, backend.clone())?;
            Prepared::Encode(Box::new(passes), texts.into_iter().map(sequence).collect())
        } else {
            let new = match workload.kind {
                Kind::Prefill => 1,
                Kind::Decode => new + 1,
                Kind::Encode | Kind::Translate => new,
            };
            let decoding = Decoding {
                // Where nothing says what a text begins with, any token will do: what it costs is the same.
                start: Some(decoding.start.unwrap_or(0)),
                end: decoding.end.clone(),
                pad: decoding.pad,
                max_new_tokens: Some(new),
                min_new_tokens: Some(new),
                beams,
                ..Decoding::default()
            };
            let request = |ids: Vec<u32>| match side {
                Side::Source => Request::source(ids, &[], decoding.clone()),
                Side::Target => Ok(Request::prompt(ids, decoding.clone())),
            };
            let requests = texts.into_iter().map(request).collect::<Result<Vec<_>, _>>()?;
            let room = Room::of(formula, &requests, batch * beams);
            Prepared::Generate(Generator::new(model, backend.as_ref(), room)?, requests)
        };
        Ok(Self { workload, lengths, prepared })
    }

    /// Lets `change` add to the sequences of an encoder what the model wants besides tokens.
    pub fn complete(&mut self, change: impl Fn(&mut Sequence)) {
        match &mut self.prepared {
            Prepared::Encode(_, sequences) => sequences.iter_mut().for_each(change),
            Prepared::Generate(..) => {}
        }
    }

    /// What it is.
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// How many tokens a run is: those read by an encoder or in a prompt, else those written.
    pub fn tokens(&self) -> usize {
        self.workload.tokens(&self.lengths)
    }

    /// Runs it once, and tells how long what is timed took.
    ///
    /// # Errors
    /// If the model cannot run.
    pub fn run(&mut self) -> Result<Duration, Error> {
        match &mut self.prepared {
            Prepared::Encode(passes, sequences) => {
                let began = Instant::now();
                for texts in sequences.chunks(self.workload.batch) {
                    passes.run(texts)?;
                }
                Ok(began.elapsed())
            }
            Prepared::Generate(generator, requests) => {
                let mut session = generator.session();
                for request in requests.iter() {
                    session.submit(request.clone())?;
                }
                if self.workload.kind == Kind::Decode {
                    let mut begun = vec![false; requests.len()];
                    while begun.contains(&false) && !session.is_idle() {
                        step(&mut session)?.into_iter().for_each(|request| begun[request] = true);
                    }
                }
                let began = Instant::now();
                while !session.is_idle() {
                    step(&mut session)?;
                }
                Ok(began.elapsed())
            }
        }
    }

    /// The work of what is timed, and how often all weights of the decoder (of the only stack) and of the encoder are read.
    ///
    /// # Errors
    /// If the model cannot be lowered.
    pub fn work(&self, model: &Model) -> Result<(Work, [usize; 2]), Error> {
        let Workload { kind, batch, texts, new, beams, .. } = self.workload;
        let rounds = texts.div_ceil(batch);
        let step = |count: usize, len: usize, past: usize, source: usize| -> Result<Work, Error> {
            let mut packed = Batch::default();
            (0..count).for_each(|_| packed.target.push(&vec![0; len], Span { past, ..Span::default() }));
            packed.target.pick_last();
            Ok(Work::of(&*model.graph(Purpose::Step)?, &packed, |_| source))
        };
        let read = |purpose: Purpose| -> Result<Work, Error> {
            let mut packed = Batch::default();
            self.lengths.iter().for_each(|&len| packed.source.push(&vec![0; len], Span::default()));
            packed.source.pick_last();
            Ok(Work::of(&*model.graph(purpose)?, &packed, |_| 0))
        };
        let mean = self.lengths.iter().sum::<usize>() / texts;
        Ok(match kind {
            Kind::Encode => (read(Purpose::Whole)?, [rounds, 0]),
            Kind::Prefill => (step(texts, mean, 0, 0)?, [rounds, 0]),
            Kind::Decode => (step(texts, 1, mean + new / 2, 0)?.times(new as f64), [rounds * new, 0]),
            Kind::Translate => {
                let first = step(texts, 1, 0, mean)?;
                let later = step(texts * beams, 1, new / 2, mean)?.times(new as f64 - 1.0);
                (read(Purpose::Encode)? + first + later, [rounds * new, rounds])
            }
        })
    }
}

/// Takes a step, and tells which requests wrote a token.
fn step(session: &mut Session) -> Result<Vec<usize>, Error> {
    let mut told = Vec::new();
    for event in session.step()? {
        match event {
            Event::Token { request, .. } => told.push(request),
            Event::Done { .. } => {}
            Event::Failed { error, .. } => return Err(error),
        }
    }
    Ok(told)
}

/// How many words the side that is given to reads.
fn vocabulary(formula: &Formula, side: Side) -> Option<usize> {
    let side = match side {
        Side::Source => formula.source.as_ref(),
        Side::Target => formula.target.as_ref(),
    };
    match &side?.input {
        Input::Tokens(tokens) => Some(tokens.vocabulary),
        Input::Patches(_) => None,
    }
}

fn refused(what: String, hint: String) -> Error {
    Error::Request { request: 0, what, hint }
}
