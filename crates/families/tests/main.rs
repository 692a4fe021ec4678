//! Families, one program for all tests. `fuzz` and `memory` are programs of their own: they watch the memory of the whole process.

#![recursion_limit = "512"]

mod assets;
mod common;
mod configurations;
mod ctranslate2;
mod gguf;
mod golden;
mod heads;
mod keys;
mod positions;
mod real_gguf;
mod unknown;

// Tests that stand in this file run here, so that the library is compiled once.
#[allow(dead_code)]
#[path = "../src/rules.rs"]
mod rules;
