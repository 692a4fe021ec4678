//! The loops around a plan, one program for all tests.

mod bad_input;
mod common;
mod constraints;
mod crossing;
mod drafts;
mod kept;
mod observe;
mod sessions;
