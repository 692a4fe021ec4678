//! One tensor, seen where it lies.

use std::borrow::Cow;

use glassformer_tensor::Tensor;

use crate::Dtype;
use crate::map::floats;

/// A tensor of a [`Weights`](crate::Weights): its type, its shape and its numbers, which stay where they are until
/// asked for.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
    pub(crate) numbers: Numbers<'a>,
}

/// The numbers: as many as the shape says, in either form.
#[derive(Clone, Copy)]
pub(crate) enum Numbers<'a> {
    /// Little-endian, of the view's type.
    Bytes(&'a [u8]),
    /// Already `f32`.
    Floats(&'a [f32]),
}

impl<'a> View<'a> {
    /// The type that its numbers are stored in.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The sizes of its dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Its numbers as `f32`, row-major: borrowed where they are stored so, otherwise a copy with each number widened
    /// (or, from 64-bit types and 32-bit integers, rounded to the nearest).
    pub fn values(&self) -> Cow<'a, [f32]> {
        match self.numbers {
            Numbers::Floats(values) => Cow::Borrowed(values),
            Numbers::Bytes(bytes) => match floats(bytes) {
                Some(values) if self.dtype == Dtype::F32 => Cow::Borrowed(values),
                _ => Cow::Owned(self.dtype.widen(bytes)),
            },
        }
    }

    /// A copy as a tensor of `f32`; the numbers as in [`View::values`].
    pub fn to_f32(&self) -> Tensor {
        let tensor = Tensor::new(self.shape, self.values().into_owned());
        tensor.unwrap_or_else(|| unreachable!("the header's check made {:?} fit its bytes", self.shape))
    }

    /// Its numbers as integers, row-major; `None` if they are stored in floating point or exceed an `i64`.
    pub fn integers(&self) -> Option<Vec<i64>> {
        match self.numbers {
            Numbers::Floats(_) => None,
            Numbers::Bytes(bytes) => self.dtype.integers(bytes),
        }
    }
}

impl std::fmt::Debug for Numbers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Floats(values) => write!(f, "{} f32", values.len()),
        }
    }
}
