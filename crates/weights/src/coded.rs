//! Tensors in few bits, taken apart row by row for backends that compute on them as they are.

use std::borrow::Cow;
use std::ops::Range;

use glassformer_tensor::{Coded, CodedRow, Coding, Integers};

use crate::stored::Stored;
use crate::{Dtype, Quant};

/// Some rows of a tensor that is stored in blocks, or as integers with a factor for each row.
pub struct CodedRows<'a> {
    stored: &'a Stored,
    rows: Range<usize>,
    bytes: Cow<'a, [u8]>,
    /// Bytes of a row.
    width: usize,
    kind: Kind,
}

enum Kind {
    Blocks(Quant),
    /// Blocks of [`Quant::Int4`], and what those of each row are multiplied by.
    Steps(Vec<f32>),
    /// 8-bit integers, and what those of each row are multiplied by.
    Integers(Vec<f32>),
}

impl<'a> CodedRows<'a> {
    pub(crate) fn new(stored: &'a Stored, rows: Range<usize>) -> Option<Self> {
        let &[count, width] = stored.shape.as_slice() else { return None };
        if rows.start > rows.end || rows.end > count {
            return None;
        }
        let kind = if stored.dtype == Dtype::Blocks(Quant::Int4) {
            Kind::Steps(stored.row_factors()?)
        } else if let Dtype::Blocks(quant) = stored.dtype {
            Kind::Blocks(quant)
        } else if stored.dtype == Dtype::I8 {
            Kind::Integers(stored.row_factors()?)
        } else {
            return None;
        };
        let width = stored.dtype.bytes_of(&[width])?;
        Some(Self { stored, rows, bytes: stored.bytes()?, width, kind })
    }
}

impl Coded for CodedRows<'_> {
    fn coding(&self) -> Coding {
        match self.kind {
            Kind::Blocks(quant) => quant.coding(),
            Kind::Steps(_) => Coding::INT4,
            Kind::Integers(_) => Coding::INT8,
        }
    }

    fn row(&self, row: usize, into: &mut CodedRow) {
        into.clear();
        let row = self.rows.start.saturating_add(row);
        if row >= self.rows.end {
            return;
        }
        let bytes = &self.bytes[row * self.width..(row + 1) * self.width];
        match &self.kind {
            Kind::Blocks(quant) => quant.take_apart(bytes, into),
            Kind::Steps(factors) => {
                Quant::Int4.take_apart(bytes, into);
                into.scales.push(factors[row]);
            }
            Kind::Integers(factors) => {
                into.codes.extend(bytes.iter().map(|byte| byte ^ 128));
                into.scales.push(factors[row]);
            }
        }
    }

    fn integers(&self) -> Option<Integers<'_>> {
        let Kind::Integers(factors) = &self.kind else { return None };
        let bytes = &self.bytes[self.rows.start * self.width..self.rows.end * self.width];
        Some(Integers { bytes, scales: &factors[self.rows.clone()] })
    }
}

impl Drop for CodedRows<'_> {
    /// What was read need not stay in memory.
    fn drop(&mut self) {
        self.stored.forget();
    }
}
