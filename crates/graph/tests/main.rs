//! The graph, one program for all tests.

mod given;
mod gradients;
mod limits;
mod pages;
