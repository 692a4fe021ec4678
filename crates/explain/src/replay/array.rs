//! Numbers to compute with: as they were stored in `f32`, or as `f64`.

use std::borrow::Cow;
use std::sync::Arc;

use glassformer_tensor::Tensor;

/// The most numbers of a result: a formula of a file that is not trusted may ask for any product.
pub(super) const MOST: usize = 1 << 27;

/// Numbers row by row: a matrix, or `[queries, keys, heads]`; without axes a single number. A clone is the same numbers.
#[derive(Clone, Debug)]
pub struct Array {
    /// The sizes of the axes, as they are read.
    pub shape: Vec<usize>,
    numbers: Numbers,
    /// Whether the matrix is held with rows and columns exchanged.
    turned: bool,
}

#[derive(Clone, Debug)]
enum Numbers {
    Stored(Arc<Tensor>),
    Computed(Arc<Vec<f64>>),
}

impl From<Tensor> for Array {
    /// The numbers of a tensor; a bias is a row.
    fn from(tensor: Tensor) -> Self {
        let shape = if let [width] = *tensor.shape() { vec![1, width] } else { tensor.shape().to_vec() };
        Self { shape, numbers: Numbers::Stored(Arc::new(tensor)), turned: false }
    }
}

impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.data() == other.data()
    }
}

impl Array {
    /// `data` as `shape`.
    ///
    /// # Panics
    /// If there are not as many numbers as the shape says.
    pub fn new(shape: &[usize], data: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "{shape:?}");
        Self { shape: shape.to_vec(), numbers: Numbers::Computed(Arc::new(data)), turned: false }
    }

    /// A single number.
    pub fn number(x: f64) -> Self {
        Self::new(&[], vec![x])
    }

    pub(super) fn tabulate(
        rows: usize,
        columns: usize,
        at: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, String> {
        room(&[rows, columns])?;
        let data = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| at(i, j));
        Ok(Self::new(&[rows, columns], data.collect()))
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, row by row.
    pub fn data(&self) -> Cow<'_, [f64]> {
        if self.turned {
            let (rows, columns) = (self.shape[0], self.shape[1]);
            let all = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
            return all.map(|(i, j)| self.at(i, j)).collect();
        }
        match &self.numbers {
            Numbers::Stored(tensor) => tensor.data().iter().map(|&x| f64::from(x)).collect(),
            Numbers::Computed(data) => Cow::Borrowed(data),
        }
    }

    /// Number `k`, counted row by row.
    pub(super) fn nth(&self, k: usize) -> f64 {
        if self.turned {
            return self.at(k / self.shape[1], k % self.shape[1]);
        }
        self.held(k)
    }

    /// Number `k` as they are held.
    fn held(&self, k: usize) -> f64 {
        match &self.numbers {
            Numbers::Stored(tensor) => f64::from(tensor.data()[k]),
            Numbers::Computed(data) => data[k],
        }
    }

    /// How many rows and columns a matrix has.
    ///
    /// # Errors
    /// If it is none.
    pub fn matrix(&self) -> Result<(usize, usize), String> {
        match self.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(format!("{:?} is no matrix", self.shape)),
        }
    }

    pub(super) fn at(&self, i: usize, j: usize) -> f64 {
        if self.turned { self.held(j * self.shape[0] + i) } else { self.held(i * self.shape[1] + j) }
    }

    pub(super) fn row(&self, i: usize) -> Vec<f64> {
        (0..self.shape[1]).map(|j| self.at(i, j)).collect()
    }

    /// Each number by itself.
    pub(super) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(&self.shape, self.data().iter().map(|&x| f(x)).collect())
    }

    /// The matrix with rows and columns exchanged. Nothing is copied.
    ///
    /// # Errors
    /// If it is none.
    pub fn transposed(&self) -> Result<Self, String> {
        let (rows, columns) = self.matrix()?;
        Ok(Self { shape: vec![columns, rows], numbers: self.numbers.clone(), turned: !self.turned })
    }

    pub(super) fn each_row(&self, f: impl Fn(&[f64]) -> Vec<f64>) -> Result<Self, String> {
        let (rows, _) = self.matrix()?;
        let data: Vec<f64> = (0..rows).flat_map(|i| f(&self.row(i))).collect();
        Ok(Self::new(&[rows, data.len() / rows.max(1)], data))
    }

    /// The product of two matrices, of which the second is large: a table, or a weight.
    pub(super) fn times(&self, other: &Self) -> Result<Self, String> {
        let ((rows, inner), (_, columns)) = (self.matrix()?, other.matrix()?);
        room(&[rows, columns])?;
        let own = self.data();
        let mut data = vec![0.0; rows * columns];
        for (x, y) in own.chunks(inner.max(1)).zip(data.chunks_mut(columns.max(1))) {
            match (&other.numbers, other.turned) {
                (Numbers::Stored(tensor), true) => dots(x, tensor.data(), y),
                (Numbers::Computed(held), true) => dots(x, held, y),
                (Numbers::Stored(tensor), false) => sums(x, tensor.data(), y),
                (Numbers::Computed(held), false) => sums(x, held, y),
            }
        }
        Ok(Self::new(&[rows, columns], data))
    }
}

/// Refuses a result that no formula of a model has.
pub(super) fn room(shape: &[usize]) -> Result<usize, String> {
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size));
    count.filter(|&count| count <= MOST).ok_or_else(|| format!("a result of {shape:?} is too large"))
}

/// How many sums run beside each other, so that vectors can hold them.
const LANES: usize = 8;

/// yⱼ ← x · row j of `w`.
fn dots<T: Copy + Into<f64>>(x: &[f64], w: &[T], y: &mut [f64]) {
    for (y, w) in y.iter_mut().zip(w.chunks(x.len().max(1))) {
        let mut sums = [0.0; LANES];
        let (own, other) = (x.chunks_exact(LANES), w.chunks_exact(LANES));
        let rest = own.remainder().iter().zip(other.remainder()).map(|(&a, &b)| a * b.into());
        let rest: f64 = rest.sum();
        for (a, b) in own.zip(other) {
            for (sum, (&x, &y)) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += x * y.into();
            }
        }
        *y = sums.iter().sum::<f64>() + rest;
    }
}

/// y ← Σₖ xₖ · row k of `w`.
fn sums<T: Copy + Into<f64>>(x: &[f64], w: &[T], y: &mut [f64]) {
    for (&x, w) in x.iter().zip(w.chunks(y.len().max(1))) {
        for (y, &w) in y.iter_mut().zip(w) {
            *y += x * w.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transpose_reads_the_same_numbers() {
        let tensor = Tensor::new(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("it has six");
        let array = Array::from(tensor);
        let turned = array.transposed().expect("it is a matrix");
        assert_eq!(
            (turned.shape.as_slice(), &*turned.data()),
            (&[3, 2][..], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0][..])
        );
        let product = array.times(&turned).expect("they fit");
        assert_eq!(&*product.data(), &[14.0, 32.0, 32.0, 77.0]);
        let computed = Array::new(&turned.shape, turned.data().to_vec());
        assert_eq!(array.times(&computed).expect("they fit"), product);
    }
}
