//! The graph, one program for all tests.

mod given;
mod gradients;
mod limits;
mod pages;
mod work;

// Tests that stand in this file run here, so that the library is compiled once.
#[path = "../src/sensitive.rs"]
mod sensitive;
