//! The hub as its users meet it, against a server of its own that speaks the hub's interface and misbehaves on demand.

mod cached;
mod common;
mod encrypted;
mod fetched;
mod hostile;
mod refused;
mod together;
