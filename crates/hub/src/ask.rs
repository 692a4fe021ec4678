//! A request, as who asks sees it.

use crate::Name;

/// What is asked for.
pub struct Ask<'a> {
    pub method: Method,
    pub url: String,
    /// The byte to begin with.
    pub from: u64,
    /// The model, and the file if it is one, for messages.
    pub name: &'a Name,
    pub file: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    /// The head alone.
    Head,
}
