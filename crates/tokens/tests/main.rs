//! Tokenizers and chat templates, one program for all tests. `broken` and `fuzz` are programs of their own: they watch the memory of the
//! whole process.

mod bytes;
mod chat;
mod common;
mod folders;
mod gguf;
mod learn;
mod reference;
