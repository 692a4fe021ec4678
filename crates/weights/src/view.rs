//! One tensor, seen where it lies.

use std::borrow::Cow;
use std::ops::Range;

use glassformer_tensor::{Half, Halves, Tensor};

use crate::stored::Stored;
use crate::{CodedRows, Dtype, Quant};

/// A tensor of a [`Weights`](crate::Weights): its type, its shape and its numbers, which stay where they are until
/// asked for.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) stored: &'a Stored,
}

/// A tensor in blocks, for code that computes on them as they are.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    /// What a block holds.
    pub quant: Quant,
    /// The blocks of the first row, of the second, and so on. Borrowed from the file where they lie so.
    pub bytes: Cow<'a, [u8]>,
    /// How many blocks make a row.
    pub per_row: usize,
}

impl<'a> View<'a> {
    /// The type that its numbers are stored in.
    pub fn dtype(&self) -> Dtype {
        self.stored.dtype
    }

    /// The sizes of its dimensions.
    pub fn shape(&self) -> &'a [usize] {
        &self.stored.shape
    }

    /// Its numbers as `f32`, row-major: borrowed where they are stored so, otherwise a copy with each number widened
    /// (or, from 64-bit types and 32-bit integers, rounded to the nearest).
    ///
    /// Blocks are widened by the reference's formula, see [`Quant`]. Integers with scales (see [`View::row_scales`]) are
    /// divided by them (CTranslate2), or multiplied by them (what `quantize` wrote).
    pub fn values(&self) -> Cow<'a, [f32]> {
        self.stored.values()
    }

    /// The numbers of some rows, places along its first dimension, as in [`View::values`]: of a tensor that others share,
    /// only what is needed is widened. `None` if it has not so many.
    pub fn rows(&self, rows: Range<usize>) -> Option<Cow<'a, [f32]>> {
        self.stored.rows(&rows)
    }

    /// A copy as a tensor of `f32`; the numbers as in [`View::values`].
    pub fn to_f32(&self) -> Tensor {
        let tensor = Tensor::new(self.shape(), self.values().into_owned());
        tensor.unwrap_or_else(|| unreachable!("the file's check made {:?} fit its numbers", self.shape()))
    }

    /// Its numbers as integers, row-major and without scales; `None` if they are stored in floating point or exceed an
    /// `i64`.
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.stored.integers()
    }

    /// Its numbers as the file holds them: little-endian, of [`View::dtype`], row-major. Borrowed where they lie so.
    /// `None` for tensors made in memory.
    pub fn bytes(&self) -> Option<Cow<'a, [u8]>> {
        self.stored.bytes()
    }

    /// Its blocks as the file holds them; `None` if it is not stored in blocks, or lies across them.
    pub fn blocks(&self) -> Option<Blocks<'a>> {
        let Dtype::Blocks(quant) = self.dtype() else { return None };
        let width = self.shape().last().copied().unwrap_or(1);
        Some(Blocks { quant, bytes: self.bytes()?, per_row: width / quant.numbers() })
    }

    /// Some rows in few bits, as they are stored; `None` if they are not, or lie across blocks.
    pub fn coded(&self, rows: Range<usize>) -> Option<CodedRows<'a>> {
        CodedRows::new(self.stored, rows)
    }

    /// Some rows in 16 bits, as they are stored; `None` if they are not, or there are not so many.
    pub fn halves(&self, rows: Range<usize>) -> Option<Halves<'a>> {
        let half = match self.dtype() {
            Dtype::F16 => Half::F16,
            Dtype::Bf16 => Half::Bf16,
            _ => return None,
        };
        let bytes = self.stored.row_bytes(&rows)?;
        Some(Halves { half, bytes })
    }

    /// What the integers of each row are divided or multiplied by in [`View::values`]; `None` if there are no scales, or if they
    /// are not one a row.
    pub fn row_scales(&self) -> Option<Vec<f32>> {
        self.stored.row_scales()
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({} {:?})", self.dtype().name(), self.shape())
    }
}
