//! A form that is followed token by token: llguidance's parser as the engine wants it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use glassformer_engine::{Allowed, Constraint, Matcher};
use llguidance::TokenParser;
use llguidance::api::StopReason;

/// A form that was read, at its beginning.
pub(super) struct Compiled {
    parser: TokenParser,
    text: Arc<[u32]>,
}

impl Compiled {
    pub fn new(mut parser: TokenParser, text: Arc<[u32]>) -> Self {
        parser.start_without_prompt();
        Self { parser, text }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

impl Constraint for Compiled {
    fn start(&self) -> Box<dyn Matcher> {
        // What one request finds out about the form is not shared with others: it counts against the limits.
        let place = Place::Open(Box::new(self.parser.deep_clone()));
        Box::new(Following { place, text: self.text.clone(), bits: Vec::new() })
    }
}

/// A text and its place in a form.
#[derive(Clone)]
struct Following {
    place: Place,
    text: Arc<[u32]>,
    /// What may come next, once it was asked for.
    bits: Vec<u32>,
}

#[derive(Clone)]
enum Place {
    /// Within the form.
    Open(Box<TokenParser>),
    /// At its end.
    Complete,
    /// Behind a token that is not allowed.
    Outside,
    /// Nobody knows: why.
    Failed(String),
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Open(_) => "open",
            Place::Complete => "complete",
            Place::Outside => "outside",
            Place::Failed(why) => why,
        };
        f.debug_struct("Following").field("place", &place).finish_non_exhaustive()
    }
}

/// Runs the parser; a panic in it ends one request, not the steps of all.
fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run))
        .map_err(|_| "the form cannot be followed: its parser panicked".to_owned())
}

/// Why a parser gave up.
fn failure(parser: &TokenParser) -> String {
    let said = parser.error_message().unwrap_or_else(|| format!("{:?}", parser.stop_reason()));
    format!("the form cannot be followed any further: {said}")
}

impl Following {
    /// What may come next in a form that is open, and whether it may end here.
    fn ask(&mut self) -> Result<bool, String> {
        self.bits.clear();
        let Place::Open(parser) = &mut self.place else { return Ok(false) };
        let (end, mask) = guarded(|| (parser.is_accepting(), parser.compute_mask()))?;
        match mask {
            Ok(mask) => {
                self.bits.extend(mask.as_slice().iter().zip(&*self.text).map(|(mask, text)| mask & text));
                Ok(end)
            }
            // No token of this vocabulary goes on.
            Err(_) if parser.stop_reason() == StopReason::NoExtensionBias => Ok(end),
            Err(_) => Err(failure(parser)),
        }
    }

    /// Where the text stands behind `token`.
    fn behind(&mut self, token: u32) -> Option<Place> {
        let Place::Open(parser) = &mut self.place else { return Some(Place::Outside) };
        if self.bits.get(token as usize / 32).is_none_or(|bits| bits >> (token % 32) & 1 == 0) {
            return Some(Place::Outside);
        }
        let pushed = guarded(|| parser.consume_token(token).and_then(|_| parser.check_stop()));
        match pushed {
            Ok(Ok(false)) => None,
            Ok(Ok(true)) => Some(Place::Complete),
            Ok(Err(_)) => Some(Place::Failed(failure(parser))),
            Err(why) => Some(Place::Failed(why)),
        }
    }
}

impl Matcher for Following {
    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }

    fn push(&mut self, token: u32) {
        if let Some(place) = self.behind(token) {
            self.place = place;
        }
    }

    fn allowed(&mut self) -> Result<Allowed<'_>, String> {
        let end = match &self.place {
            Place::Open(_) => self.ask()?,
            Place::Complete => true,
            Place::Outside => false,
            Place::Failed(why) => return Err(why.clone()),
        };
        if !matches!(self.place, Place::Open(_)) {
            self.bits.clear();
        }
        Ok(Allowed { tokens: &self.bits, end })
    }
}
