//! A model prepared to generate: ▷, one token after the other. What is under way belongs to a [`Session`].

use std::sync::{Arc, Mutex, PoisonError};

use glassformer_formula::{Formula, Input, Mix, Position, Rotary, Scaling, Side, Sublayer};
use glassformer_graph::ops::Which;
use glassformer_graph::{Backend, Capacity, Dtype, PAGE, PageLayout, Pages, Runner, SideCapacity, State};
use glassformer_model::{Model, Purpose, page_layout};
use glassformer_tensor::Buffer;

use crate::draft::MOST_DRAFTED;
use crate::limits::Limits;
use crate::{Error, Event, Generated, Request, Room, Session};

/// Rows of sources in one run, unless one source alone has more: requests that come together are encoded together.
const SOURCE_ROWS: usize = 1024;

/// Models of one vocabulary may have different numbers of scores: fewer than this, as tables are padded.
const PADDING: usize = 256;

/// A model prepared to generate. Immutable and shared; a clone is the same one.
#[derive(Clone)]
pub struct Generator {
    prepared: Arc<Prepared>,
    draft_model: Option<Arc<Prepared>>,
}

pub(crate) struct Prepared {
    pub encode: Option<Box<dyn Runner>>,
    pub step: Box<dyn Runner>,
    pub room: Room,
    pub formula: Formula,
    pub limits: Limits,
    /// How many rows of zeros a target begins with.
    pub zeros: usize,
    /// How many rows of the past a row looks back to, where the model forgets.
    pub remembered: usize,
    pub reading: Reading,
    /// Rows of sources in one run.
    pub source_rows: usize,
    /// Rows of targets in one run.
    pub rows: usize,
    /// Which output holds the scores.
    pub logits: usize,
    /// What the last session left, for the next one: memory that the system need not clear again, a tenth of a short prompt's time.
    spare: Mutex<Option<State>>,
}

/// How a long beginning may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// In pieces of any size: the results are the same bits.
    Pieces,
    /// The prompt at once and then token by token: where pieces end changes what is remembered (Transformer-XL), or the
    /// angles follow the length at each run.
    AsWritten,
}

impl Generator {
    /// Prepares `model` for requests within `room`.
    ///
    /// # Errors
    /// If the model has no target, its weights do not fit, or the system has not the memory for such a room.
    pub fn new(model: &Model, backend: &dyn Backend, mut room: Room) -> Result<Self, Error> {
        let target = model.formula().target.as_ref();
        let zeros = target.map_or(Ok(0), zeros)?;
        room.pages += room.sequences * zeros.div_ceil(PAGE);
        let reading = target.map_or(Reading::Pieces, reading);
        let rows = match reading {
            Reading::Pieces => room.rows.max(room.sequences + MOST_DRAFTED),
            Reading::AsWritten => room.target + room.sequences,
        };
        let source_rows = room.source.saturating_mul(room.sequences).min(room.source.max(SOURCE_ROWS));
        let sequences = room.sequences;
        let source =
            SideCapacity { rows: source_rows, sequences, keys: room.source, ..SideCapacity::default() };
        let side = SideCapacity {
            rows,
            sequences,
            picked: sequences + MOST_DRAFTED,
            keys: zeros + room.target,
            ..SideCapacity::default()
        };
        let capacity = Capacity { source, target: side };
        let step = backend.prepare(&model.graph(Purpose::Step)?, model, &capacity)?;
        let encode = match model.formula().source {
            Some(_) => Some(backend.prepare(&model.graph(Purpose::Encode)?, model, &capacity)?),
            None => None,
        };
        let logits = step.graph().output("logits").ok_or_else(|| Error::Request {
            request: 0,
            what: "the model has no head that gives scores of tokens".into(),
            hint: "only a model with such a head generates".into(),
        })?;
        let vocabulary = step.graph().shape(step.graph().outputs()[logits].1).width;
        let formula = model.formula().clone();
        let limits = Limits::new(&formula, vocabulary);
        let remembered = target.map_or(usize::MAX, remembered);
        let prepared = Prepared {
            encode,
            step,
            room,
            formula,
            limits,
            zeros,
            remembered,
            reading,
            source_rows,
            rows,
            logits,
            spare: Mutex::default(),
        };
        let generator = Self { prepared: Arc::new(prepared), draft_model: None };
        let bytes = generator.bytes();
        if !Buffer::fits(bytes / size_of::<f32>()) {
            return Err(glassformer_graph::Error::Memory { what: "keys and values", bytes }.into());
        }
        Ok(generator)
    }

    /// Lets `small` draft what requests with [`Draft::Model`](crate::Draft::Model) write. Its tokens must be the same; where they are
    /// not, drafts are wrong, which costs time and changes nothing.
    ///
    /// # Errors
    /// If it writes another number of different tokens, or reads a source where this one does not.
    pub fn with_draft_model(self, small: &Generator) -> Result<Self, Error> {
        let [own, other] = [&self.prepared, &small.prepared];
        let refuse = |what: String| {
            Err(Error::Request { request: 0, what, hint: "draft with a smaller model of its family".into() })
        };
        let [tokens, drafted] = [own, other].map(|prepared| prepared.limits.scores);
        if tokens.abs_diff(drafted) >= PADDING {
            return refuse(format!(
                "the draft model writes {drafted} different tokens, and this one {tokens}"
            ));
        }
        if own.encode.is_some() != other.encode.is_some() {
            return refuse("one of this model and its draft model has an encoder, the other has none".into());
        }
        Ok(Self { draft_model: Some(small.prepared.clone()), ..self })
    }

    /// How many bytes the keys and values of a session take, those of a draft model included: known before it starts, and never more.
    pub fn bytes(&self) -> usize {
        let both = [Some(&self.prepared), self.draft_model.as_ref()];
        both.into_iter().flatten().map(|prepared| prepared.bytes()).fold(0, usize::saturating_add)
    }

    /// A session with nothing under way.
    pub fn session(&self) -> Session {
        Session::new(self.prepared.clone(), self.draft_model.clone())
    }

    /// Answers all `requests`, in their order. They run together as far as there is room.
    ///
    /// # Errors
    /// The first request that cannot be answered.
    pub fn run(&self, requests: Vec<Request>) -> Result<Vec<Vec<Generated>>, Error> {
        let mut session = self.session();
        let mut answers: Vec<Vec<Generated>> = requests.iter().map(|_| Vec::new()).collect();
        for request in requests {
            session.submit(request)?;
        }
        while !session.is_idle() {
            for event in session.step()? {
                match event {
                    Event::Token { .. } => {}
                    Event::Done { request, outputs } => answers[request] = outputs,
                    Event::Failed { error, .. } => return Err(error),
                }
            }
        }
        Ok(answers)
    }

    /// The best answer to each of `requests`; see [`Generator::run`].
    ///
    /// # Errors
    /// As [`Generator::run`].
    pub fn best(&self, requests: Vec<Request>) -> Result<Vec<Generated>, Error> {
        Ok(self.run(requests)?.into_iter().filter_map(|answers| answers.into_iter().next()).collect())
    }
}

impl Prepared {
    /// How many bytes keys and values take.
    fn bytes(&self) -> usize {
        let [cache, crossing] = self.layouts();
        let [targets, sources] = [(cache, self.room.pages), (crossing, self.room.source_pages)]
            .map(|(layout, pages)| self.step.page_bytes(&layout).saturating_mul(pages));
        targets.saturating_add(sources)
    }

    /// How the pages of targets and of sources are laid out.
    fn layouts(&self) -> [PageLayout; 2] {
        let crossing = self.encode.as_ref().map(|encode| page_layout(encode.graph(), Which::Crossing));
        let layouts = [page_layout(self.step.graph(), Which::Cache), crossing.unwrap_or_default()];
        let step = self.step.keeps();
        let shared = self.encode.as_ref().is_none_or(|encode| encode.keeps() == step);
        let dtype = if shared { step } else { Dtype::F32 };
        layouts.map(|layout| layout.with_dtype(dtype))
    }

    /// A state with all the pages of the room, none of them in use.
    pub fn state(&self) -> State {
        if let Some(spare) = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return spare;
        }
        let [cache, crossing] = self.layouts();
        let crossing = match self.encode {
            Some(_) => Pages::new(crossing, self.room.source_pages),
            None => Pages::default(),
        };
        State::new(Pages::new(cache, self.room.pages), crossing)
    }

    /// Takes a state back, if its pages are free again.
    pub fn give_back(&self, state: State) {
        let is_free = |pages: &Pages| pages.free() == pages.count();
        if is_free(&state.cache) && is_free(&state.crossing) {
            *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        }
    }

    /// Whether sources are images.
    pub fn reads_patches(&self) -> bool {
        matches!(self.formula.source, Some(Side { input: Input::Patches(_), .. }))
    }
}

/// How many rows of zeros a target begins with (Transformer-XL in Hugging Face layout). Their keys and values must be zeros
/// too, which they are where neither a norm nor a bias comes before.
fn zeros(target: &Side) -> Result<usize, Error> {
    let zeros = target.stack.position.zeros();
    let plain = |sublayer: &Sublayer| match &sublayer.mix {
        Mix::Attend(attention) => {
            let bias = attention.bias.key || attention.bias.value;
            !bias && sublayer.norm.input.is_none() && attention.norm.is_none()
        }
        Mix::Feed(_) => true,
    };
    if zeros == 0 || target.stack.block.iter().all(plain) {
        return Ok(zeros);
    }
    Err(Error::Request {
        request: 0,
        what: "the model begins with a memory of zeros, and norms it first".into(),
        hint: "such a model runs with `forward`; it does not generate".into(),
    })
}

fn remembered(target: &Side) -> usize {
    let memory = |position: &Position| match position {
        Position::TransformerXl { memory, .. } => Some(*memory),
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Rotary(_)
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::Together(_) => None,
    };
    target.stack.position.parts().iter().find_map(memory).unwrap_or(usize::MAX)
}

fn reading(target: &Side) -> Reading {
    let follows = |position: &Position| match position {
        Position::TransformerXl { .. } => true,
        Position::Rotary(Rotary { scaling, .. }) => {
            matches!(scaling, Scaling::Dynamic { .. } | Scaling::Long { .. })
        }
        Position::None
        | Position::Sinusoidal { .. }
        | Position::Learned { .. }
        | Position::Alibi
        | Position::Buckets { .. }
        | Position::Together(_) => false,
    };
    if target.stack.position.parts().iter().any(follows) { Reading::AsWritten } else { Reading::Pieces }
}
