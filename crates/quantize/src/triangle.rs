//! A matrix of moments as the product of a triangle and itself.
//!
//! With `H = R Rᵀ`, an error `e` of a row of weights changes what comes out of it by `e H eᵀ = |e R|²`, and number k of `e R` depends on
//! the errors of the first k numbers alone, as R has nothing below its diagonal. So errors can be made small one after the other.

use std::thread;

/// Columns that are worked on at once.
pub const BLOCK: usize = 16;

/// Numbers side by side.
pub type Lane = [f32; BLOCK];

/// R, by blocks of columns.
#[derive(Clone, Debug)]
pub struct Triangle {
    /// Block b: its rows 0 to 16 · (b + 1), which is all that has numbers.
    blocks: Vec<Vec<Lane>>,
}

/// Rows that share what they are multiplied by.
const ROWS: usize = 4;

/// What is left of a number on the diagonal at least: rounding could leave nothing.
const LEAST: f32 = 1e-6;

impl Triangle {
    /// The triangle of a matrix of so many rows, given by its numbers: symmetric, with whatever was added to its diagonal. What is missing
    /// of the last block is that of a matrix of ones on the diagonal.
    pub fn new(size: usize, threads: usize, at: impl Fn(usize, usize) -> f32 + Sync) -> Self {
        let count = size.div_ceil(BLOCK);
        let at = |i: usize, j: usize| {
            if i < size && j < size { at(i, j) } else { f32::from(u8::from(i == j)) }
        };
        let mut blocks: Vec<Vec<Lane>> = vec![Vec::new(); count];
        for block in (0..count).rev() {
            let first = block * BLOCK;
            let mut rows = vec![[0.0; BLOCK]; first + BLOCK];
            // What is behind, with this block's rows as columns: they multiply all rows above.
            let behind: Vec<[Lane; BLOCK]> =
                blocks[block + 1..].iter().map(|later| turned(&later[first..first + BLOCK])).collect();
            let work = |from: usize, rows: &mut [Lane]| {
                for (at_row, rows) in (from..).step_by(ROWS).zip(rows.chunks_mut(ROWS)) {
                    for (i, row) in (at_row..).zip(rows.iter_mut()) {
                        *row = std::array::from_fn(|j| at(i, first + j));
                    }
                    for (later, square) in blocks[block + 1..].iter().zip(&behind) {
                        subtract(rows, &later[at_row..], square);
                    }
                }
            };
            let portion = rows.len().div_ceil(threads.max(1)).next_multiple_of(ROWS);
            thread::scope(|scope| {
                for (index, rows) in rows.chunks_mut(portion).enumerate() {
                    scope.spawn(move || work(index * portion, rows));
                }
            });
            finish(&mut rows);
            blocks[block] = rows;
        }
        Self { blocks }
    }

    /// Blocks of columns.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The part of block `block` on the diagonal: rows of sixteen, with nothing below it.
    pub fn diagonal(&self, block: usize) -> &[Lane] {
        &self.blocks[block][block * BLOCK..]
    }

    /// Adds `e R` in the columns of this block to `sums`, for each of some `e` of which only what comes before is known: block by
    /// block, all of the first block before all of the second.
    pub fn add(&self, block: usize, known: &[Lane], sums: &mut [Lane]) {
        let many = sums.len();
        for (rows, known) in
            self.blocks[block][..block * BLOCK].chunks_exact(BLOCK).zip(known.chunks_exact(many))
        {
            for (sums, known) in sums.chunks_mut(ROWS).zip(known.chunks(ROWS)) {
                accumulate(sums, known, rows);
            }
        }
    }
}

/// Columns as rows.
fn turned(rows: &[Lane]) -> [Lane; BLOCK] {
    std::array::from_fn(|column| std::array::from_fn(|row| rows[row][column]))
}

/// Takes the product of `numbers` and `square` from `rows`.
fn subtract(rows: &mut [Lane], numbers: &[Lane], square: &[Lane; BLOCK]) {
    let negative = |numbers: &Lane| numbers.map(|x| -x);
    if let (Ok(rows), Some(numbers)) =
        (<&mut [Lane; ROWS]>::try_from(&mut *rows), numbers.first_chunk::<ROWS>())
    {
        return product(rows, &numbers.each_ref().map(negative), square);
    }
    for (row, numbers) in rows.iter_mut().zip(numbers) {
        product(std::array::from_mut(row), &[negative(numbers)], square);
    }
}

/// Adds the product of `numbers` and `square` to `rows`.
fn accumulate(rows: &mut [Lane], numbers: &[Lane], square: &[Lane]) {
    if let (Ok(rows), Some(numbers)) =
        (<&mut [Lane; ROWS]>::try_from(&mut *rows), numbers.first_chunk::<ROWS>())
    {
        return product(rows, numbers, square);
    }
    for (row, numbers) in rows.iter_mut().zip(numbers) {
        product(std::array::from_mut(row), std::array::from_ref(numbers), square);
    }
}

/// `sums += numbers · square`, for so many rows.
#[inline]
fn product<const N: usize>(sums: &mut [Lane; N], numbers: &[Lane; N], square: &[Lane]) {
    let mut kept = *sums;
    for (step, row) in square.iter().enumerate().take(BLOCK) {
        for (kept, numbers) in kept.iter_mut().zip(numbers) {
            let number = numbers[step];
            for (sum, x) in kept.iter_mut().zip(row) {
                *sum += number * x;
            }
        }
    }
    *sums = kept;
}

/// The last step of a block, whose rows hold what is left when all later blocks are taken away: first its part on the diagonal,
/// then each row above.
fn finish(rows: &mut [Lane]) {
    let (above, diagonal) = rows.split_at_mut(rows.len() - BLOCK);
    for k in (0..BLOCK).rev() {
        let whole = diagonal[k][k];
        let root = whole.max(LEAST).sqrt();
        diagonal[k][k] = root;
        diagonal[k + 1..].iter_mut().for_each(|row| row[k] = 0.0);
        diagonal[..k].iter_mut().for_each(|row| row[k] /= root);
        let column: Lane = std::array::from_fn(|i| if i < k { diagonal[i][k] } else { 0.0 });
        for (row, number) in diagonal.iter_mut().zip(column) {
            row[..k].iter_mut().zip(column).for_each(|(x, other)| *x -= number * other);
        }
    }
    let triangle = turned(diagonal); // [column, row]: what column k takes from those before it lies together
    for row in above {
        for k in (0..BLOCK).rev() {
            let number = row[k] / triangle[k][k];
            row[k] = number;
            for j in 0..k {
                row[j] -= number * triangle[k][j];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassformer_tensor::Random;

    /// Moments of random rows that depend on each other, with something on the diagonal.
    fn moments(size: usize, seed: u64) -> Vec<f32> {
        let mut random = Random::new(seed);
        let rows: Vec<Vec<f32>> = (0..2 * size)
            .map(|_| {
                let common = random.normal();
                (0..size).map(|_| common + random.normal()).collect()
            })
            .collect();
        let sum =
            |i: usize, j: usize| rows.iter().map(|row| row[i] * row[j]).sum::<f32>() / rows.len() as f32;
        (0..size * size)
            .map(|at| sum(at / size, at % size) + f32::from(u8::from(at / size == at % size)))
            .collect()
    }

    #[test]
    fn a_triangle_times_itself_is_the_matrix() {
        for size in [1, 15, 16, 17, 48, 70] {
            let matrix = moments(size, size as u64);
            let triangle = Triangle::new(size, 1, |i, j| matrix[i * size + j]);
            let r = |i: usize, j: usize| triangle.blocks[j / BLOCK].get(i).map_or(0.0, |row| row[j % BLOCK]);
            for i in 0..size {
                for j in 0..size {
                    let sum: f32 = (0..size).map(|k| r(i, k) * r(j, k)).sum();
                    assert!((sum - matrix[i * size + j]).abs() < 1e-4, "{size}: {i}, {j}: {sum}");
                    assert!(j >= i || r(i, j) == 0.0, "{size}: {i}, {j} is below the diagonal");
                }
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let size = 130;
        let matrix = moments(size, 3);
        let [one, three] =
            [1, 3].map(|threads| Triangle::new(size, threads, |i, j| matrix[i * size + j]).blocks);
        assert_eq!(one, three);
    }

    #[test]
    fn what_was_done_before_is_added_as_a_product() {
        let size = 48;
        let matrix = moments(size, 5);
        let triangle = Triangle::new(size, 1, |i, j| matrix[i * size + j]);
        let mut random = Random::new(6);
        for many in [1, 3, 4, 6] {
            let known: Vec<Lane> = (0..2 * many).map(|_| std::array::from_fn(|_| random.normal())).collect();
            let mut sums = vec![[0.0; BLOCK]; many];
            triangle.add(2, &known, &mut sums);
            for (row, sums) in sums.iter().enumerate() {
                for (column, sum) in sums.iter().enumerate() {
                    let e = |i: usize| known[i / BLOCK * many + row][i % BLOCK];
                    let expected: f32 = (0..2 * BLOCK).map(|i| e(i) * triangle.blocks[2][i][column]).sum();
                    assert!((sum - expected).abs() < 1e-4, "{many} rows: {row}, {column}");
                }
            }
        }
    }
}
