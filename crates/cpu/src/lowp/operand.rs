//! Operands in `bf16` of values that change at every run: weights in training, and rows that a gradient sums over.
//!
//! A tile of B is the transpose of a tile of A, four bytes at a time (see [`super`]). A tile is made from lines of rows, which gives A, or from
//! pairs of rows, which gives B. Transposing it gives the other.

#[cfg(target_arch = "x86_64")]
use super::Dot;
use super::quantize::bf16_line;
use super::{Format, LINE, LINES, TILE, TILE_FLOATS, padded};
use crate::dispatch;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::lanes::Avx512;
use crate::lanes::Lanes;
use crate::lanes::bf16::pack_pairs;

/// What a matrix `[rows, width]`, row-major, becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// B with these rows: k is `rows`.
    B,
    /// B with these rows as its columns, as of a weight `[out, in]`: k is `width`.
    BTransposed,
    /// A with these rows as its columns: k is `rows`.
    ATransposed,
}

/// How an operand is made: [`OperandPacker::run_part`] makes a part of it, on any thread.
#[derive(Clone, Copy, Debug)]
pub struct OperandPacker {
    /// What it becomes.
    pub operand: Operand,
    /// The rows of the matrix.
    pub rows: usize,
    /// Its columns.
    pub width: usize,
    /// Where it is.
    pub from: OperandSource,
    /// [`OperandPacker::len`] numbers, aligned to 64 bytes.
    pub to: *mut f32,
}

/// Where a matrix is. Both ways give the same operand.
#[derive(Clone, Copy, Debug)]
pub enum OperandSource {
    /// At its first number; rows follow one another.
    F32(*const f32),
    /// Rounded to `bf16`, as [`super::RowQuantizer`] writes it: half the bytes to read.
    Bf16Tiles(*const f32),
}

/// A tile while it is made: sixteen lines of sixteen `u32`.
#[repr(align(64))]
struct Tile([[u32; LINES]; LINES]);

impl Tile {
    /// Rows into columns.
    ///
    /// # Safety
    /// The machine has `L`'s instructions.
    #[inline(always)]
    unsafe fn transpose<L: Lanes>(&mut self) {
        let from = Self(self.0);
        // SAFETY: the caller's promise; a tile is sixteen rows of sixteen `u32`, which are moved as they are.
        unsafe {
            L::transpose((&raw const from).cast(), LINES as isize, 0..LINES, LINES, (&raw mut *self).cast());
        };
    }
}

impl OperandPacker {
    /// How many `f32` the operand takes.
    pub const fn len(operand: Operand, rows: usize, width: usize) -> usize {
        let (k, across) = match operand {
            Operand::B => (rows, padded(width)),
            Operand::BTransposed => (width, padded(rows)),
            Operand::ATransposed => (rows, width.next_multiple_of(LINES)),
        };
        across / LINES * Format::Bf16.tiles(k) * TILE_FLOATS
    }

    /// The number of independent work items.
    pub fn parts(&self) -> usize {
        match self.operand {
            Operand::B | Operand::ATransposed => Format::Bf16.tiles(self.rows),
            Operand::BTransposed => padded(self.rows) / LINES,
        }
    }

    /// Does part number `part` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `part < self.parts()`. The matrix is valid for reads and `to` for [`OperandPacker::len`] writes; they
    /// do not overlap, and nobody else uses `to`, or writes the matrix, at the same time, except other parts.
    pub unsafe fn run_part(&self, isa: Isa, part: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 if Dot::Avx512Dot.is_available() => part_by_instruction(self, part),
                isa => dispatch!(isa, |L| self.part::<L>(part, |low, high| pack_pairs(low, high))),
            }
        }
    }

    /// The same, where `pair` rounds and interleaves sixteen numbers and those below them.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn part<L: Lanes>(&self, part: usize, pair: impl Fn(L, L) -> L + Copy) {
        let Self { operand, rows, width, .. } = *self;
        // SAFETY: the caller's promise; all tiles lie inside the operand.
        unsafe {
            match operand {
                Operand::BTransposed => {
                    for step in 0..Format::Bf16.tiles(width) {
                        let mut tile = self.lines::<L>(part, step);
                        tile.transpose::<L>();
                        self.put(part * Format::Bf16.tiles(width) + step, &tile);
                    }
                }
                Operand::B => {
                    for panel in 0..padded(width) / LINES {
                        self.put(
                            panel * Format::Bf16.tiles(rows) + part,
                            &self.pairs::<L>(part, panel, pair),
                        );
                    }
                }
                Operand::ATransposed => {
                    for block in 0..width.div_ceil(LINES) {
                        let mut tile = self.pairs::<L>(part, block, pair);
                        tile.transpose::<L>();
                        self.put(block * Format::Bf16.tiles(rows) + part, &tile);
                    }
                }
            }
        }
    }

    /// # Safety
    /// The operand has a tile of this number.
    #[inline(always)]
    unsafe fn put(&self, number: usize, tile: &Tile) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(tile, self.to.add(number * TILE_FLOATS).cast(), 1) };
    }

    /// Sixteen rows from `block` on, the 32 columns of `step`: a line of each row, with zeros beyond the edges.
    ///
    /// # Safety
    /// As for [`OperandPacker::run_part`].
    #[inline(always)]
    unsafe fn lines<L: Lanes>(&self, block: usize, step: usize) -> Tile {
        let depth = Format::Bf16.depth();
        let mut tile = Tile([[0; LINES]; LINES]);
        let some = depth.min(self.width.saturating_sub(step * depth));
        for i in 0..LINES.min(self.rows.saturating_sub(block * LINES)) {
            let row = block * LINES + i;
            // SAFETY: the row and its columns lie inside the matrix.
            unsafe {
                match self.from {
                    OperandSource::F32(from) => {
                        let from = from.add(row * self.width + step * depth);
                        bf16_line::<L>(from, some, tile.0[i].as_mut_ptr().cast());
                    }
                    OperandSource::Bf16Tiles(from) => tile.0[i] = *self.line(from, row, step),
                }
            }
        }
        tile
    }

    /// The line of a row in the quantized matrix at `from`, number `step` along it.
    #[inline(always)]
    fn line(&self, from: *const f32, row: usize, step: usize) -> *const [u32; LINES] {
        let tile = row / LINES * Format::Bf16.tiles(self.width) + step;
        from.wrapping_add(tile * TILE_FLOATS + row % LINES * LINES).cast()
    }

    /// 32 rows from `step` on, the sixteen columns of `panel`: a line of each pair of rows, with zeros beyond the edges.
    ///
    /// # Safety
    /// As for [`OperandPacker::run_part`].
    #[inline(always)]
    unsafe fn pairs<L: Lanes>(&self, step: usize, panel: usize, pair: impl Fn(L, L) -> L) -> Tile {
        // SAFETY: the caller's promise.
        unsafe {
            match self.from {
                OperandSource::F32(from) => self.pairs_of_rows::<L>(from, step, panel, pair),
                OperandSource::Bf16Tiles(from) => self.pairs_of_lines(from, step, panel),
            }
        }
    }

    /// [`OperandPacker::pairs`] of a matrix in `bf16`, whose lines are two panels wide.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn pairs_of_lines(&self, from: *const f32, step: usize, panel: usize) -> Tile {
        let mut tile = Tile([[0; LINES]; LINES]);
        if panel * LINES >= self.width {
            return tile;
        }
        let numbers = |row: usize| {
            if row >= self.rows {
                return [0; LINES];
            }
            // SAFETY: the row has a line here, and zeros behind its end.
            unsafe { *self.line(from, row, panel / 2).cast::<[u16; LINES]>().add(panel % 2) }
        };
        for (pair, line) in tile.0.iter_mut().enumerate() {
            let first = step * 2 * LINES + 2 * pair;
            let (low, high) = (numbers(first), numbers(first + 1));
            for (i, pair) in line.iter_mut().enumerate() {
                *pair = u32::from(low[i]) | u32::from(high[i]) << 16;
            }
        }
        tile
    }

    /// [`OperandPacker::pairs`] of a matrix at `from`.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn pairs_of_rows<L: Lanes>(
        &self,
        from: *const f32,
        step: usize,
        panel: usize,
        pair: impl Fn(L, L) -> L,
    ) -> Tile {
        let Self { rows, width, .. } = *self;
        let mut tile = Tile([[0; LINES]; LINES]);
        let some = LINES.min(width.saturating_sub(panel * LINES));
        let row = |index: usize| {
            let line = from.wrapping_add(index * width + panel * LINES);
            // SAFETY: the caller's promise; where there is a row, its columns lie inside the matrix.
            unsafe {
                match if index < rows { some } else { 0 } {
                    LINES => L::load(line),
                    some => L::load_first(line, some),
                }
            }
        };
        for (at, line) in tile.0.iter_mut().enumerate() {
            let first = step * 2 * LINES + 2 * at;
            // SAFETY: the caller's promise; a line is sixteen pairs.
            unsafe { pair(row(first), row(first + 1)).store(line.as_mut_ptr().cast()) };
        }
        tile
    }
}

/// [`OperandPacker::part`] by the instruction that rounds.
///
/// # Safety
/// As there; the machine has AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn part_by_instruction(packer: &OperandPacker, part: usize) {
    // SAFETY: the caller's promise.
    unsafe { packer.part::<Avx512>(part, |low, high| low.pair_bf16(high)) };
}

const _: () = assert!(size_of::<Tile>() == TILE && TILE == LINES * LINE);

#[cfg(test)]
mod tests {
    use super::super::{RowQuantizer, RowSource, Weight};
    use super::*;
    use glassformer_tensor::{Buffer, Random};

    fn packed(operand: Operand, isa: Isa, from: OperandSource, rows: usize, width: usize) -> Vec<u32> {
        let mut to = Buffer::zeros(OperandPacker::len(operand, rows, width));
        to.fill(f32::NAN);
        let packer = OperandPacker { operand, rows, width, from, to: to.as_mut_ptr() };
        for part in (0..packer.parts()).rev() {
            // SAFETY: the set is available, and both are as long as the packer says.
            unsafe { packer.run_part(isa, part) };
        }
        to.iter().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn operands_are_what_weights_and_quantized_rows_are() {
        let mut random = Random::new(1);
        let mut shapes: Vec<[usize; 2]> = (0..20).map(|_| [(); 2].map(|()| 1 + random.below(300))).collect();
        shapes.extend([[1, 1], [16, 32], [64, 64], [33, 65]]);
        for [rows, width] in shapes {
            let mut matrix: Vec<f32> = (0..rows * width).map(|_| random.normal()).collect();
            // What instructions may see otherwise: subnormal numbers, and none.
            for odd in [1e-40, -1e-40, f32::NAN, f32::NEG_INFINITY, f32::MAX] {
                matrix[random.below(rows * width)] = odd;
            }
            let other: Vec<f32> = (0..rows * width).map(|at| matrix[at % rows * width + at / rows]).collect();
            let bits_of = |weight: Weight, k: usize, columns: usize| {
                // SAFETY: a weight is that long.
                let floats = unsafe {
                    std::slice::from_raw_parts(weight.as_ptr(), Weight::len(Format::Bf16, k, columns))
                };
                floats.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            };
            let b = bits_of(Weight::from_rows(Format::Bf16, &matrix, rows, width), rows, width);
            let b_transposed = bits_of(Weight::from_weight(Format::Bf16, &matrix, rows, width), width, rows);
            let mut left = Buffer::zeros(RowQuantizer::len(Format::Bf16, width, rows));
            let (from, to) = (other.as_ptr(), left.as_mut_ptr());
            let from = RowSource::F32(from);
            let quantizer =
                RowQuantizer { format: Format::Bf16, rows: width, k: rows, from, stride: rows, to };
            // SAFETY: every machine has this set, and the buffers are as long as the quantizer says.
            (0..width).for_each(|row| unsafe { quantizer.run_row(Isa::Scalar, row) });
            let left: Vec<u32> = left.iter().map(|x| x.to_bits()).collect();
            // Lines of rows that are not there hold anything.
            let mut quantized = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, width));
            quantized.fill(f32::NAN);
            let (from, to) = (matrix.as_ptr(), quantized.as_mut_ptr());
            let from = RowSource::F32(from);
            let quantizer = RowQuantizer { format: Format::Bf16, rows, k: width, from, stride: width, to };
            // SAFETY: as above.
            (0..rows).for_each(|row| unsafe { quantizer.run_row(Isa::Scalar, row) });
            for isa in Isa::available() {
                for from in
                    [OperandSource::F32(matrix.as_ptr()), OperandSource::Bf16Tiles(quantized.as_ptr())]
                {
                    let about = format!("[{rows}, {width}], {from:?} on {isa}");
                    assert!(packed(Operand::B, isa, from, rows, width) == b, "{about}");
                    assert!(packed(Operand::BTransposed, isa, from, rows, width) == b_transposed, "{about}");
                    assert!(packed(Operand::ATransposed, isa, from, rows, width) == left, "{about}");
                }
            }
        }
    }
}
