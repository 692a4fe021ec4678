//! The two ways in which rows of activations are quantized.

use super::{Format, RowQuantizer, RowSource, coded};
use crate::isa::Isa;

/// What rows of activations are quantized for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowFormat {
    /// Products of low-precision numbers.
    Lowp(Format),
    /// Products of weights in few bits.
    Coded,
}

/// Rows of activations, one after the other, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct RowsToQuantize {
    /// How many there are.
    pub rows: usize,
    /// Numbers of a row.
    pub k: usize,
    /// The first row.
    pub from: *const f32,
    /// [`RowFormat::floats`] numbers, aligned to 64 bytes.
    pub to: *mut f32,
}

impl RowFormat {
    /// How many `f32` so many quantized rows of `k` numbers take.
    pub fn floats(self, rows: usize, k: usize) -> usize {
        match self {
            Self::Lowp(format) => RowQuantizer::len(format, rows, k),
            Self::Coded => coded::GroupQuantizer::len(rows, k),
        }
    }

    /// Quantizes row number `row` of these.
    ///
    /// # Safety
    /// As for [`RowQuantizer::run_row`].
    pub unsafe fn run_row(self, isa: Isa, rows: &RowsToQuantize, row: usize) {
        let RowsToQuantize { rows, k, from, to } = *rows;
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Lowp(format) => {
                    RowQuantizer { format, rows, k, from: RowSource::F32(from), stride: k, to }
                        .run_row(isa, row);
                }
                Self::Coded => coded::GroupQuantizer { rows, k, from, stride: k, to }.run_row(isa, row),
            }
        }
    }
}
