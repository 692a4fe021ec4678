//! From files of text to batches: read, filtered, turned into tokens and kept on disk, then drawn in an order that the
//! seed and the epoch decide, so that training can go on anywhere.

mod columns;
mod filter;
mod order;
mod prepare;
mod read;
mod store;

pub use filter::Dropped;
pub use order::{Order, Place};
pub use prepare::{Prepared, Report, labels, prepare, sample_lines};
pub use read::{Record, Records};
pub use store::Store;
pub(crate) use {columns::Columns, prepare::words_of};
