//! Files of weights, one program for all tests. `broken`, `fuzz` and `hostile` are programs of their own: they watch the memory of the
//! whole process.

mod assets;
mod coded;
mod common;
mod formats;
mod round_trip;
