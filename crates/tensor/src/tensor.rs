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
        (count(shape)? == data.len()).then(|| Self { shape: shape.to_vec(), data })
    }

    /// Zeros of `shape`.
    ///
    /// # Panics
    /// If the shape's element count overflows; shapes from files are checked before they come here.
    pub fn zeros(shape: &[usize]) -> Self {
        // A product that wraps would be fewer numbers than the shape says.
        let count = count(shape).expect("a shape whose elements can be counted");
        Self { shape: shape.to_vec(), data: vec![0.0; count] }
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

/// How many elements a shape has; `None` where they cannot be counted.
fn count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a release build the product wrapped, and there were no numbers behind the shape.
    #[test]
    #[should_panic(expected = "a shape whose elements can be counted")]
    fn a_shape_that_cannot_be_counted_has_no_zeros() {
        let _ = Tensor::zeros(&[1 << 62, 4]);
    }
}
