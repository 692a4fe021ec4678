//! The page that shows a run: one file, made in `web/`, with a run inside it or an engine behind it.
//!
//! It fetches nothing from anywhere but where it came from, which its policy says too. It computes no number that it shows but the
//! terms of one, beside the engine's own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassformer_graph::Reference;

use crate::record::JSON;
use crate::{Error, Recording, json, worked_example};

/// The page with nothing inside: it asks who serves it for runs.
pub const PAGE: &str = include_str!("../page/index.html");

/// Where a run goes.
const PLACE: &str = "<!-- data -->";

/// A run, to be put into the page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// What `trace.json` says.
    pub manifest: &'a str,
    /// The bytes of `trace.safetensors`; none where numbers are not stored.
    pub tensors: &'a [u8],
    /// The worked example, checked, as [`json`] has it.
    pub document: Option<&'a str>,
}

impl Page<'_> {
    /// The page with the run inside: a file that opens from disk and sends nothing anywhere.
    pub fn html(&self) -> String {
        let mut data = element("trace", "application/json", &escaped(self.manifest));
        if !self.tensors.is_empty() {
            data += &element("tensors", "application/octet-stream;base64", &STANDARD.encode(self.tensors));
        }
        if let Some(document) = self.document {
            data += &element("document", "application/json", &escaped(document));
        }
        PAGE.replacen(PLACE, &data, 1)
    }
}

/// The page with `recording` and the worked example inside.
///
/// # Errors
/// If the worked example does not run, or two tensors have one name.
pub fn frozen(recording: &Recording) -> Result<String, Error> {
    let (manifest, tensors, document) = (recording.json()?, recording.tensors()?, document()?);
    Ok(Page { manifest: &manifest, tensors: &tensors, document: Some(&document) }.html())
}

/// The worked example, run and checked, as the page reads it.
///
/// # Errors
/// If it does not run.
pub fn document() -> Result<String, Error> {
    let walkthrough = worked_example::walkthrough(&Reference)?;
    json::render(&walkthrough).map_err(|error| Error::Trace { path: JSON.into(), why: error.to_string() })
}

/// What the page's script and style may do, as its `meta` element says it; for the header of a server.
pub fn policy() -> &'static str {
    let begun = PAGE.split_once("http-equiv=\"Content-Security-Policy\" content=\"").map(|(_, rest)| rest);
    begun.and_then(|rest| rest.split_once('"')).map_or("default-src 'none'", |(policy, _)| policy)
}

fn element(id: &str, kind: &str, text: &str) -> String {
    format!("<script type=\"{kind}\" id=\"{id}\">{text}</script>\n")
}

/// JSON that ends no element, whatever a model wrote: `<` stands in strings alone, and is written there by its number.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c")
}
