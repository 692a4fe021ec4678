//! From a checkpoint's own words to ours: one short file per architecture turns `config.json` into a
//! [`Formula`](glassformer_formula::Formula) and names the tensors. There is no forward code here, and no architecture's name
//! below this crate.
#![forbid(unsafe_code)]

mod bart;
mod bert;
mod bind;
mod blocks;
mod config;
mod error;
mod family;
mod llama;
mod open;
mod rope;
mod rules;
mod t5;

pub use bind::Bound;
pub use config::Config;
pub use error::Error;
pub use family::{Family, known};
pub use open::{Checkpoint, open};
pub use rules::{How, Rule};
