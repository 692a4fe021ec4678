//! Training, one program for all tests.

mod common;
mod crossing;
mod gradients;
mod learning;
mod memory;
mod objectives;
mod resume;
mod running;
mod torch;
mod translator;
mod writes;
