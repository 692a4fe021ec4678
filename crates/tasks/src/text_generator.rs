//! A model that writes, with its tokenizer: text in, text out, piece by piece.

mod draft;
mod options;
mod room;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use glassformer_engine::{Generated, Request, Room};
use glassformer_families::{self as families, Checkpoint, Generation, generation};
use glassformer_graph::Backend;
use glassformer_tokens::{ChatTemplate, Special, Tokenizer};
use glassformer_weights::Weights;

use crate::decoding::decoding_of;
use crate::service::{Service, ServiceLoad};
use crate::stop::{Held, StopTexts};
use crate::text_encoder::longest;
use crate::writing::{Caller, TextStream, Writing};
use crate::{Error, Long};

use draft::DraftModel;

pub use options::{Generate, GeneratedText};
pub use room::Reserve;

/// How many tokens are written where neither the model's files nor the user say how many. The reference writes 20, which is
/// less than anybody wants to read.
const NEW_TOKENS: usize = 256;

/// A model that writes. Threads can share it: what they ask for runs together, on a thread of its own. A clone is the same one.
#[derive(Clone)]
pub struct TextGenerator {
    checkpoint: Arc<Checkpoint>,
    tokenizer: Arc<Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
    usual: Arc<Generate>,
    backend: Arc<dyn Backend>,
    draft_model: Option<DraftModel>,
    service: Arc<OnceLock<Service>>,
    /// What was set aside for many callers, where something was.
    room: Arc<OnceLock<Room>>,
    /// What forms of its texts are made with, once one was asked for.
    #[cfg(feature = "constrain")]
    pub(crate) forms: Arc<OnceLock<crate::form::Forms>>,
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
        Ok(Self {
            checkpoint: Arc::new(checkpoint),
            tokenizer,
            template: template.map(Arc::new),
            usual: Arc::new(Generate { decoding, stop, ..Generate::default() }),
            backend,
            draft_model: None,
            service: Arc::default(),
            room: Arc::default(),
            #[cfg(feature = "constrain")]
            forms: Arc::default(),
        })
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
        self.template.as_deref()
    }

    /// How many tokens it can read at once, special ones included, where there is a limit.
    pub fn longest(&self) -> Option<usize> {
        longest(&self.checkpoint, Some(&self.tokenizer))
    }

    /// How it writes unless told otherwise.
    pub fn default_options(&self) -> Generate {
        Generate::clone(&self.usual)
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
    ///
    /// # Errors
    /// If there is nothing in one of them.
    pub fn prompts(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<u32>>, Error> {
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
    pub fn stream(&self, prompt: impl AsRef<str>, options: &Generate) -> Result<TextStream, Error> {
        Ok(TextStream::new(self.begin(self.prompts(&[prompt])?, options, Caller::default())?))
    }

    /// Lets texts be written from tokens, while the caller does something else. Dropping what it gives ends the work.
    ///
    /// # Errors
    /// If an option makes no sense, a prompt is empty or too long, or too much waits already.
    pub fn begin(
        &self,
        prompts: Vec<Vec<u32>>,
        options: &Generate,
        caller: Caller,
    ) -> Result<Writing, Error> {
        Writing::new(self, prompts, options, caller)
    }

    /// Waits for all that is written from tokens.
    pub(crate) fn write(
        &self,
        prompts: Vec<Vec<u32>>,
        options: &Generate,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Vec<GeneratedText>>, Error> {
        self.begin(prompts, options, Caller::default())?.finish(tell)
    }

    /// A request of the engine's for the tokens of text number `text`.
    pub(crate) fn request(
        &self,
        text: usize,
        mut ids: Vec<u32>,
        options: &Generate,
    ) -> Result<Request, Error> {
        let mut decoding = options.decoding.clone();
        let room = self.room.get();
        let target = room.map_or(usize::MAX, |room| room.target);
        let own = room.map(|room| if self.reads_source() { room.source } else { room.target });
        let limit = self.longest().into_iter().chain(own).min();
        let tokens = ids.len();
        let too_long = |limit: usize| Error::Long { text, tokens, limit };
        let stopper: Option<Arc<dyn glassformer_engine::Stopper>> =
            StopTexts::new(&self.tokenizer, &options.stop).map(|stop| Arc::new(stop) as _);
        #[cfg(feature = "constrain")]
        let constraint = self.constraint(&ids, options)?;
        #[cfg(not(feature = "constrain"))]
        let constraint = None;
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
            let (owner, observer) = (options.owner, options.observer.clone());
            let mut request = Request { stopper, constraint, observer, owner, ..request };
            // A text may always be as long as the model can write; asking for more is no mistake.
            let side = self.checkpoint.model.formula().target.as_ref();
            let positions = side.and_then(|side| side.stack.position.count());
            if let Some(limit) = positions.into_iter().chain(room.map(|_| target)).min() {
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
        let (owner, observer) = (options.owner, options.observer.clone());
        Ok(Request { stopper, constraint, negative, observer, owner, ..Request::prompt(ids, decoding) })
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

    /// What turns the tokens after `prompt` into pieces of text.
    pub(crate) fn held(&self, prompt: &[u32], stop: &[String]) -> Result<Held, Error> {
        Held::after(&self.tokenizer, if self.reads_source() { &[] } else { prompt }, stop)
    }

    /// An output of the engine's as text.
    pub(crate) fn written(
        &self,
        prompt: &[u32],
        output: Generated,
        stop: &[String],
    ) -> Result<GeneratedText, Error> {
        let mut held = self.held(prompt, stop)?;
        let mut text = String::new();
        for &id in &output.ids {
            text += &held.push(&self.tokenizer, id)?;
        }
        text += &held.rest(&self.tokenizer)?;
        let Generated { ids, score, finish, logprobs, others } = output;
        Ok(GeneratedText { text, ids, score, finish, logprobs, others })
    }
}

/// What the engine says of a request, as what it is of text number `text`.
pub(crate) fn of_text(error: glassformer_engine::Error, text: usize) -> Error {
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
