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

impl RowFormat {
    /// How many `f32` so many quantized rows of `k` numbers take.
    pub fn floats(self, rows: usize, k: usize) -> usize {
        match self {
            Self::Lowp(format) => RowQuantizer::len(format, rows, k),
            Self::Coded => coded::GroupQuantizer::len(rows, k),
        }
    }

    /// Quantizes row number `row` of `rows` rows of `k` numbers, one after the other from `from` on.
    ///
    /// # Safety
    /// As for [`RowQuantizer::run_row`].
    pub unsafe fn run_row(
        self,
        isa: Isa,
        (rows, k): (usize, usize),
        (from, to): (*const f32, *mut f32),
        row: usize,
    ) {
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
