//! Tasks, one program for all tests.

mod assets;
mod details;
#[cfg(feature = "constrain")]
mod forms;
mod generate;
mod golden;
mod precision;
mod service;
mod told;
mod writing;
