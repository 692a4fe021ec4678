//! Tasks, one program for all tests.

mod assets;
mod details;
mod generate;
mod golden;
mod precision;
mod service;
mod told;
mod writing;
