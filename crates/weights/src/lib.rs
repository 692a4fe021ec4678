//! Named tensors from and to files that are not trusted.
//!
//! [`Weights`] is an immutable, ordered map from names to tensors, the same whatever file it came from: safetensors,
//! PyTorch, GGUF or CTranslate2. Nothing here knows which names a model needs, and no number in a header is believed
//! before it was checked against the file.
//!
//! ```no_run
//! # fn main() -> Result<(), glassformer_weights::Error> {
//! let weights = glassformer_weights::Weights::open("model-folder")?;
//! let table = weights.require("embed.tokens")?; // a view: nothing is copied yet
//! println!("{:?} {:?}", table.dtype(), table.shape());
//! let numbers = table.values(); // borrowed from the file where it holds f32, widened otherwise
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: `open` (which files, which format), `safetensors`, `torch`, `gguf`, `ctranslate2` (what a file claims,
//! and the checks; all of them find `contents`), `stored` and `walk` (a tensor where it lies), `dtype` and `quant` (from bytes to numbers), `weights` and
//! `view` (what the rest of the engine sees), `coded` (rows in few bits), `save` and `scheme`.
#![deny(unsafe_code)]

mod coded;
mod contents;
mod ctranslate2;
mod dtype;
mod error;
mod gguf;
mod json;
mod map;
mod open;
mod quant;
mod reader;
mod safetensors;
mod save;
pub mod scheme;
mod stored;
mod torch;
mod view;
mod walk;
mod weights;

pub use coded::CodedRows;
pub use ctranslate2::Ctranslate2;
pub use dtype::Dtype;
pub use error::Error;
pub use gguf::Gguf;
pub use quant::{Quant, put_together};
pub use save::{encode, save, save_streamed};
pub use view::{Blocks, View};
pub use weights::{Format, Weights};
