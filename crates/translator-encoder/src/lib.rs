//! The encoder's layers of the model that `glassformer-translator` carries. They are a package of their own because a package is at
//! most 10 MB large.
#![no_std]
#![forbid(unsafe_code)]

/// A safetensors file: the first of the model's two shards.
pub static WEIGHTS: &[u8] = include_bytes!("../model-00001-of-00002.safetensors");
