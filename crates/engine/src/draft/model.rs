//! A smaller model of the same vocabulary that writes ahead.
//!
//! It is a session like any other. Each draft is a request that goes on from the whole text so far; what was read for the same text
//! before is kept, so only tokens that it did not draft itself are read anew. It decodes by the options of the text, with the same random
//! numbers at the same places: where both models think alike, both draw alike.

use std::sync::Arc;

use crate::generate::Prepared;
use crate::{Decoding, Draft, Error, Event, Request, Session};

/// The session of a draft model.
pub(crate) struct DraftModel {
    session: Box<Session>,
}

/// A draft that is wanted.
pub(crate) struct Wanted {
    /// The number of the request that it is for: what was read for it is kept under this number.
    pub number: usize,
    /// The request, with all that was written at the end of its prompt.
    pub request: Request,
    /// How many tokens its prompt had before anything was written.
    pub prompt: usize,
    /// At most so many tokens.
    pub most: usize,
}

impl DraftModel {
    pub fn new(prepared: Arc<Prepared>) -> Self {
        Self { session: Box::new(Session::of_drafts(prepared)) }
    }

    /// Writes all that is wanted, together. Where it cannot, as the text is too long for it, that draft is empty.
    pub fn draft(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Vec<u32>>, Error> {
        let mut drafts = vec![Vec::new(); wanted.len()];
        let mut whose = Vec::new();
        for (place, wanted) in wanted.into_iter().enumerate() {
            let prompt = wanted.prompt;
            if let Ok(number) = self.session.submit_after(wanted.into_request(), prompt) {
                whose.push((number, place));
            }
        }
        while !self.session.is_idle() {
            for event in self.session.step()? {
                if let Event::Token { request, token, .. } = event
                    && let Some(&(_, place)) = whose.iter().find(|(number, _)| *number == request)
                {
                    drafts[place].push(token.id);
                }
            }
        }
        Ok(drafts)
    }

    /// Forgets what was read for a request that is over.
    pub fn forget(&mut self, number: usize) {
        self.session.forget(number as u64);
    }
}

impl Wanted {
    /// What the draft model is asked: nothing ends a draft but an end token, and nothing is told of it.
    fn into_request(self) -> Request {
        let Self { number, request, most, .. } = self;
        let decoding = Decoding {
            max_new_tokens: Some(most),
            forced_last: Vec::new(),
            stop: Vec::new(),
            logprobs: None,
            draft: Draft::Never,
            ..request.decoding
        };
        Request { decoding, stopper: None, owner: Some(number as u64), ..request }
    }
}
