//! Which tokens may come next, where a text must have a form: a JSON schema's, a pattern's. What forms there are and how they are
//! followed is the business of whoever made the request; here tokens are ruled out.

use std::fmt;

/// The form that the texts of a request must have. Immutable and shared.
pub trait Constraint: fmt::Debug + Send + Sync {
    /// Follows a text from its first new token on.
    fn start(&self) -> Box<dyn Matcher>;
}

/// Where a text stands in its form. Each sequence of a search has its own, which it keeps when its pages are given back.
pub trait Matcher: fmt::Debug + Send {
    /// The same for another sequence, which goes on from here in its own way.
    fn fork(&self) -> Box<dyn Matcher>;

    /// Goes on by one token. A search may follow a token that is not allowed, where it has nothing better: nothing is allowed after it.
    fn push(&mut self, token: u32);

    /// What may come next. It is asked once before each token that is chosen.
    ///
    /// # Errors
    /// Why the form cannot be followed any further; the request ends with it.
    fn allowed(&mut self) -> Result<Allowed<'_>, String>;
}

/// What may come next.
#[derive(Clone, Copy, Debug)]
pub struct Allowed<'m> {
    /// A bit for each token, 32 in a number, the first token's lowest. Tokens beyond may not come.
    pub tokens: &'m [u32],
    /// Whether the text may end here. End tokens may come then, and only then, whatever `tokens` says of them.
    pub end: bool,
}
