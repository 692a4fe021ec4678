//! Explanations, one program for all tests.

#[path = "replay/main.rs"]
mod replay;
mod tour;
mod worked_example;
