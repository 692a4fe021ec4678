//! The graph, one program for all tests.

mod gradients;
mod limits;
mod pages;
