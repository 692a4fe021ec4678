//! A tensor where it lies: bytes of a file or numbers in memory, the walk over them, and what happens to each number.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::Dtype;
use crate::map::{Map, floats};
use crate::walk::Walk;

/// One tensor of a [`Weights`](crate::Weights). Cloning it copies no numbers.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    data: Data,
    walk: Walk,
    /// What each number is scaled by: a tensor of the same shape, whose walk mostly stands still along a row.
    scale: Option<Arc<Stored>>,
    scaling: Scaling,
}

impl Stored {
    /// Whether its numbers are scaled by another tensor.
    pub(crate) fn is_scaled(&self) -> bool {
        self.scale.is_some()
    }
}

/// What is done with a scale.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// Numbers are divided by it.
    Divide,
    /// They are multiplied by it.
    Multiply,
}

#[derive(Clone)]
enum Data {
    /// A part of a file, of whole blocks; the range was checked against the file.
    File { map: Arc<Map>, range: Range<usize> },
    /// Made by this program.
    Memory(Arc<Vec<f32>>),
}

impl Stored {
    /// Numbers that fill `range` of a file, row-major. The caller has checked that they do.
    pub(crate) fn file(map: &Arc<Map>, range: Range<usize>, dtype: Dtype, shape: &[usize]) -> Self {
        Self::walked(map, range, dtype, Walk::dense(shape))
    }

    /// Numbers in `range` of a file, in the order of a walk whose reach was checked.
    pub(crate) fn walked(map: &Arc<Map>, range: Range<usize>, dtype: Dtype, walk: Walk) -> Self {
        let data = Data::File { map: Arc::clone(map), range };
        Self { dtype, shape: walk.shape(), data, walk, scale: None, scaling: Scaling::Divide }
    }

    /// Numbers in memory, as many as the shape says.
    pub(crate) fn memory(values: Vec<f32>, shape: &[usize]) -> Self {
        let data = Data::Memory(Arc::new(values));
        Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            data,
            walk: Walk::dense(shape),
            scale: None,
            scaling: Scaling::Divide,
        }
    }

    /// The tensor with each number scaled by one of `scales`: by the only one, by its row's, or by the one of its place
    /// along the first dimension. `None` if they are as many as none of these.
    pub(crate) fn scaled(&self, scales: &Self, scaling: Scaling) -> Option<Self> {
        let count: usize = scales.shape.iter().product();
        let (_, leading) = self.shape.split_last().unwrap_or((&1, &[]));
        let mut strides = vec![0; self.shape.len()];
        if count == leading.iter().product::<usize>() {
            let mut stride = 1_usize;
            for (axis, size) in leading.iter().enumerate().rev() {
                strides[axis] = stride;
                stride = stride.saturating_mul(*size); // beyond all counting only where another size is zero
            }
        } else if self.shape.first() == Some(&count) {
            strides[0] = 1;
        } else if count != 1 {
            return None;
        }
        let walk = Walk::strided(scales.walk.range()?.start, &self.shape, &strides);
        let scale = Self { shape: self.shape.clone(), walk, ..scales.clone() };
        Some(Self { scale: Some(Arc::new(scale)), scaling, ..self.clone() })
    }

    /// The tensor along another walk, its scales too; `None` where `walk` gives none.
    pub(crate) fn rewalked(&self, walk: &impl Fn(&Walk) -> Option<Walk>) -> Option<Self> {
        let scale = match &self.scale {
            None => None,
            Some(scale) => Some(Arc::new(scale.rewalked(walk)?)),
        };
        let walk = walk(&self.walk)?;
        let shape = walk.shape();
        // Where one size is zero, the order decides whether the others can be multiplied.
        shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
        Some(Self { shape, walk, scale, ..self.clone() })
    }

    /// The stored bytes in the order of the walk: borrowed where they lie so. `None` for numbers in memory, and where
    /// the walk goes through the middle of blocks.
    pub(crate) fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        let all = self.file_bytes()?;
        let (numbers, size) = (self.dtype.numbers(), self.dtype.bytes());
        if !self.walk.keeps_blocks(numbers) {
            return None;
        }
        let bytes = |run: Range<usize>| &all[run.start / numbers * size..run.end / numbers * size];
        if let Some(run) = self.walk.range() {
            return Some(Cow::Borrowed(bytes(run)));
        }
        let mut gathered = Vec::with_capacity(self.count() / numbers * size);
        self.walk.runs(|run| gathered.extend_from_slice(bytes(run)));
        Some(Cow::Owned(gathered))
    }

    /// The numbers as `f32` in the order of the walk: borrowed where they lie so.
    pub(crate) fn values(&self) -> Cow<'_, [f32]> {
        let mut values = self.unscaled();
        if let Some(scale) = &self.scale {
            // A quotient, rounded once. CTranslate2 multiplies by a rounded reciprocal: at most a last bit apart.
            let values = values.to_mut();
            let apply = |value: &mut f32, scale: f32| match self.scaling {
                Scaling::Divide => *value /= scale,
                Scaling::Multiply => *value *= scale,
            };
            match self.row_scales() {
                Some(scales) => {
                    let width = (values.len() / scales.len().max(1)).max(1);
                    for (row, scale) in values.chunks_exact_mut(width).zip(scales) {
                        for value in row {
                            apply(value, scale);
                        }
                    }
                }
                None => {
                    for (value, &scale) in values.iter_mut().zip(&*scale.values()) {
                        apply(value, scale);
                    }
                }
            }
        }
        values
    }

    /// The numbers of some rows, as [`Stored::values`] gives all; `None` if it has not so many.
    pub(crate) fn rows(&self, rows: &Range<usize>) -> Option<Cow<'_, [f32]>> {
        let part = self.rewalked(&|walk| walk.rows(rows))?;
        Some(match part.values() {
            Cow::Owned(values) => Cow::Owned(values),
            // They lie in the file as they are, and so do all of them, or else one copy is made.
            Cow::Borrowed(values) => match self.values() {
                Cow::Borrowed(all) => {
                    let width = all.len() / self.shape[0].max(1);
                    Cow::Borrowed(&all[rows.start * width..rows.end * width])
                }
                Cow::Owned(_) => Cow::Owned(values.to_vec()),
            },
        })
    }

    /// The bytes of some rows, as [`Stored::bytes`] gives all; `None` if it has not so many, or a scale.
    pub(crate) fn row_bytes(&self, rows: &Range<usize>) -> Option<Cow<'_, [u8]>> {
        let count = *self.shape.first()?;
        if self.scale.is_some() || rows.start > rows.end || rows.end > count {
            return None;
        }
        let all = self.bytes()?;
        let width = all.len() / count.max(1);
        let range = rows.start * width..rows.end * width;
        Some(match all {
            Cow::Borrowed(all) => Cow::Borrowed(&all[range]),
            Cow::Owned(all) => Cow::Owned(all[range].to_vec()),
        })
    }

    /// The numbers as integers, if they are stored so; without their scale.
    pub(crate) fn integers(&self) -> Option<Vec<i64>> {
        self.dtype.integers(&self.bytes()?)
    }

    /// What the numbers of each row are multiplied by, if that is one number. Where they are divided by one, a reciprocal would
    /// not give the same numbers.
    pub(crate) fn row_factors(&self) -> Option<Vec<f32>> {
        if self.scaling == Scaling::Multiply { self.row_scales() } else { None }
    }

    /// Lets go of the pages of its file.
    pub(crate) fn forget(&self) {
        if let Data::File { map, range } = &self.data {
            map.forget(range.clone());
        }
    }

    /// What the numbers of each row are scaled by, if that is one number.
    pub(crate) fn row_scales(&self) -> Option<Vec<f32>> {
        let scale = self.scale.as_ref()?;
        let rows = scale.rewalked(&Walk::first_of_rows)?;
        Some(rows.values().into_owned())
    }

    fn unscaled(&self) -> Cow<'_, [f32]> {
        match &self.data {
            Data::Memory(values) => match self.walk.range() {
                Some(range) => Cow::Borrowed(&values[range]),
                None => Cow::Owned(self.gather(values)),
            },
            Data::File { map, range } => {
                let values = self.widened(&map.bytes()[range.clone()]);
                match values {
                    Cow::Borrowed(_) => map.lend(range.clone()),
                    Cow::Owned(_) => map.forget(range.clone()),
                }
                values
            }
        }
    }

    /// The numbers in `all`, the tensor's part of its file.
    fn widened<'a>(&'a self, all: &'a [u8]) -> Cow<'a, [f32]> {
        match self.bytes() {
            Some(Cow::Borrowed(bytes)) => match floats(bytes) {
                Some(values) if self.dtype == Dtype::F32 => Cow::Borrowed(values),
                _ => Cow::Owned(self.dtype.widen(bytes)),
            },
            Some(Cow::Owned(bytes)) => Cow::Owned(self.dtype.widen(&bytes)),
            // Across blocks: widen them all, then pick.
            None => Cow::Owned(self.gather(&self.dtype.widen(all))),
        }
    }

    fn gather(&self, values: &[f32]) -> Vec<f32> {
        let mut gathered = Vec::with_capacity(self.count());
        self.walk.runs(|run| gathered.extend_from_slice(&values[run]));
        gathered
    }

    fn file_bytes(&self) -> Option<&[u8]> {
        match &self.data {
            Data::File { map, range } => Some(&map.bytes()[range.clone()]),
            Data::Memory(_) => None,
        }
    }

    fn count(&self) -> usize {
        self.shape.iter().product()
    }
}
