//! A table whose rows are looked up and never multiplied: in 8-bit integers, row by row, each with its scale behind it.
//!
//! In a B of products a row lies in as many cache lines as it has floats.

use glassformer_tensor::Buffer;

use super::LINE;
use super::quantize::{quantize, scale};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;

/// A table, ready for lookups.
pub struct Table {
    data: Buffer,
}

impl Table {
    /// How many `f32` a table takes.
    pub const fn len(rows: usize, width: usize) -> usize {
        rows * Self::row_bytes(width) / 4
    }

    /// Bytes of a row: its integers, and behind them, in the last four, its scale.
    const fn row_bytes(width: usize) -> usize {
        (width + 4).next_multiple_of(LINE)
    }

    /// From numbers `[rows, width]`, quantized as [`super::Weight::from_weight`] quantizes them.
    pub fn from_weight(numbers: &[f32], width: usize) -> Self {
        let rows = numbers.len() / width.max(1);
        let mut data = Buffer::to_write(Self::len(rows, width));
        let mut integers = Vec::with_capacity(width);
        for (row, numbers) in numbers.chunks_exact(width.max(1)).enumerate() {
            let (scale, inverse) = scale(numbers);
            integers.clear();
            integers.extend(numbers.iter().map(|&x| quantize(x, inverse).cast_unsigned()));
            Self::set(&mut data, row, &integers, scale);
        }
        Self { data }
    }

    /// From integers with a scale for each row, as they are stored.
    ///
    /// # Panics
    /// If there are not `width` integers for each scale.
    pub fn from_integers(integers: &[u8], scales: &[f32], width: usize) -> Self {
        assert_eq!(integers.len(), scales.len() * width, "a table [{}, {width}]", scales.len());
        let mut data = Buffer::to_write(Self::len(scales.len(), width));
        for (row, &scale) in scales.iter().enumerate() {
            Self::set(&mut data, row, &integers[row * width..(row + 1) * width], scale);
        }
        Self { data }
    }

    fn set(data: &mut Buffer, row: usize, integers: &[u8], scale: f32) {
        let floats = Self::row_bytes(integers.len()) / 4;
        let row = &mut data[row * floats..(row + 1) * floats];
        for (float, some) in row.iter_mut().zip(integers.chunks(4)) {
            let mut bytes = [0; 4];
            bytes[..some.len()].copy_from_slice(some);
            *float = f32::from_bits(u32::from_le_bytes(bytes));
        }
        row[floats - 1] = scale;
    }

    /// Writes the numbers of row `row` of a table whose rows are as long as `to`.
    ///
    /// # Safety
    /// The machine has `isa`; `table` is what [`Table::as_ptr`] gave, and has this row.
    pub unsafe fn decode(isa: Isa, table: *const f32, row: usize, to: &mut [f32]) {
        let floats = Self::row_bytes(to.len()) / 4;
        // SAFETY: the caller's promise; the scale ends the row.
        let (row, scale) = unsafe {
            let row = table.add(row * floats);
            (std::slice::from_raw_parts(row.cast::<i8>(), to.len()), *row.add(floats - 1))
        };
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, dequantize(row, scale, to)) };
    }

    /// Its first number.
    pub fn as_ptr(&self) -> *const f32 {
        self.data.as_ptr()
    }
}

/// Integers as numbers. The compiler has the instructions of `L`, and finds the vectors by itself.
///
/// # Safety
/// The machine has `L`'s instructions.
#[inline(always)]
unsafe fn dequantize<L: Lanes>(integers: &[i8], scale: f32, to: &mut [f32]) {
    for (number, &integer) in to.iter_mut().zip(integers) {
        *number = scale * f32::from(integer);
    }
}

#[cfg(test)]
mod tests {
    use glassformer_tensor::Random;

    use super::*;
    use crate::lowp::{Format, Weight};

    #[test]
    fn rows_are_what_a_weight_of_products_holds() {
        let mut random = Random::new(7);
        for (rows, width) in [(1, 1), (17, 60), (5, 61), (40, 64), (33, 384)] {
            let numbers: Vec<f32> = (0..rows * width).map(|_| random.normal()).collect();
            let table = Table::from_weight(&numbers, width);
            let weight = Weight::from_weight(Format::Int8, &numbers, rows, width);
            let (mut found, mut expected) = (vec![0.0; width], vec![1.0; width]);
            for row in 0..rows {
                // SAFETY: both have this row, and rows are so wide.
                unsafe {
                    Table::decode(Isa::best(), table.as_ptr(), row, &mut found);
                    Weight::decode(weight.as_ptr(), rows, row, &mut expected);
                }
                assert_eq!(found, expected, "row {row} of [{rows}, {width}]");
            }
        }
    }

    #[test]
    fn stored_integers_are_kept() {
        let integers: Vec<u8> = (0..=255).collect();
        let table = Table::from_integers(&integers, &[0.5, 0.25], 128);
        let mut row = [0.0; 128];
        // SAFETY: there are two rows of 128.
        unsafe { Table::decode(Isa::best(), table.as_ptr(), 1, &mut row) };
        assert!(row.iter().enumerate().all(|(at, &x)| x == 0.25 * (at as f32 - 128.0)));
    }
}
