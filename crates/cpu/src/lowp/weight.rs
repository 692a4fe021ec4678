//! B, quantized and laid out once, for weights that do not change.

use super::quantize::quantize_row;
use super::{Format, LINE, LINES, TILE_FLOATS, int4, padded};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;
use glassformer_tensor::{Buffer, CodedRow, Coding};
use std::convert::Infallible;
use std::ops::Range;

/// A low-precision B: its tiles, panel by panel of sixteen columns; with integers then the scale of each column, and for each block
/// of k -128 times the sum of each column's integers.
///
/// The last is for `vpdpbusd`, which reads A as unsigned: 128 is added to A, and this corrects the sums.
#[derive(Clone, Debug)]
pub struct Weight {
    data: Buffer,
    format: Format,
    k: usize,
    columns: usize,
}

impl Weight {
    /// How many `f32` a low-precision B of `k` rows and `columns` columns takes.
    pub const fn len(format: Format, k: usize, columns: usize) -> usize {
        let each = match format {
            Format::Bf16 => 0,
            Format::Int8 | Format::Int4 => 1 + format.blocks(k),
        };
        format.floats(k, columns) + padded(columns) * each
    }

    /// From a weight `[out, in]`, row-major: B is its transpose, with `in` rows and `out` columns.
    ///
    /// A weight is quantized as if it were A; a tile of B is then one of A with rows for columns, four bytes at a time.
    ///
    /// # Panics
    /// If the weight has not `inputs · outputs` numbers.
    pub fn from_weight(format: Format, weight: &[f32], outputs: usize, inputs: usize) -> Self {
        assert_eq!(weight.len(), outputs * inputs, "a weight [{outputs}, {inputs}]");
        if format == Format::Int4 {
            let mut row = CodedRow::default();
            let mut four = Self::zeros(format, inputs, outputs);
            for (column, numbers) in weight.chunks(inputs.max(1)).enumerate() {
                Coding::INT4.encode(numbers, &mut row);
                four.set_column(column, &row);
            }
            return four;
        }
        let read = |column: usize, row: &mut [f32]| {
            row.copy_from_slice(&weight[column * inputs..(column + 1) * inputs]);
            Ok::<(), Infallible>(())
        };
        Self::by_rows(format, outputs, inputs, read).unwrap_or_else(|never| match never {})
    }

    /// The same from rows that `read` writes one after the other, so that a weight which is stored otherwise is never there in `f32` as a
    /// whole.
    ///
    /// # Errors
    /// What `read` says.
    ///
    /// # Panics
    /// With [`Format::Int4`], whose rows come as codes.
    pub fn by_rows<E>(
        format: Format,
        outputs: usize,
        inputs: usize,
        mut read: impl FnMut(usize, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        assert_ne!(format, Format::Int4, "four bits come as codes");
        let Self { mut data, .. } = Self::zeros(format, inputs, outputs);
        let start = format.floats(inputs, outputs);
        let mut numbers = vec![0.0; inputs];
        for column in 0..outputs {
            read(column, &mut numbers)?;
            // SAFETY: the best set is available; the buffer begins with tiles for all columns.
            let scale = unsafe {
                let panel = data.as_mut_ptr().add(column / LINES * format.tiles(inputs) * TILE_FLOATS);
                quantize_row(Isa::best(), format, &numbers, panel.cast::<u8>().add(column % LINES * LINE))
            };
            if format == Format::Int8 {
                data[start + column] = scale;
            }
        }
        if format == Format::Int8 {
            let (tiles, rest) = data.split_at_mut(start);
            let shifts = &mut rest[padded(outputs)..];
            for (at, shift) in shifts.iter_mut().enumerate() {
                let (block, column) = (at / padded(outputs), at % padded(outputs));
                let panel = &tiles[column / LINES * format.tiles(inputs) * TILE_FLOATS..];
                let sum: i32 = format
                    .tiles_of(inputs, block)
                    .flat_map(|tile| &panel[tile * TILE_FLOATS + column % LINES * LINES..][..LINES])
                    .map(|four| sum_of_bytes(four.to_bits()))
                    .sum();
                *shift = f32::from_bits((-128 * sum).cast_unsigned());
            }
        }
        data[..start].as_chunks_mut::<TILE_FLOATS>().0.iter_mut().for_each(transpose);
        Ok(Self { data, format, k: inputs, columns: outputs })
    }

    /// One of zeros.
    pub fn zeros(format: Format, k: usize, columns: usize) -> Self {
        Self { data: Buffer::to_write(Self::len(format, k, columns)), format, k, columns }
    }

    /// Sets a column of an `int4` B.
    ///
    /// # Panics
    /// If it has no such column, or the row is none of [`Coding::INT4`] with as many numbers as B has rows, or B is in another format.
    pub fn set_column(&mut self, column: usize, row: &CodedRow) {
        let Self { ref mut data, format, k, columns } = *self;
        assert!(
            format == Format::Int4 && column < columns && row.codes.len() == k,
            "column {column} of {columns}"
        );
        let (numbers, rest) = data.split_at_mut(format.floats(k, columns));
        let panel = &mut bytes_of(numbers)[column / LINES * format.panel(k)..][..format.panel(k)];
        int4::put(row, column % LINES, panel);
        let (scales, shifts) = rest.split_at_mut(padded(columns));
        scales[column] = row.scales[0];
        for block in 0..format.blocks(k) {
            let shift = -128 * int4::sum(row, format.block(k, block));
            shifts[block * padded(columns) + column] = f32::from_bits(shift.cast_unsigned());
        }
    }

    /// The same as [`Weight::from_weight`] from integers with a scale for each row, as they are stored. `None` if one of them is -128, which
    /// not all instructions multiply alike.
    ///
    /// # Panics
    /// If there are not `inputs` integers for each scale.
    pub fn from_integers(integers: &[u8], scales: &[f32], inputs: usize) -> Option<Self> {
        let (format, outputs) = (Format::Int8, scales.len());
        assert_eq!(integers.len(), outputs * inputs, "a weight [{outputs}, {inputs}]");
        // A look at all of them, without a branch for each.
        if integers
            .chunks(1 << 14)
            .any(|some| some.iter().fold(0, |found, &x| found | u8::from(x == 0x80)) != 0)
        {
            return None;
        }
        let Self { mut data, .. } = Self::zeros(format, inputs, outputs);
        let panel = format.tiles(inputs) * TILE_FLOATS;
        let (tiles, rest) = data.split_at_mut(format.floats(inputs, outputs));
        let (to, shifts) = rest.split_at_mut(padded(outputs));
        to[..outputs].copy_from_slice(scales);
        // Where rows are empty there is nothing to lay out.
        for (at, rows) in integers.chunks(LINES * inputs.max(1)).enumerate() {
            let panel = tiles[at * panel..][..panel].as_chunks_mut::<TILE_FLOATS>().0;
            for block in 0..format.blocks(inputs) {
                let (some, tiles) = (format.block(inputs, block), format.tiles_of(inputs, block));
                // SAFETY: the best set is available.
                let sums = unsafe { dispatch!(Isa::best(), lay_out(rows, inputs, some, &mut panel[tiles])) };
                let shifts = &mut shifts[block * padded(outputs) + at * LINES..][..LINES];
                for (shift, sum) in shifts.iter_mut().zip(sums) {
                    *shift = f32::from_bits((-128 * sum).cast_unsigned());
                }
            }
        }
        Some(Self { data, format, k: inputs, columns: outputs })
    }

    /// Writes the numbers of column `column` of a B of integers with so many columns, and a `k` as long as `to`: of a table, a
    /// row.
    ///
    /// # Safety
    /// `b` is what [`Weight::as_ptr`] gave, of such a B of [`Format::Int8`]; `column < columns`.
    pub unsafe fn decode(b: *const f32, columns: usize, column: usize, to: &mut [f32]) {
        let tiles = Format::Int8.tiles(to.len());
        // SAFETY: the caller's promise; the scales lie behind all tiles.
        unsafe {
            let scale = *b.add(padded(columns) / LINES * tiles * TILE_FLOATS + column);
            let lines = b.add(column / LINES * tiles * TILE_FLOATS + column % LINES);
            for (line, numbers) in to.chunks_mut(4).enumerate() {
                let bytes = (*lines.add(line * LINES)).to_bits().to_le_bytes();
                for (number, byte) in numbers.iter_mut().zip(bytes) {
                    *number = scale * f32::from(byte.cast_signed());
                }
            }
        }
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

    /// What [`super::LowpGemm`] takes as B.
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

/// Lays out these integers of up to sixteen rows, `width` long, as tiles, and adds up those of each row.
///
/// # Safety
/// The machine has `L`'s instructions.
#[inline(always)]
unsafe fn lay_out<L: Lanes>(
    rows: &[u8],
    width: usize,
    some: Range<usize>,
    tiles: &mut [[f32; TILE_FLOATS]],
) -> [i32; LINES] {
    let mut sums = [0; LINES];
    for (tile, from) in tiles.iter_mut().zip(some.clone().step_by(LINE)) {
        let to = some.end.min(from + LINE);
        let mut lines = Lines([[0; LINE]; LINES]);
        for ((line, row), sum) in lines.0.iter_mut().zip(rows.chunks_exact(width)).zip(&mut sums) {
            match row[from..to].first_chunk() {
                Some(whole) => *line = *whole,
                None => line[..to - from].copy_from_slice(&row[from..to]),
            }
            *sum += line.iter().map(|byte| i32::from(byte.cast_signed())).sum::<i32>();
        }
        // SAFETY: the caller's promise; both are sixteen rows of sixteen floats, which are moved as they are.
        unsafe {
            L::transpose((&raw const lines).cast(), LINES as isize, 0..LINES, LINES, tile.as_mut_ptr());
        }
    }
    sums
}

/// A tile's lines before they are transposed.
#[repr(align(64))]
struct Lines([[u8; LINE]; LINES]);

/// Numbers as bytes.
pub(super) fn bytes_of(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: the same memory, and every pattern of bits is an `f32` and four bytes.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// The four integers in 32 bits, added up.
fn sum_of_bytes(four: u32) -> i32 {
    four.to_le_bytes().iter().map(|byte| i32::from(byte.cast_signed())).sum()
}

/// Rows become columns, in a tile of sixteen by sixteen floats.
fn transpose(tile: &mut [f32; TILE_FLOATS]) {
    for i in 0..LINES {
        for j in 0..i {
            tile.swap(i * LINES + j, j * LINES + i);
        }
    }
}
