//! Formulas, one program for all tests.

#[path = "check/main.rs"]
mod check;
#[path = "print/main.rs"]
mod print;
mod text;
