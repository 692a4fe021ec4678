//! A shape and its numbers.

/// A dense row-major block of `f32` with its shape: what a weight file holds and a gradient is.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Vec<f32>,
}

impl Tensor {
    /// `data` seen as `shape`; `None` where the two do not hold the same number of elements.
    pub fn new(shape: &[usize], data: Vec<f32>) -> Option<Self> {
        let count = shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))?;
        (count == data.len()).then(|| Self { shape: shape.to_vec(), data })
    }

    /// Zeros of `shape`.
    ///
    /// # Panics
    /// If the shape's element count overflows; shapes from files are checked before they come here.
    pub fn zeros(shape: &[usize]) -> Self {
        Self { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] }
    }

    /// The sizes of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its numbers, row-major.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Its numbers, to change.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// Its numbers, without the shape.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }

    /// Seen as a matrix: every dimension but the last makes the rows. A scalar is 1 × 1, a vector one row.
    pub fn matrix(&self) -> (usize, usize) {
        match self.shape.split_last() {
            None => (1, 1),
            Some((&width, rest)) => (rest.iter().product(), width),
        }
    }
}
