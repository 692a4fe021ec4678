//! From a checkpoint's own words to ours: one short file per architecture turns `config.json` into a
//! [`Formula`](glassformer_formula::Formula) and names the tensors. There is no forward code here, and no architecture's name
//! below this crate.
#![forbid(unsafe_code)]

mod albert;
mod bart;
mod bert;
mod beside;
mod bind;
mod blocks;
mod config;
mod ctranslate2;
mod distilbert;
mod electra;
mod embedding;
mod error;
mod family;
mod generation;
mod gguf;
mod gpt2;
mod gpt_neox;
mod keys;
mod known;
mod llama;
mod longformer;
mod modernbert;
mod mpnet;
mod open;
mod positions;
mod reference;
mod roberta;
mod rope;
mod rules;
mod save;
mod t5;
mod transfo_xl;

pub use beside::copy_beside;
pub use bind::Bound;
pub use config::Config;
pub use embedding::{Embedding, embedding_folder, open_for_embedding};
pub use error::Error;
pub use family::{Family, Sinusoids};
pub use generation::{Generation, generation};
pub use known::{known, nearest};
pub use open::{Checkpoint, LABELS, Open, from_parts, global_rows, open, open_formula};
pub use rules::{How, Rule};
pub use save::Layout;
