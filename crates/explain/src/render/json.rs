//! A walkthrough for programs.

use serde::Serialize;

use crate::{Judged, Score, Step, Summary, Text, Verdict, Walkthrough};

/// The version of what [`render`] writes. Fields may be added within a version, never renamed or removed.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    title: &'a Text,
    score: Score,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a Summary>,
    steps: &'a [Step],
}

#[derive(Serialize)]
struct Corrections<'a> {
    schema: u32,
    title: &'a Text,
    score: Score,
    errata: Vec<&'a Judged>,
}

/// `walkthrough` as JSON: `{"schema": 1, "title", "score": {"total", "right", "wrong"}, "steps": […]}`.
///
/// A step has `section`, `title` and `text` in every language, `facts`, `tensors` (`name` in the engine, `symbol` with its formula,
/// `operands` of that, `shape`, `labels`, and `numbers` row-major with `null` for −∞; `rows` and `columns` where not all are there) and
/// `claims` (`printed`, `truth`, `verdict`). `summary` is there where a text was followed through a model.
///
/// # Errors
/// Never in practice: every part of a walkthrough has a JSON form.
pub fn render(walkthrough: &Walkthrough) -> Result<String, serde_json::Error> {
    let Walkthrough { title, summary, steps } = walkthrough;
    let (score, summary) = (walkthrough.score(), summary.as_ref());
    serde_json::to_string(&Document { schema: SCHEMA, title, score, summary, steps })
}

/// What the text got wrong, alone: `{"schema": 1, "title", "score", "errata": […]}`.
///
/// # Errors
/// Never in practice: every part of a walkthrough has a JSON form.
pub fn errata(walkthrough: &Walkthrough) -> Result<String, serde_json::Error> {
    let errata: Vec<&Judged> =
        walkthrough.claims().filter(|judged| judged.verdict == Verdict::Wrong).collect();
    serde_json::to_string(&Corrections {
        schema: SCHEMA,
        title: &walkthrough.title,
        score: walkthrough.score(),
        errata,
    })
}
