//! Texts that are being written, for who does not block a thread.

use std::sync::Arc;
use std::time::Instant;

use glassformer::TextGenerator;
use glassformer::tasks::{Caller, Generate, News, Writing};
use tokio::sync::Notify;

use crate::fault::Fault;
use crate::keys::Who;

/// Texts that are being written. Dropping it cancels them.
pub struct Words {
    writing: Writing,
    woken: Arc<Notify>,
}

impl Words {
    /// Lets texts be written from tokens.
    pub fn begin(
        generator: &TextGenerator,
        prompts: Vec<Vec<u32>>,
        options: &Generate,
        (who, deadline): (Who, Instant),
    ) -> Result<Self, Fault> {
        let woken = Arc::new(Notify::new());
        let wake = woken.clone();
        let wake = Arc::new(move || wake.notify_one());
        let caller = Caller { key: Some(who.0), deadline: Some(deadline), wake: Some(wake) };
        Ok(Self { writing: generator.begin(prompts, options, caller)?, woken })
    }

    /// How many tokens are read.
    pub fn read_tokens(&self) -> usize {
        self.writing.read_tokens()
    }

    /// What happens next; nothing when all texts are over.
    pub async fn next(&mut self) -> Result<Option<News>, Fault> {
        loop {
            if let Some(news) = self.writing.poll()? {
                return Ok(Some(news));
            }
            if self.writing.is_over() {
                return Ok(None);
            }
            self.woken.notified().await;
        }
    }
}
