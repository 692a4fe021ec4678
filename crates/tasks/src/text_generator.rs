//! A model that writes, with its tokenizer: text in, text out, piece by piece.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use glassformer_engine::{Decoding, Finish, Generated, Generator, Request, Room, Sampling};
use glassformer_families::{self as families, Checkpoint, Generation, generation};
use glassformer_graph::Backend;
use glassformer_tokens::{ChatTemplate, Special, Tokenizer};
use glassformer_weights::Weights;

use crate::decoding::decoding_of;
use crate::service::{Order, QueueLimits, Rooms, Service, ServiceLoad, Ticket, Update};
use crate::stop::{Held, StopTexts};
use crate::text_encoder::longest;
use crate::{Error, Long};

/// Sequences that are written at once: enough that a step is a matrix product, few enough that pages fit.
const TOGETHER: usize = 32;

/// How many tokens are written where neither the model's files nor the user say how many. The reference writes 20, which is
/// less than anybody wants to read.
const NEW_TOKENS: usize = 256;

/// Lengths that room is made for are rounded up to this, so that few texts need the model prepared again.
const ROUND: usize = 128;

/// The same where what was read is kept for a longer text: preparing anew forgets it.
const ROUND_KEPT: usize = 2048;

/// Sequences that there is room for at least, if the system has the memory: callers on other threads join.
const AT_LEAST: usize = 8;

/// A model that writes. Threads can share it: what they ask for runs together, on a thread of its own.
pub struct TextGenerator {
    checkpoint: Arc<Checkpoint>,
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    usual: Generate,
    backend: Arc<dyn Backend>,
    service: OnceLock<Service>,
}

/// A model as part of a program: the files of a folder in Hugging Face layout.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// `config.json`.
    pub config: &'static str,
    /// `generation_config.json`.
    pub generation: &'static str,
    /// `tokenizer.json`.
    pub tokenizer: &'static str,
    /// `tokenizer_config.json`.
    pub tokenizer_config: &'static str,
    /// `model.safetensors`, or its shards: the name and the bytes of each.
    pub weights: &'static [(&'static str, &'static [u8])],
}

/// How text is written. [`TextGenerator::default_options`] gives what the model's files say, to be changed: by its methods, or field by
/// field.
#[derive(Clone, Debug, Default)]
pub struct Generate {
    /// How tokens are chosen.
    pub decoding: Decoding,
    /// Texts that end a text when they come; they are not part of it.
    pub stop: Vec<String>,
    /// What a text that an encoder-decoder writes begins with.
    pub prefix: String,
    /// A prompt of what is not wanted, where `decoding.guidance` leads away from it; without one, from what follows the last token
    /// of the prompt alone.
    pub negative: String,
    /// What is done with a source or a prompt that is too long. A prompt loses its beginning: what is written goes on from its
    /// end.
    pub long: Long,
    /// Whose text this is, if what the model reads for it may be kept: later texts of the same owner that begin alike cost only what is new.
    pub owner: Option<u64>,
}

impl Generate {
    /// Writes at most so many tokens.
    #[must_use]
    pub fn max_new_tokens(mut self, most: usize) -> Self {
        self.decoding = self.decoding.max_new_tokens(most);
        self
    }

    /// Searches with so many beams; 1 takes the likeliest token at each step.
    #[must_use]
    pub fn beams(mut self, beams: usize) -> Self {
        self.decoding = self.decoding.beams(beams);
        self
    }

    /// Draws tokens as `sampling` says.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.decoding = self.decoding.sampling(sampling);
        self
    }

    /// Ends a text where `stop` comes, which is not part of it.
    #[must_use]
    pub fn stop(mut self, stop: impl Into<String>) -> Self {
        self.stop.push(stop.into());
        self
    }

    /// Cuts a source or a prompt that is too long, instead of refusing it.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.long = Long::Cut;
        self
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedText {
    /// The text, without the prompt and without what ended it.
    pub text: String,
    /// Its tokens, the end token included.
    pub ids: Vec<u32>,
    /// A beam's score.
    pub score: Option<f32>,
    /// Why it ended.
    pub finish: Finish,
    /// The log-probability of each token, where that was asked for.
    pub logprobs: Vec<f32>,
}

/// Told as text comes: which request, and the next piece of it. Breaking off ends that text.
pub type Tell<'t> = dyn FnMut(usize, &str) -> ControlFlow<()> + 't;

impl TextGenerator {
    /// Opens the model at `path`, to be run by `backend`.
    ///
    /// # Errors
    /// If the checkpoint, its tokenizer or what it says about generating cannot be read.
    pub fn open(path: impl AsRef<Path>, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::new(crate::open(path)?, path, backend)
    }

    /// A checkpoint that was opened at `path`.
    ///
    /// # Errors
    /// If its tokenizer or what it says about generating cannot be read, or it writes nothing.
    pub fn new(
        checkpoint: Checkpoint,
        path: impl AsRef<Path>,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let generation = generation(path, &checkpoint.config)?;
        let tokenizer = crate::tokenizer(path)?;
        let template = crate::chat_template(path, &tokenizer)?;
        Self::assemble(checkpoint, (tokenizer, template), &generation, backend)
    }

    /// A model that is part of the program.
    ///
    /// # Errors
    /// As for [`TextGenerator::open`].
    pub fn from_files(files: &Files, backend: Arc<dyn Backend>) -> Result<Self, Error> {
        let weights = Weights::from_shards(files.weights.iter().copied()).map_err(families::Error::from)?;
        let checkpoint = families::from_parts(files.config, weights)?;
        let generation = Generation::parse(files.generation, &checkpoint.config)?;
        let tokenizer = Tokenizer::from_json(files.tokenizer, files.tokenizer_config)?;
        Self::assemble(checkpoint, (tokenizer, None), &generation, backend)
    }

    fn assemble(
        checkpoint: Checkpoint,
        (tokenizer, template): (Tokenizer, Option<ChatTemplate>),
        generation: &Generation,
        backend: Arc<dyn Backend>,
    ) -> Result<Self, Error> {
        if checkpoint.model.formula().target.is_none() {
            return Err(Error::Head { task: "generate", needs: "a decoder", has: "an encoder alone" });
        }
        let tokenizer = Arc::new(tokenizer);
        let mut decoding = decoding_of(generation, &checkpoint)?;
        let stop = crate::stop_strings(generation)?;
        if decoding.end.is_empty() {
            decoding.end.extend(tokenizer.special().eos);
        }
        if decoding.max_new_tokens.is_none() && decoding.max_length.is_none() {
            decoding.max_new_tokens = Some(NEW_TOKENS);
        }
        let usual = Generate { decoding, stop, ..Generate::default() };
        let checkpoint = Arc::new(checkpoint);
        Ok(Self { checkpoint, tokenizer, template, usual, backend, service: OnceLock::new() })
    }

    /// The model, and what its configuration says.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Its chat templates, where it has some.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// How many tokens it can read at once, special ones included, where there is a limit.
    pub fn longest(&self) -> Option<usize> {
        longest(&self.checkpoint, Some(&self.tokenizer))
    }

    /// How it writes unless told otherwise.
    pub fn default_options(&self) -> Generate {
        self.usual.clone()
    }

    /// What its thread has to do, and has done.
    pub fn load(&self) -> ServiceLoad {
        self.service.get().map(Service::load).unwrap_or_default()
    }

    /// Whether what is given is a source, read by an encoder, rather than a beginning to be continued.
    pub fn reads_source(&self) -> bool {
        self.checkpoint.model.formula().source.is_some()
    }

    /// Continues each prompt or, with an encoder, writes what it leads to. `tell` hears each piece as it comes; beams tell all at
    /// once. For each prompt as many texts as `decoding.returns`, best first.
    ///
    /// # Errors
    /// If an option makes no sense, or a prompt is empty or too long.
    pub fn generate(
        &self,
        prompts: &[impl AsRef<str>],
        options: &Generate,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Vec<GeneratedText>>, Error> {
        self.write(self.prompts(prompts)?, options, tell)
    }

    /// Texts as tokens.
    pub(crate) fn prompts(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<u32>>, Error> {
        let ids = |(text, prompt): (usize, _)| {
            let ids = self.tokenizer.encode(AsRef::<str>::as_ref(prompt), Special::Add)?.ids;
            if ids.is_empty() {
                let what = "there is nothing in it".to_owned();
                return Err(Error::Text { text, what, hint: "give a text to begin with".to_owned() });
            }
            Ok(ids)
        };
        texts.iter().enumerate().map(ids).collect()
    }

    /// Writes one text and gives it piece by piece, as an iterator. Dropping it ends the work.
    ///
    /// # Errors
    /// If an option makes no sense, or the prompt is empty or too long.
    pub fn stream(&self, prompt: impl AsRef<str>, options: &Generate) -> Result<TextStream<'_>, Error> {
        let writing = Writing::new(self, self.prompts(&[prompt])?, options)?;
        Ok(TextStream { writing, pieces: VecDeque::new() })
    }

    /// The same, from tokens.
    pub(crate) fn write(
        &self,
        prompts: Vec<Vec<u32>>,
        options: &Generate,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Vec<GeneratedText>>, Error> {
        let mut writing = Writing::new(self, prompts, options)?;
        while writing.left > 0 {
            writing.next(tell)?;
        }
        Ok(std::mem::take(&mut writing.answers))
    }

    /// A request of the engine's for the tokens of text number `text`.
    pub(crate) fn request(
        &self,
        text: usize,
        mut ids: Vec<u32>,
        options: &Generate,
    ) -> Result<Request, Error> {
        let mut decoding = options.decoding.clone();
        let limit = self.longest();
        let tokens = ids.len();
        let too_long = |limit: usize| Error::Long { text, tokens, limit };
        let stopper: Option<Arc<dyn glassformer_engine::Stopper>> =
            StopTexts::new(&self.tokenizer, &options.stop).map(|stop| Arc::new(stop) as _);
        let negative = self.negative(options)?;
        if self.reads_source() {
            if let Some(limit) = limit.filter(|&limit| tokens > limit) {
                if options.long == Long::Refuse || limit == 0 {
                    return Err(too_long(limit));
                }
                let last = ids.pop(); // the token that ends a source stays
                ids.truncate(limit - 1);
                ids.extend(last);
            }
            let prefix = self.tokenizer.encode_target(&options.prefix, Special::Leave)?.ids;
            let request = Request::source(ids, &prefix, decoding);
            let request = request.map_err(|error| of_text(error, text))?;
            let mut request = Request { stopper, owner: options.owner, ..request };
            // A text may always be as long as the model can write; asking for more is no mistake.
            let target = self.checkpoint.model.formula().target.as_ref();
            if let Some(limit) = target.and_then(|side| side.stack.position.count()) {
                let (decoding, begun) = (&mut request.decoding, request.prompt.len());
                decoding.max_new_tokens =
                    decoding.max_new_tokens.map(|new| new.min(limit.saturating_sub(begun).max(1)));
                decoding.max_length = decoding.max_length.map(|length| length.min(limit));
            }
            return Ok(request);
        }
        if !options.prefix.is_empty() {
            return Err(Error::Option {
                option: "prefix",
                what: "is for encoder-decoders, and this model continues what it reads".to_owned(),
                hint: "write it at the end of the prompt".to_owned(),
            });
        }
        if let Some(limit) = limit {
            if tokens >= limit {
                if options.long == Long::Refuse || limit < 2 {
                    return Err(too_long(limit));
                }
                // What is to be written gets its room, but at most half of all; a token that begins every text stays.
                let new = decoding.max_new_tokens.unwrap_or(1).clamp(1, limit / 2);
                let first = usize::from(self.tokenizer.special().bos == ids.first().copied());
                ids.drain(first..first + tokens - (limit - new));
            }
            let tokens = ids.len().max(negative.len());
            if tokens >= limit {
                let what = format!("has {tokens} tokens, and the model reads {limit} at most");
                return Err(Error::Option { option: "negative", what, hint: "shorten it".to_owned() });
            }
            decoding.max_new_tokens = decoding.max_new_tokens.map(|new| new.min(limit - tokens));
        }
        Ok(Request { stopper, negative, owner: options.owner, ..Request::prompt(ids, decoding) })
    }

    /// The tokens that guidance leads away from.
    fn negative(&self, options: &Generate) -> Result<Vec<u32>, Error> {
        let Generate { decoding, negative, .. } = options;
        let wrong = |option, what: &str, hint: &str| {
            Err(Error::Option { option, what: what.to_owned(), hint: hint.to_owned() })
        };
        if decoding.is_guided() && self.reads_source() {
            let what = "is for models of a decoder alone, and this one has an encoder";
            return wrong("guidance", what, "leave it out");
        }
        if negative.is_empty() {
            return Ok(Vec::new());
        }
        if !decoding.is_guided() {
            return wrong("negative", "changes nothing without guidance", "add guidance above 1");
        }
        Ok(self.tokenizer.encode(negative, Special::Add)?.ids)
    }

    /// The thread that writes for all callers.
    fn service(&self) -> Result<&Service, Error> {
        if let Some(service) = self.service.get() {
            return Ok(service);
        }
        let service = Service::start(self.rooms(), QueueLimits::default())?;
        Ok(self.service.get_or_init(|| service))
    }

    /// Room as requests need it: more when larger ones come.
    fn rooms(&self) -> Rooms {
        let (checkpoint, backend) = (self.checkpoint.clone(), self.backend.clone());
        let prepare = move |room: Room| {
            let generous = Room { sequences: room.sequences.max(AT_LEAST), ..room };
            let generous = Room::new(generous.sequences, room.source, room.target);
            let prepare = |room| Generator::new(&checkpoint.model, &*backend, room);
            Ok(prepare(generous).or_else(|_| prepare(room))?)
        };
        let (formula, limit) =
            (self.checkpoint.model.formula().clone(), self.longest().unwrap_or(usize::MAX));
        let more = move |requests: &[&Request], had: Option<Room>| {
            let each =
                requests.iter().map(|request| Room::of(&formula, std::slice::from_ref(request), TOGETHER));
            let widest = each.clone().map(|room| room.sequences).max()?;
            let all = each.clone().fold(0, |sum: usize, room| sum.saturating_add(room.sequences));
            let sequences = all.min(TOGETHER.max(widest));
            let (source, target) =
                (each.clone().map(|room| room.source).max()?, each.map(|room| room.target).max()?);
            let had = had.unwrap_or(Room::new(1, 0, 0));
            if sequences <= had.sequences && source <= had.source && target <= had.target {
                return None;
            }
            let kept = requests.iter().any(|request| request.owner.is_some());
            let by = if kept { ROUND_KEPT } else { ROUND };
            let round = |need: usize, had: usize| {
                let round = need.div_ceil(by).saturating_mul(by).min(limit.max(need));
                if need == 0 { 0 } else { round.max(had) }
            };
            let (source, target) = (round(source, had.source), round(target, had.target));
            Some(Room::new(sequences.max(had.sequences), source, target))
        };
        Rooms { prepare: Box::new(prepare), more: Box::new(more) }
    }

    /// What turns the tokens after `prompt` into pieces of text.
    fn held(&self, prompt: &[u32], stop: &[String]) -> Result<Held, Error> {
        Held::after(&self.tokenizer, if self.reads_source() { &[] } else { prompt }, stop)
    }

    /// An output of the engine's as text.
    fn written(&self, prompt: &[u32], output: Generated, stop: &[String]) -> Result<GeneratedText, Error> {
        let mut held = self.held(prompt, stop)?;
        let mut text = String::new();
        for &id in &output.ids {
            text += &held.push(&self.tokenizer, id)?;
        }
        text += &held.rest(&self.tokenizer)?;
        let Generated { ids, score, finish, logprobs, .. } = output;
        Ok(GeneratedText { text, ids, score, finish, logprobs })
    }
}

/// Texts that are being written. Dropping it cancels them.
struct Writing<'g> {
    generator: &'g TextGenerator,
    stop: Vec<String>,
    prompts: Vec<Vec<u32>>,
    updates: Receiver<(usize, Update)>,
    tickets: Vec<Ticket>,
    /// What turns the tokens of each text into pieces of it.
    held: Vec<Held>,
    answers: Vec<Vec<GeneratedText>>,
    /// Which texts are over.
    over: Vec<bool>,
    /// How many are not.
    left: usize,
}

/// Callers so far: each is one of its own.
static CALLERS: AtomicU64 = AtomicU64::new(0);

/// A number that nobody else has, for [`Generate::owner`].
pub(crate) fn new_owner() -> u64 {
    CALLERS.fetch_add(1, Ordering::Relaxed)
}

impl<'g> Writing<'g> {
    fn new(generator: &'g TextGenerator, prompts: Vec<Vec<u32>>, options: &Generate) -> Result<Self, Error> {
        let request = |(text, ids)| generator.request(text, ids, options);
        let requests: Vec<Request> =
            prompts.into_iter().enumerate().map(request).collect::<Result<_, _>>()?;
        let prompts: Vec<Vec<u32>> = requests.iter().map(|request| request.prompt.clone()).collect();
        let held = prompts.iter().map(|ids| generator.held(ids, &options.stop)).collect::<Result<_, _>>()?;
        let (sender, updates) = channel();
        let key = new_owner();
        let order = |(text, request)| {
            let sender = sender.clone();
            let tell = move |update| match sender.send((text, update)) {
                Ok(()) => ControlFlow::Continue(()),
                // Nobody listens any more.
                Err(_) => ControlFlow::Break(()),
            };
            Order { request, key, deadline: None, tell: Box::new(tell) }
        };
        let orders = requests.into_iter().enumerate().map(order).collect();
        let tickets = generator.service()?.submit(orders)?;
        let (left, answers) = (prompts.len(), prompts.iter().map(|_| Vec::new()).collect());
        let (stop, over) = (options.stop.clone(), vec![false; left]);
        Ok(Self { generator, stop, prompts, updates, tickets, held, answers, over, left })
    }

    /// Waits for what comes next, and tells it.
    fn next(&mut self, tell: &mut Tell<'_>) -> Result<(), Error> {
        let Ok((text, update)) = self.updates.recv() else {
            return Err(Error::Service { what: "has ended".to_owned() });
        };
        if self.over[text] {
            return Ok(());
        }
        match update {
            Update::Token { sequence: 0, token } => {
                let piece = self.held[text].push(&self.generator.tokenizer, token.id)?;
                if !piece.is_empty() && tell(text, &piece).is_break() {
                    self.generator.service()?.cancel(self.tickets[text]);
                    self.end(text, vec![self.held[text].broken_off()]);
                }
            }
            Update::Token { .. } => {}
            Update::Done(outputs) => {
                let prompt = &self.prompts[text];
                let written = |output| self.generator.written(prompt, output, &self.stop);
                let answers = outputs.into_iter().map(written).collect::<Result<Vec<_>, _>>()?;
                let rest = match answers.first() {
                    // Which beam is the best is known only now, so nothing of it was told.
                    Some(best) if self.held[text].is_empty() => best.text.clone(),
                    Some(_) | None => self.held[text].rest(&self.generator.tokenizer)?,
                };
                self.end(text, answers);
                if !rest.is_empty() {
                    let _ = tell(text, &rest);
                }
            }
            Update::Failed(Error::Engine(error)) => return Err(of_text(error, text)),
            Update::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn end(&mut self, text: usize, answers: Vec<GeneratedText>) {
        self.answers[text] = answers;
        self.over[text] = true;
        self.left -= 1;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Ok(service) = self.generator.service() else { return };
        for (&ticket, _) in self.tickets.iter().zip(&self.over).filter(|(_, over)| !**over) {
            service.cancel(ticket);
        }
    }
}

/// A text that is being written: an iterator over its pieces. Beams come all at once.
pub struct TextStream<'g> {
    writing: Writing<'g>,
    pieces: VecDeque<String>,
}

impl Iterator for TextStream<'_> {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.pieces.is_empty() && self.writing.left > 0 {
            let mut keep = |_: usize, piece: &str| {
                self.pieces.push_back(piece.to_owned());
                ControlFlow::Continue(())
            };
            if let Err(error) = self.writing.next(&mut keep) {
                self.writing.left = 0;
                return Some(Err(error));
            }
        }
        self.pieces.pop_front().map(Ok)
    }
}

impl TextStream<'_> {
    /// Writes the rest, and gives all of it, the best first.
    ///
    /// # Errors
    /// If the model cannot run.
    pub fn finish(mut self) -> Result<Vec<GeneratedText>, Error> {
        while self.writing.left > 0 {
            self.writing.next(&mut silent)?;
        }
        Ok(self.writing.answers.remove(0))
    }
}

/// What the engine says of a request, as what it is of text number `text`.
fn of_text(error: glassformer_engine::Error, text: usize) -> Error {
    match error {
        glassformer_engine::Error::Request { what, hint, .. } => Error::Text { text, what, hint },
        error => error.into(),
    }
}

/// For who wants to hear nothing before the end.
pub fn silent(_: usize, _: &str) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The tokens of `text` as they are, without anything around them.
pub(crate) fn bare(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    Ok(tokenizer.encode(text, Special::Leave)?.ids)
}
