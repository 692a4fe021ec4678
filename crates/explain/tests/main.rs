//! Explanations, one program for all tests.

mod page;
mod record;
#[path = "replay/main.rs"]
mod replay;
mod tour;
mod why;
mod why_told;
mod worked_example;
