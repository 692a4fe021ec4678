//! A request under way: its texts, its clock, and what it counts.

use std::sync::Arc;
use std::time::Instant;

use glassformer::TextGenerator;
use glassformer::tasks::{Generate, News};

use crate::App;
use crate::fault::{Fault, NUMERICAL};
use crate::keys::Who;
use crate::metrics::Clock;
use crate::models::Served;
use crate::openai::options::reason;
use crate::words::Words;

/// Texts that are written for a request. Dropping it cancels them.
pub struct Work {
    words: Words,
    clock: Clock,
    generator: TextGenerator,
    returns: usize,
    logprobs: bool,
}

impl Work {
    /// Lets texts be written from tokens.
    pub async fn begin(
        app: &App,
        served: &Arc<Served>,
        prompts: Vec<Vec<u32>>,
        options: Generate,
        (who, start): (Who, Instant),
    ) -> Result<Self, Fault> {
        let clock = app.metrics().clock(served.name(), start);
        let generator = served.writer()?.clone();
        let (returns, logprobs) = (options.decoding.returns, options.decoding.logprobs.is_some());
        let deadline = start + app.limits().request_time;
        // What is read for a caller is kept for the next request of the same caller, and for nobody else.
        let options = Generate { owner: Some(who.0), ..options };
        let own = generator.clone();
        let words = app.compute(move || Words::begin(&own, prompts, &options, (who, deadline))).await?;
        clock.read(words.read_tokens());
        Ok(Self { words, clock, generator, returns, logprobs })
    }

    /// The model that writes.
    pub fn generator(&self) -> &TextGenerator {
        &self.generator
    }

    /// How many answers there are to each text.
    pub fn returns(&self) -> usize {
        self.returns
    }

    /// Whether log-probabilities are told.
    pub fn asks_logprobs(&self) -> bool {
        self.logprobs
    }

    /// How many tokens are read.
    pub fn read_tokens(&self) -> usize {
        self.words.read_tokens()
    }

    /// What happens next; nothing when all texts are over.
    pub async fn next(&mut self) -> Result<Option<News>, Fault> {
        let news = self.words.next().await;
        match &news {
            Ok(Some(News::Token { .. })) => self.clock.token(),
            Ok(Some(News::Done { written, .. })) => {
                for text in written {
                    self.clock.done(reason(text.finish));
                    if !self.clock.has_tokens() {
                        self.clock.tokens(text.ids.len());
                    }
                }
            }
            Ok(None) => {}
            Err(fault) => {
                if fault.code == NUMERICAL {
                    self.clock.invalid();
                }
            }
        }
        news
    }
}
