//! B, narrowed and laid out once, for weights that do not change.

use super::rows::narrow_row;
use super::{Format, LINES, TILE_FLOATS, padded};
use crate::isa::Isa;
use glassformer_tensor::Buffer;

/// A narrow B: its tiles, panel by panel of sixteen columns; with integers then the scale of each column, and -128 times the
/// sum of each column's integers.
///
/// The last is for `vpdpbusd`, which takes A without a sign: 128 is added to it, and taken away here.
#[derive(Clone, Debug)]
pub struct Weight {
    data: Buffer,
    format: Format,
    k: usize,
    columns: usize,
}

impl Weight {
    /// How many `f32` a narrow B of `k` rows and `columns` columns takes.
    pub const fn len(format: Format, k: usize, columns: usize) -> usize {
        let each = match format {
            Format::Bf16 => 0,
            Format::Int8 => 2,
        };
        padded(columns) * (format.tiles(k) * TILE_FLOATS / LINES + each)
    }

    /// From a weight `[out, in]`, row-major: B is its transpose, with `in` rows and `out` columns.
    ///
    /// A weight is narrowed as if it were A; a tile of B is then one of A with rows for columns, four bytes at a time.
    ///
    /// # Panics
    /// If the weight has not `inputs · outputs` numbers.
    pub fn from_weight(format: Format, weight: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(weight.len(), outputs * inputs, "a weight [{outputs}, {inputs}]");
        let mut data = Buffer::zeros(Self::len(format, inputs, outputs));
        let start = padded(outputs) / LINES * format.tiles(inputs) * TILE_FLOATS;
        for column in 0..outputs {
            let numbers = &weight[column * inputs..(column + 1) * inputs];
            // SAFETY: the best set is available; the buffer begins with tiles for all columns.
            let scale = unsafe { narrow_row(Isa::best(), format, numbers, data.as_mut_ptr(), column) };
            if format == Format::Int8 {
                data[start + column] = scale;
            }
        }
        if format == Format::Int8 {
            let (tiles, rest) = data.split_at_mut(start);
            let shifts = &mut rest[padded(outputs)..];
            let panels = tiles.chunks_exact(format.tiles(inputs) * TILE_FLOATS);
            for (panel, shifts) in panels.zip(shifts.chunks_exact_mut(LINES)) {
                for (row, shift) in shifts.iter_mut().enumerate() {
                    let lines = panel.chunks_exact(LINES).skip(row).step_by(LINES);
                    let sum: i32 = lines.flatten().map(|word| sum_of_bytes(word.to_bits())).sum();
                    *shift = f32::from_bits((-128 * sum).cast_unsigned());
                }
            }
        }
        data[..start].as_chunks_mut::<TILE_FLOATS>().0.iter_mut().for_each(transpose);
        Self { data, format, k: inputs, columns: outputs }
    }

    /// From B itself, `[k, columns]`, row-major.
    ///
    /// # Panics
    /// If B has not `k · columns` numbers.
    pub fn from_rows(format: Format, b: &[f32], k: usize, columns: usize) -> Self {
        assert_eq!(b.len(), k * columns, "a matrix [{k}, {columns}]");
        let weight: Vec<f32> = (0..b.len()).map(|at| b[at % k * columns + at / k]).collect();
        Self::from_weight(format, &weight, columns, k)
    }

    /// What [`super::Product`] takes as B.
    pub fn as_ptr(&self) -> *const f32 {
        self.data.as_ptr()
    }

    /// What it is written in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The rows of B.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The columns of B.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// The four integers of a word, added up.
fn sum_of_bytes(word: u32) -> i32 {
    word.to_le_bytes().iter().map(|byte| i32::from(byte.cast_signed())).sum()
}

/// Rows become columns, in a tile of sixteen by sixteen words.
fn transpose(tile: &mut [f32; TILE_FLOATS]) {
    for i in 0..LINES {
        for j in 0..i {
            tile.swap(i * LINES + j, j * LINES + i);
        }
    }
}
