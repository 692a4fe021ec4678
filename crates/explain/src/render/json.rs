//! A walkthrough for programs.

use serde::Serialize;

use crate::{Score, Step, Text, Walkthrough};

/// The version of what [`render`] writes. Fields may be added within a version, never renamed or removed.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    title: &'a Text,
    score: Score,
    steps: &'a [Step],
}

/// `walkthrough` as JSON: `{"schema": 1, "title", "score": {"total", "right", "wrong"}, "steps": […]}`.
///
/// A step has `section`, `title` and `text` in every language, `facts`, `tensors` (`name` in the engine, `symbol`, `shape`,
/// `labels`, and `numbers` row-major with `null` for −∞) and `claims` (`printed`, `truth`, `verdict`).
///
/// # Errors
/// Never in practice: every part of a walkthrough has a JSON form.
pub fn render(walkthrough: &Walkthrough) -> Result<String, serde_json::Error> {
    let Walkthrough { title, steps } = walkthrough;
    serde_json::to_string(&Document { schema: SCHEMA, title, score: walkthrough.score(), steps })
}
