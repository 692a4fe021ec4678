//! Named tensors from and to files that are not trusted.
//!
//! [`Weights`] is an immutable, ordered map from names to tensors, the same whatever file it came from. Nothing here
//! knows which names a model needs, and no number in a header is believed before it was checked against the file.
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
//! Reading order: `header` (what a safetensors file claims, and the checks), `folder` (one file or shards), `weights`
//! and `view` (what the rest of the engine sees), `save`.
#![deny(unsafe_code)]

mod dtype;
mod error;
mod folder;
mod header;
mod map;
mod save;
mod view;
mod weights;

pub use dtype::Dtype;
pub use error::Error;
pub use save::save;
pub use view::View;
pub use weights::Weights;
