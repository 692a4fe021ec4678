//! Texts that are being written: the tokens that a service tells of, as pieces of text.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Instant;

use glassformer_engine::{Generated, Request, Token};

use crate::service::{Order, Ticket, Update};
use crate::stop::Held;
use crate::text_generator::{of_text, silent};
use crate::{Error, Generate, GeneratedText, Tell, TextGenerator};

/// Who lets texts be written.
#[derive(Clone, Default)]
pub struct Caller {
    /// Callers with different keys take turns; without one, each call is a caller of its own.
    pub key: Option<u64>,
    /// When nobody waits for the texts any more.
    pub deadline: Option<Instant>,
    /// Called on the service's thread after each thing that happens, for who does not wait: it must return at once.
    pub wake: Option<Arc<Wake>>,
}

/// See [`Caller::wake`].
pub type Wake = dyn Fn() + Send + Sync;

/// What happens to a text.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A token was written. Beams tell of none.
    Token {
        /// Which text.
        text: usize,
        /// Which of its returned sequences.
        sequence: usize,
        /// The text that can be shown now: none where a character is not complete, or where it may begin a stop text.
        piece: String,
        /// The token.
        token: Token,
    },
    /// A text is done.
    Done {
        /// Which text.
        text: usize,
        /// For each returned sequence, what no piece has told.
        rest: Vec<String>,
        /// What was written, best first.
        written: Vec<GeneratedText>,
    },
}

/// Texts that are being written. Dropping it cancels them.
pub struct Writing {
    generator: TextGenerator,
    stop: Vec<String>,
    texts: Vec<Text>,
    updates: Receiver<(usize, Update)>,
    /// How many texts are not over.
    left: usize,
}

struct Text {
    /// The tokens that its target begins with.
    prompt: Vec<u32>,
    /// How many tokens are read for it.
    read: usize,
    ticket: Ticket,
    /// What turns the tokens of each sequence into pieces of text.
    held: Vec<Held>,
    over: bool,
}

/// Callers so far: each is one of its own.
static CALLERS: AtomicU64 = AtomicU64::new(0);

/// A number that nobody else has, for [`Generate::owner`].
pub(crate) fn new_owner() -> u64 {
    CALLERS.fetch_add(1, Ordering::Relaxed)
}

impl Writing {
    pub(crate) fn new(
        generator: &TextGenerator,
        prompts: Vec<Vec<u32>>,
        options: &Generate,
        caller: Caller,
    ) -> Result<Self, Error> {
        let request = |(text, ids)| generator.request(text, ids, options);
        let requests: Vec<Request> =
            prompts.into_iter().enumerate().map(request).collect::<Result<_, _>>()?;
        let held = |request: &Request| {
            let sequences = 0..options.decoding.returns.max(1);
            let held = sequences.map(|_| generator.held(&request.prompt, &options.stop));
            held.collect::<Result<Vec<_>, Error>>()
        };
        let held = requests.iter().map(held).collect::<Result<Vec<_>, _>>()?;
        let given = |request: &Request| {
            let read = if generator.reads_source() { request.source.len() } else { request.prompt.len() };
            (request.prompt.clone(), read)
        };
        let given: Vec<(Vec<u32>, usize)> = requests.iter().map(given).collect();
        let (sender, updates) = channel();
        let Caller { key, deadline, wake } = caller;
        let key = key.unwrap_or_else(new_owner);
        let order = |(text, request)| {
            let (sender, wake) = (sender.clone(), wake.clone());
            let tell = move |update| {
                let heard = sender.send((text, update)).is_ok();
                if let Some(wake) = &wake {
                    wake();
                }
                // Otherwise nobody listens any more.
                if heard { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            Order { request, key, deadline, tell: Box::new(tell) }
        };
        let orders = requests.into_iter().enumerate().map(order).collect();
        let tickets = generator.service()?.submit(orders)?;
        let text = |(((prompt, read), held), ticket)| Text { prompt, read, ticket, held, over: false };
        let texts: Vec<Text> = given.into_iter().zip(held).zip(tickets).map(text).collect();
        let left = texts.len();
        Ok(Self { generator: generator.clone(), stop: options.stop.clone(), texts, updates, left })
    }

    /// How many tokens are read: of prompts or, with an encoder, of sources.
    pub fn read_tokens(&self) -> usize {
        self.texts.iter().map(|text| text.read).sum()
    }

    /// Whether all texts are over.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Waits for what happens next; nothing when all texts are over.
    ///
    /// # Errors
    /// If a text cannot be written.
    pub fn wait(&mut self) -> Result<Option<News>, Error> {
        while self.left > 0 {
            let (text, update) = self.updates.recv().map_err(|_| ended())?;
            if let Some(news) = self.news(text, update)? {
                return Ok(Some(news));
            }
        }
        Ok(None)
    }

    /// What has happened since; nothing where all of it was told.
    ///
    /// # Errors
    /// If a text cannot be written.
    pub fn poll(&mut self) -> Result<Option<News>, Error> {
        while self.left > 0 {
            let (text, update) = match self.updates.try_recv() {
                Ok(told) => told,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(ended()),
            };
            if let Some(news) = self.news(text, update)? {
                return Ok(Some(news));
            }
        }
        Ok(None)
    }

    /// Ends a text, and gives what was written of its first sequence.
    pub fn break_off(&mut self, text: usize) -> GeneratedText {
        let Text { ticket, held, over, .. } = &mut self.texts[text];
        if !std::mem::replace(over, true) {
            self.left -= 1;
            if let Ok(service) = self.generator.service() {
                service.cancel(*ticket);
            }
        }
        held[0].broken_off()
    }

    /// Waits for all texts. `tell` hears the pieces of the best of each, and can break it off.
    pub(crate) fn finish(mut self, tell: &mut Tell<'_>) -> Result<Vec<Vec<GeneratedText>>, Error> {
        let mut answers: Vec<Vec<GeneratedText>> = self.texts.iter().map(|_| Vec::new()).collect();
        while let Some(news) = self.wait()? {
            match news {
                News::Token { text, sequence: 0, piece, .. } => {
                    if !piece.is_empty() && tell(text, &piece).is_break() {
                        answers[text] = vec![self.break_off(text)];
                    }
                }
                News::Token { .. } => {}
                News::Done { text, rest, written } => {
                    answers[text] = written;
                    if let Some(rest) = rest.first().filter(|rest| !rest.is_empty()) {
                        let _ = tell(text, rest);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// What an update means; nothing if its text is over already.
    fn news(&mut self, text: usize, update: Update) -> Result<Option<News>, Error> {
        let (generator, own) = (&self.generator, &mut self.texts[text]);
        if own.over {
            return Ok(None);
        }
        match update {
            Update::Token { sequence, token } => {
                let piece = match own.held.get_mut(sequence) {
                    Some(held) => held.push(generator.tokenizer(), token.id)?,
                    None => String::new(),
                };
                Ok(Some(News::Token { text, sequence, piece, token }))
            }
            Update::Done(outputs) => {
                let written = |output: Generated| generator.written(&own.prompt, output, &self.stop);
                let written = outputs.into_iter().map(written).collect::<Result<Vec<_>, _>>()?;
                let rest = |(held, written): (&mut Held, &GeneratedText)| {
                    // Which beam is the best is known only now, so nothing of it was told.
                    let told = !held.is_empty();
                    if told { held.rest(generator.tokenizer()) } else { Ok(written.text.clone()) }
                };
                let rest = own.held.iter_mut().zip(&written).map(rest).collect::<Result<_, _>>()?;
                own.over = true;
                self.left -= 1;
                Ok(Some(News::Done { text, rest, written }))
            }
            Update::Failed(Error::Engine(error)) => Err(of_text(error, text)),
            Update::Failed(error) => Err(error),
        }
    }
}

/// The service is gone.
fn ended() -> Error {
    Error::Service { what: "has ended".to_owned() }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let Ok(service) = self.generator.service() else { return };
        for text in self.texts.iter().filter(|text| !text.over) {
            service.cancel(text.ticket);
        }
    }
}

/// A text that is being written: an iterator over its pieces. Beams come all at once.
pub struct TextStream {
    writing: Writing,
    pieces: VecDeque<String>,
    written: Vec<GeneratedText>,
}

impl TextStream {
    pub(crate) fn new(writing: Writing) -> Self {
        Self { writing, pieces: VecDeque::new(), written: Vec::new() }
    }

    /// Writes the rest, and gives all of it, the best first.
    ///
    /// # Errors
    /// If the model cannot run.
    pub fn finish(self) -> Result<Vec<GeneratedText>, Error> {
        if self.writing.is_over() {
            return Ok(self.written);
        }
        Ok(self.writing.finish(&mut silent)?.remove(0))
    }
}

impl Iterator for TextStream {
    type Item = Result<String, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.pieces.is_empty() {
            match self.writing.wait() {
                Ok(Some(News::Token { sequence: 0, piece, .. })) => self.pieces.push_back(piece),
                Ok(Some(News::Token { .. })) => {}
                Ok(Some(News::Done { rest, written, .. })) => {
                    self.pieces.extend(rest.into_iter().take(1));
                    self.written = written;
                }
                Ok(None) => return None,
                Err(error) => {
                    self.writing.left = 0;
                    return Some(Err(error));
                }
            }
            self.pieces.retain(|piece| !piece.is_empty());
        }
        self.pieces.pop_front().map(Ok)
    }
}
