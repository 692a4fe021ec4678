//! Explanations, one program for all tests.

mod record;
#[path = "replay/main.rs"]
mod replay;
mod tour;
mod worked_example;
