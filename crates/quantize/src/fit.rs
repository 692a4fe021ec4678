//! Rounding by what a weight is multiplied by.
//!
//! Rounded one by one, numbers of a row have errors that know nothing of each other. Of rows x, what comes out is wrong by `e · x`, on average
//! over them by `e H eᵀ` with `H = XᵀX`. With the triangle R of H this is a sum of squares, one for each number of the row, in which
//! number k depends on the errors before it: so each number is rounded not where it is, but where it makes up for them. (GPTQ, Frantar et al.
//! 2022, which finds the same numbers by the inverse of H; that it is Babai's nearest plane was seen later.)

use glassformer_tensor::{CodedRow, Coding, LARGEST_STEP, Scales};

use crate::triangle::{BLOCK, Lane, Triangle};

/// How the weights that read the same rows are rounded.
#[derive(Clone, Debug)]
pub struct Fit {
    width: usize,
    /// Which number of a row has this place. Those that are multiplied by the most come first, since later ones make up for them; groups
    /// that share a step stay together.
    places: Vec<usize>,
    triangle: Triangle,
}

/// What is added to each moment of a number with itself, as a share of it. The texts that were read are few, and weights shall not be fitted
/// to what was chance in them.
const CHANCE: f32 = 0.1;

/// And as a share of the mean of all: nothing is never read.
const FLOOR: f32 = 0.01;

/// Rows that are rounded together, so that the triangle is read for all of them at once.
pub const ROWS: usize = 32;

impl Fit {
    /// From `XᵀX`, `[width, width]`.
    pub fn new(moments: &[f32], width: usize, threads: usize) -> Self {
        let own = |column: usize| moments[column * width + column];
        let mean = (0..width).map(own).sum::<f32>() / width.max(1) as f32;
        let scale = if mean > 0.0 { 1.0 / mean } else { 0.0 };
        let mut groups: Vec<Vec<usize>> = (0..width)
            .step_by(BLOCK)
            .map(|first| {
                let mut columns: Vec<usize> = (first..width.min(first + BLOCK)).collect();
                columns.sort_by(|&a, &b| own(b).total_cmp(&own(a)));
                columns
            })
            .collect();
        let whole = |group: &[usize]| group.iter().map(|&column| own(column)).sum::<f32>();
        // A group that is not whole is the last, as blocks of the triangle are.
        groups.sort_by(|a, b| (a.len() < BLOCK).cmp(&(b.len() < BLOCK)).then(whole(b).total_cmp(&whole(a))));
        let places: Vec<usize> = groups.concat();
        let triangle = Triangle::new(width, threads, |i, j| {
            let moment = moments[places[i] * width + places[j]] * scale;
            if i == j { moment * (1.0 + CHANCE) + FLOOR } else { moment }
        });
        Self { width, places, triangle }
    }

    /// Writes rows of a weight in this coding, one of our own.
    pub fn encode(&self, coding: Coding, weights: &[f32]) -> Vec<CodedRow> {
        let mut rows: Vec<CodedRow> = weights
            .chunks_exact(self.width)
            .map(|numbers| {
                let mut row = CodedRow::default();
                coding.encode(numbers, &mut row); // its scale stays
                row
            })
            .collect();
        let mut known: Vec<Lane> = Vec::with_capacity(self.triangle.blocks() * rows.len());
        let mut sums: Vec<Lane> = Vec::new();
        for (block, places) in self.places.chunks(BLOCK).enumerate() {
            sums.clear();
            sums.resize(rows.len(), [0.0; BLOCK]);
            self.triangle.add(block, &known, &mut sums);
            let diagonal = self.triangle.diagonal(block);
            for ((row, weights), &sums) in rows.iter_mut().zip(weights.chunks_exact(self.width)).zip(&sums) {
                let numbers = std::array::from_fn(|i| places.get(i).map_or(0.0, |&place| weights[place]));
                let group = Group { coding, numbers, sums, diagonal };
                let (step, rounded) = group.best(row.scales[0]);
                if let Some(held) = row.scale_steps.get_mut(places[0] / BLOCK) {
                    *held = step.cast_signed();
                }
                for (&place, code) in places.iter().zip(rounded.codes) {
                    row.codes[place] = code;
                }
                known.push(rounded.errors);
            }
        }
        rows
    }
}

/// Numbers that are rounded with one scale.
struct Group<'a> {
    coding: Coding,
    numbers: Lane,
    /// What the errors before them add to each.
    sums: Lane,
    /// What their own do.
    diagonal: &'a [Lane],
}

/// Numbers that were rounded.
struct Rounded {
    codes: [u8; BLOCK],
    /// How far each number is from its code.
    errors: Lane,
    /// The sum of squares that they leave.
    loss: f32,
}

impl Group<'_> {
    /// With the step that leaves least, where a row of this scale has steps.
    fn best(&self, scale: f32) -> (u8, Rounded) {
        if self.coding.scales != Scales::RowSteps {
            return (0, self.round(scale));
        }
        let aim = |i: usize| (self.numbers[i] + self.sums[i] / self.diagonal[i][i]).abs();
        let farthest = (0..BLOCK).map(aim).fold(0.0_f32, f32::max);
        let ideal = if scale > 0.0 { farthest / (scale * self.coding.offset()) } else { 0.0 };
        let [first, last] = [ideal * LEAST, ideal * MOST + 1.0].map(|step| (step as u8).min(LARGEST_STEP));
        let mut best = (first, self.round(scale * f32::from(first)));
        for step in first + 1..=last {
            let rounded = self.round(scale * f32::from(step));
            if rounded.loss < best.1.loss {
                best = (step, rounded);
            }
        }
        best
    }

    /// With this scale: each number where it makes up for the errors before it.
    fn round(&self, scale: f32) -> Rounded {
        let offset = self.coding.offset();
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let mut rounded = Rounded { codes: [0; BLOCK], errors: [0.0; BLOCK], loss: 0.0 };
        let mut sums = self.sums;
        for (k, row) in self.diagonal.iter().enumerate() {
            let aim = self.numbers[k] + sums[k] / row[k];
            // Integers of eight bits lie from -127 on.
            let code = self.coding.nearest(aim * inverse + offset).max(offset - LOWEST);
            let value = scale * (code - offset);
            let error = self.numbers[k] - value;
            rounded.codes[k] = code as u8;
            rounded.errors[k] = error;
            rounded.loss += ((aim - value) * row[k]).powi(2);
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += error * x;
            }
        }
        rounded
    }
}

/// No code is farther below its offset.
const LOWEST: f32 = 127.0;

/// Steps are tried from this share of the one that the farthest number asks for.
const LEAST: f32 = 0.7;
/// To this share of it, and one more.
const MOST: f32 = 1.15;

#[cfg(test)]
mod tests {
    use super::*;
    use glassformer_tensor::Random;

    /// `XᵀX` of rows that few numbers explain, and a weight.
    fn example(width: usize, rows: usize) -> (Vec<f32>, Vec<f32>) {
        let mut random = Random::new(width as u64);
        let hidden = width.div_ceil(4);
        let ways: Vec<f32> = (0..hidden * width).map(|_| random.normal()).collect();
        let mut moments = vec![0.0; width * width];
        for _ in 0..8 * width {
            let cause: Vec<f32> = (0..hidden).map(|_| random.normal()).collect();
            let x: Vec<f32> = (0..width)
                .map(|j| {
                    0.1 * random.normal() + (0..hidden).map(|h| cause[h] * ways[h * width + j]).sum::<f32>()
                })
                .collect();
            for i in 0..width {
                for j in 0..width {
                    moments[i * width + j] += x[i] * x[j];
                }
            }
        }
        (moments, (0..rows * width).map(|_| random.normal()).collect())
    }

    /// What the errors of rows change, as a share of what comes out.
    fn loss(moments: &[f32], weights: &[f32], rows: &[CodedRow], coding: Coding) -> f32 {
        let width = weights.len() / rows.len();
        let size = |e: &[f32]| -> f32 {
            (0..width).map(|i| (0..width).map(|j| e[i] * moments[i * width + j] * e[j]).sum::<f32>()).sum()
        };
        let (mut error, mut all) = (0.0, 0.0);
        for (row, numbers) in rows.iter().zip(weights.chunks_exact(width)) {
            let e: Vec<f32> = numbers.iter().zip(row.decode(&coding)).map(|(x, y)| x - y).collect();
            error += size(&e);
            all += size(numbers);
        }
        error / all
    }

    fn plain(coding: Coding, weights: &[f32], width: usize) -> Vec<CodedRow> {
        let mut rows = Vec::new();
        for numbers in weights.chunks_exact(width) {
            let mut row = CodedRow::default();
            coding.encode(numbers, &mut row);
            rows.push(row);
        }
        rows
    }

    #[test]
    fn what_comes_out_is_nearer_than_with_the_nearest_codes() {
        for (coding, width) in
            [(Coding::INT4, 32), (Coding::INT4, 96), (Coding::INT8, 32), (Coding::INT8, 45)]
        {
            let (moments, weights) = example(width, 7);
            let fit = Fit::new(&moments, width, 2);
            let of = |rows: &[CodedRow]| loss(&moments, &weights, rows, coding);
            let [fitted, nearest] = [of(&fit.encode(coding, &weights)), of(&plain(coding, &weights, width))];
            assert!(fitted < 0.5 * nearest, "{coding:?}, {width}: {fitted} and {nearest}");
        }
    }

    #[test]
    fn rows_are_what_the_coding_allows_whatever_else_is_rounded_with_them() {
        for (coding, width) in [(Coding::INT4, 64), (Coding::INT8, 64), (Coding::INT8, 1), (Coding::INT8, 33)]
        {
            let (moments, weights) = example(width, 9);
            let fit = Fit::new(&moments, width, 1);
            let all = fit.encode(coding, &weights);
            for (row, numbers) in all.iter().zip(weights.chunks_exact(width)) {
                assert_eq!((row.codes.len(), row.scales.len()), (width, 1));
                assert_eq!(row.scale_steps.len(), if coding == Coding::INT4 { width / 16 } else { 0 });
                assert!(row.scale_steps.iter().all(|&step| (0..=LARGEST_STEP.cast_signed()).contains(&step)));
                assert!(row.codes.iter().all(|&code| if coding == Coding::INT4 {
                    code < 16
                } else {
                    code > 0
                }));
                assert_eq!(&fit.encode(coding, numbers)[0], row);
            }
        }
    }

    #[test]
    fn where_nothing_depends_on_anything_codes_are_the_nearest() {
        let (width, mut random) = (48, Random::new(1));
        let weights: Vec<f32> = (0..4 * width).map(|_| random.normal()).collect();
        let moments: Vec<f32> =
            (0..width * width).map(|at| f32::from(u8::from(at % (width + 1) == 0))).collect();
        let fit = Fit::new(&moments, width, 1);
        assert_eq!(fit.encode(Coding::INT8, &weights), plain(Coding::INT8, &weights, width));
    }

    #[test]
    fn nothing_stays_nothing_and_what_was_never_read_is_rounded_all_the_same() {
        let (moments, weights) = example(32, 2);
        for coding in [Coding::INT4, Coding::INT8] {
            let nothing = Fit::new(&moments, 32, 1).encode(coding, &[0.0; 32]);
            assert_eq!(nothing[0].decode(&coding), [0.0; 32]);
            let unread = Fit::new(&[0.0; 32 * 32], 32, 1).encode(coding, &weights);
            assert!(loss(&moments, &weights, &unread, coding) < 0.02);
        }
    }
}
