//! A is quantized row by row: to `bf16`, or to integers with scales of the row's own.

use crate::tuning::lowp::{BF16_BEFORE_INT8, MAX_INTEGER_BLOCK};

#[cfg(target_arch = "x86_64")]
use super::Dot;
use super::{Format, LINE, LINES, TILE, TILE_FLOATS};
use crate::dispatch;
use crate::isa::Isa;
#[cfg(target_arch = "aarch64")]
use crate::lanes::Neon;
use crate::lanes::bf16::{from_bf16, to_bf16};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar};

/// Numbers of `bf16` in a line.
const BF16_PER_LINE: usize = LINE / 2;

/// The largest integer; the range is symmetric.
const LARGEST: f32 = 127.0;

/// How rows are quantized: [`RowQuantizer::run_row`] quantizes one of them, on any thread.
#[derive(Clone, Copy, Debug)]
pub struct RowQuantizer {
    /// What they become.
    pub format: Format,
    /// How many there are.
    pub rows: usize,
    /// Numbers of a row.
    pub k: usize,
    /// The first row.
    pub from: RowSource,
    /// How far apart rows begin.
    pub stride: usize,
    /// [`RowQuantizer::len`] numbers, aligned to 64 bytes.
    pub to: *mut f32,
}

/// Numbers that are to be quantized.
#[derive(Clone, Copy, Debug)]
pub enum RowSource {
    /// In `f32`.
    F32(*const f32),
    /// In `bf16`. They become integers.
    Bf16(*const u16),
}

// SAFETY: a description holds addresses and reads none; whoever calls `run_row` answers for them.
unsafe impl Send for RowQuantizer {}
// SAFETY: as above.
unsafe impl Sync for RowQuantizer {}

impl RowQuantizer {
    /// How many `f32` so many quantized rows take: whole tiles, and for integers a scale for each row and block of k.
    pub const fn len(format: Format, rows: usize, k: usize) -> usize {
        let scales = match format {
            Format::Bf16 => 0,
            Format::Int8 | Format::Int4 => LINES * format.blocks(k),
        };
        rows.div_ceil(LINES) * (format.tiles(k) * TILE_FLOATS + scales)
    }

    /// Whether numbers of a row are rounded to `bf16` before they become integers.
    pub fn rounds(format: Format, k: usize) -> bool {
        format.is_integers() && BF16_BEFORE_INT8.contains(&k)
    }

    /// Quantizes row number `row` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `row < self.rows`. The rows are valid for reads and `to` for [`RowQuantizer::len`] writes; they
    /// do not overlap, and nobody else uses `to`, or writes the rows, at the same time, except other rows of this quantizer.
    pub unsafe fn run_row(&self, isa: Isa, row: usize) {
        for block in 0..self.format.blocks(self.k) {
            // SAFETY: the caller's promise.
            unsafe { self.run_block(isa, row, block) };
        }
    }

    /// The same for one block of k of the row; no other numbers of it are read.
    ///
    /// # Safety
    /// As for [`RowQuantizer::run_row`]; `block < self.format.blocks(self.k)`.
    pub unsafe fn run_block(&self, isa: Isa, row: usize, block: usize) {
        let Self { format, rows, k, from, stride, to } = *self;
        let (lines, tiles) = (rows.div_ceil(LINES), format.tiles(k));
        let some = format.block(k, block);
        let at = row * stride + some.start;
        // SAFETY: the caller's promise; each row has its own line in every tile, and its own scale for every block.
        unsafe {
            let first = to.add((row / LINES * tiles + some.start / format.depth()) * TILE_FLOATS);
            let first = first.cast::<u8>().add(row % LINES * LINE);
            let scale = match from {
                RowSource::F32(from) => {
                    let numbers = std::slice::from_raw_parts(from.wrapping_add(at), some.len());
                    if Self::rounds(format, k) {
                        dispatch!(isa, quantize_int8_rounded(numbers, first))
                    } else {
                        quantize_row(isa, format, numbers, first)
                    }
                }
                RowSource::Bf16(from) => {
                    let numbers = std::slice::from_raw_parts(from.wrapping_add(at), some.len());
                    dispatch!(isa, quantize_int8_from_bf16(numbers, first))
                }
            };
            if format.is_integers() {
                *to.add(lines * (tiles * TILE_FLOATS + block * LINES) + row) = scale;
            }
        }
    }
}

/// How rows in `bf16` are summed: [`RowSum::run_part`] does some columns, on any thread. Each sum goes row by row.
#[derive(Clone, Copy, Debug)]
pub struct RowSum {
    /// How many rows there are.
    pub rows: usize,
    /// Numbers of a row.
    pub width: usize,
    /// As [`RowQuantizer`] writes them.
    pub from: *const f32,
    /// `width` numbers.
    pub to: *mut f32,
}

impl RowSum {
    /// The number of independent work items: each is a tile wide.
    pub fn parts(&self) -> usize {
        self.width.div_ceil(BF16_PER_LINE)
    }

    /// Does part number `part` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `part < self.parts()`. The rows are valid for reads and `to` for writes; they do not overlap, and
    /// nobody else uses these columns of `to`, or writes the rows, at the same time.
    pub unsafe fn run_part(&self, isa: Isa, part: usize) {
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |_L| self.part(part)) };
    }

    /// # Safety
    /// As for [`RowSum::run_part`].
    #[inline(always)]
    unsafe fn part(&self, part: usize) {
        let mut sums = [0.0_f32; BF16_PER_LINE];
        for row in 0..self.rows {
            let tile = row / LINES * Format::Bf16.tiles(self.width) + part;
            // SAFETY: the row has a line in this tile.
            let line = unsafe {
                let tile = self.from.add(tile * TILE_FLOATS).cast::<u8>();
                &*tile.add(row % LINES * LINE).cast::<[u16; BF16_PER_LINE]>()
            };
            for i in 0..BF16_PER_LINE {
                sums[i] += from_bf16(line[i]);
            }
        }
        let some = BF16_PER_LINE.min(self.width - part * BF16_PER_LINE);
        // SAFETY: these are columns of this part.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), self.to.add(part * BF16_PER_LINE), some) };
    }
}

/// Quantizes some numbers into the lines from `first` on, one in each tile, and gives their scale: of a `bf16`, 1.
///
/// # Safety
/// The machine has `isa`; there are that many tiles, and nobody else uses these lines.
pub(super) unsafe fn quantize_row(isa: Isa, format: Format, numbers: &[f32], first: *mut u8) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            Format::Bf16 => {
                rounding(isa)(numbers, first);
                1.0
            }
            Format::Int8 | Format::Int4 => dispatch!(isa, quantize_int8(numbers, first)),
        }
    }
}

/// What rounds some numbers to `bf16`, into the lines from an address on, one in each tile, with zeros behind the last number.
///
/// The function's safety: the machine has `isa`, and every tile from there on has a line for this row.
pub(super) fn rounding(isa: Isa) -> unsafe fn(&[f32], *mut u8) {
    macro_rules! on {
        ($isa:expr) => {
            // SAFETY: the caller's promise.
            |numbers, first| unsafe { dispatch!($isa, round_row(numbers, first)) }
        };
    }
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if Dot::Avx512Dot.is_available() => x86::round_row,
        Isa::Avx512 => on!(Isa::Avx512),
        Isa::Avx2 => on!(Isa::Avx2),
        Isa::Neon => on!(Isa::Neon),
        Isa::Scalar => on!(Isa::Scalar),
    }
}

/// # Safety
/// Every tile from the one of `first` on has a line for this row.
#[inline(always)]
unsafe fn round_row<L: Lanes>(numbers: &[f32], first: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { lines::<{ LINE / 2 }, _, u16>(numbers, first, to_bf16) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE, LINES, TILE, bf16_line};
    use crate::lanes::{Avx512, Lanes};

    /// [`super::round_row`], by the instruction that rounds.
    ///
    /// # Safety
    /// As there; the machine has AVX-512 BF16.
    #[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn round_row(numbers: &[f32], first: *mut u8) {
        const DEPTH: usize = LINE / 2;
        let (whole, rest) = numbers.as_chunks::<DEPTH>();
        // SAFETY: the caller's promise.
        unsafe {
            for (tile, numbers) in whole.iter().enumerate() {
                let low = Avx512::load(numbers.as_ptr());
                let high = Avx512::load(numbers.as_ptr().add(LINES));
                low.store_bf16(high, first.add(tile * TILE).cast());
            }
            if !rest.is_empty() || numbers.is_empty() {
                bf16_line::<Avx512>(rest.as_ptr(), rest.len(), first.add(whole.len() * TILE));
            }
        }
    }
}

/// One line of `bf16`: `some` numbers, at most 32, and zeros behind them.
///
/// # Safety
/// The machine has `L`'s instructions; there are so many numbers at `from`, and a line at `line`, aligned to 64 bytes.
#[inline(always)]
pub(super) unsafe fn bf16_line<L: Lanes>(from: *const f32, some: usize, line: *mut u8) {
    let mut rounded = [0_u16; LINE / 2];
    // SAFETY: the caller's promise.
    unsafe {
        if some == LINE / 2 {
            for i in 0..LINE / 2 {
                rounded[i] = to_bf16(*from.add(i));
            }
        } else {
            for i in 0..some {
                rounded[i] = to_bf16(*from.add(i));
            }
        }
        *line.cast() = rounded;
    }
}

/// The scale of these numbers: the largest is 127 of it.
///
/// # Safety
/// As for [`round_row`].
#[inline(always)]
unsafe fn quantize_int8<L: Bytes>(numbers: &[f32], first: *mut u8) -> f32 {
    let (scale, inverse) = scale(numbers);
    let whole = numbers.len() / LINE;
    // SAFETY: the caller's promise; there are so many whole lines, and one for what is left.
    unsafe {
        for tile in 0..whole {
            L::quantize_line(numbers.as_ptr().add(tile * LINE), inverse, first.add(tile * TILE));
        }
        let rest = &numbers[whole * LINE..];
        if !rest.is_empty() || numbers.is_empty() {
            lines::<LINE, _, i8>(rest, first.add(whole * TILE), |x| quantize(x, inverse));
        }
    }
    scale
}

/// The same of numbers that are rounded to `bf16` first.
///
/// # Safety
/// As for [`round_row`].
#[inline(always)]
unsafe fn quantize_int8_rounded<L: Bytes>(numbers: &[f32], first: *mut u8) -> f32 {
    // A block, which is never longer.
    let mut rounded = [0; MAX_INTEGER_BLOCK * LINE];
    for (to, &number) in rounded.iter_mut().zip(numbers) {
        *to = to_bf16(number);
    }
    // SAFETY: the caller's promise.
    unsafe { quantize_int8_from_bf16::<L>(&rounded[..numbers.len()], first) }
}

/// The same of numbers in `bf16`.
///
/// # Safety
/// As for [`round_row`].
#[inline(always)]
unsafe fn quantize_int8_from_bf16<L: Bytes>(numbers: &[u16], first: *mut u8) -> f32 {
    let most = numbers.iter().fold(0, |most: u16, x| most.max(x & 0x7fff));
    let (scale, inverse) = scale_of(from_bf16(most));
    let whole = numbers.len() / LINE;
    // SAFETY: the caller's promise; there are so many whole lines, and one for what is left.
    unsafe {
        for tile in 0..whole {
            L::quantize_bf16_line(numbers.as_ptr().add(tile * LINE), inverse, first.add(tile * TILE));
        }
        let rest = &numbers[whole * LINE..];
        if !rest.is_empty() || numbers.is_empty() {
            lines::<LINE, _, i8>(rest, first.add(whole * TILE), |x| quantize(from_bf16(x), inverse));
        }
    }
    scale
}

/// Lanes that write integers of eight bits.
trait Bytes: Lanes {
    /// A line of numbers times `inverse`, rounded.
    ///
    /// # Safety
    /// The machine has the instructions; there is a line of numbers at `from`, and one to write at `to`, aligned to 64 bytes.
    #[inline(always)]
    unsafe fn quantize_line(from: *const f32, inverse: f32, to: *mut u8) {
        let mut line = [0; LINE];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..LINE {
                line[i] = quantize(*from.add(i), inverse);
            }
            *to.cast() = line;
        }
    }

    /// The same of numbers in `bf16`.
    ///
    /// # Safety
    /// As for [`Bytes::quantize_line`].
    #[inline(always)]
    unsafe fn quantize_bf16_line(from: *const u16, inverse: f32, to: *mut u8) {
        let mut numbers = [0.0; LINE];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..LINE {
                numbers[i] = from_bf16(*from.add(i));
            }
            Self::quantize_line(numbers.as_ptr(), inverse, to);
        }
    }
}

impl Bytes for Scalar {}
#[cfg(target_arch = "aarch64")]
impl Bytes for Neon {}
#[cfg(target_arch = "x86_64")]
impl Bytes for Avx2 {}

#[cfg(target_arch = "x86_64")]
impl Bytes for Avx512 {
    /// By one store instead of four.
    #[inline(always)]
    unsafe fn quantize_line(from: *const f32, inverse: f32, to: *mut u8) {
        use std::arch::x86_64::*;
        // SAFETY: the caller's promise.
        unsafe {
            let inverse = _mm512_set1_ps(inverse);
            let some =
                |i: usize| _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from.add(i * LINES)), inverse));
            let low = _mm512_packs_epi32(some(0), some(1));
            let high = _mm512_packs_epi32(some(2), some(3));
            // Packing goes by quarters of a register.
            let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
            _mm512_store_si512(to.cast(), bytes);
        }
    }

    /// Of each pair, one is in the upper 16 of its 32 bits already. The other is shifted there.
    #[inline(always)]
    unsafe fn quantize_bf16_line(from: *const u16, inverse: f32, to: *mut u8) {
        use std::arch::x86_64::*;
        // SAFETY: the caller's promise.
        unsafe {
            let (inverse, upper) = (_mm512_set1_ps(inverse), _mm512_set1_epi32(!0xffff));
            let mut integers = [_mm512_setzero_si512(); 2];
            for (i, integers) in integers.iter_mut().enumerate() {
                let pairs = _mm512_loadu_si512(from.add(i * LINE / 2).cast());
                let (even, odd) = (_mm512_slli_epi32::<16>(pairs), _mm512_and_si512(pairs, upper));
                let even = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(even), inverse));
                let odd = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(odd), inverse));
                *integers = _mm512_mask_blend_epi16(0xaaaa_aaaa, even, _mm512_slli_epi32::<16>(odd));
            }
            // Packing goes by quarters of a register.
            let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
            let bytes = _mm512_permutexvar_epi64(order, _mm512_packs_epi16(integers[0], integers[1]));
            _mm512_store_si512(to.cast(), bytes);
        }
    }
}

/// Writes one row, line by line, with zeros behind its end.
///
/// # Safety
/// As for [`round_row`]; a line is `DEPTH` numbers of type `T`.
#[inline(always)]
unsafe fn lines<const DEPTH: usize, N: Copy, T: Copy + Default>(
    numbers: &[N],
    first: *mut u8,
    convert: impl Fn(N) -> T,
) {
    let (whole, rest) = numbers.as_chunks::<DEPTH>();
    // SAFETY: the caller's promise; lines are aligned to 64 bytes.
    unsafe {
        for (tile, numbers) in whole.iter().enumerate() {
            // A loop, because `map` on arrays is not inlined, and would not have the instructions; and a line of its own,
            // or the compiler would think that it might overlap the numbers.
            let mut line = [T::default(); DEPTH];
            for i in 0..DEPTH {
                line[i] = convert(numbers[i]);
            }
            *first.add(tile * TILE).cast::<[T; DEPTH]>() = line;
        }
        if !rest.is_empty() || numbers.is_empty() {
            let mut line = [T::default(); DEPTH];
            for (to, &from) in line.iter_mut().zip(rest) {
                *to = convert(from);
            }
            *first.add(whole.len() * TILE).cast::<[T; DEPTH]>() = line;
        }
    }
}

/// The scale of some numbers, and what to multiply by to get integers.
///
/// The largest is found among the bits, where NaN is larger than everything: one NaN makes the scale NaN, and with it all
/// that the row takes part in. Infinity does so too: there is no scale for it.
#[inline(always)]
pub(super) fn scale(numbers: &[f32]) -> (f32, f32) {
    scale_of(f32::from_bits(numbers.iter().fold(0, |most: u32, x| most.max(x.to_bits() & 0x7fff_ffff))))
}

/// The same, where the largest is known.
#[inline(always)]
fn scale_of(most: f32) -> (f32, f32) {
    if !most.is_finite() {
        return (f32::NAN, 0.0);
    }
    // Below this, the inverse would be infinite; what is so small is nothing.
    if most < f32::MIN_POSITIVE * LARGEST { (0.0, 0.0) } else { (most / LARGEST, LARGEST / most) }
}

/// The nearest integer, the even one of two. Added to a number so large that there is nothing behind the point, the last
/// bits are the integer.
#[inline(always)]
pub(super) fn quantize(x: f32, inverse: f32) -> i8 {
    const POINT: f32 = 12_582_912.0; // 1.5 · 2²³
    (x * inverse + POINT).to_bits() as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_or_endless_has_no_scale() {
        for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let (scale, inverse) = scale(&[1.0, odd, -2.0]);
            assert!(scale.is_nan() && inverse == 0.0, "{odd}: {scale}, {inverse}");
        }
        assert_eq!(scale(&[0.0; 3]), (0.0, 0.0));
    }

    use glassformer_tensor::{Buffer, Random};

    #[test]
    fn bf16_becomes_the_integers_of_its_numbers() {
        let mut random = Random::new(4);
        for [rows, k] in [[1, 1], [16, 64], [33, 65], [5, 1024], [3, 2100], [2, 4096], [2, 5632], [2, 0]] {
            let mut rounded: Vec<u16> = (0..rows * k).map(|_| to_bf16(random.normal())).collect();
            // A row of zeros, and one with a number that is none.
            rounded[..k].fill(0x8000);
            if let Some(last) = rounded.last_mut().filter(|_| rows > 1) {
                *last = to_bf16(f32::NAN);
            }
            let numbers: Vec<f32> = rounded.iter().map(|&bits| from_bf16(bits)).collect();
            let quantized = |from: RowSource, isa: Isa| {
                let mut to = Buffer::zeros(RowQuantizer::len(Format::Int8, rows, k));
                let quantizer =
                    RowQuantizer { format: Format::Int8, rows, k, from, stride: k, to: to.as_mut_ptr() };
                // SAFETY: the set is available, and the buffers are as long as the quantizer says.
                (0..rows).for_each(|row| unsafe { quantizer.run_row(isa, row) });
                to.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            };
            let expected = quantized(RowSource::F32(numbers.as_ptr()), Isa::Scalar);
            // What is rounded off.
            let near: Vec<f32> = numbers.iter().map(|&x| f32::from_bits(x.to_bits() | 1)).collect();
            for isa in Isa::available() {
                let found = quantized(RowSource::Bf16(rounded.as_ptr()), isa);
                assert!(found == expected, "[{rows}, {k}] on {isa}");
                if BF16_BEFORE_INT8.contains(&k) {
                    let found = quantized(RowSource::F32(near.as_ptr()), isa);
                    assert!(found == expected, "[{rows}, {k}] on {isa}, rounded");
                }
            }
        }
    }

    #[test]
    fn sums_over_bf16_rows_are_those_of_rounded_numbers() {
        let mut random = Random::new(3);
        for [rows, width] in [[1, 1], [16, 32], [33, 65], [300, 100], [7, 0], [0, 40]] {
            let matrix: Vec<f32> = (0..rows * width).map(|_| random.normal()).collect();
            let mut quantized = Buffer::zeros(RowQuantizer::len(Format::Bf16, rows, width));
            // Lines of rows that are not there hold anything.
            quantized.fill(f32::NAN);
            let (from, to) = (matrix.as_ptr(), quantized.as_mut_ptr());
            let from = RowSource::F32(from);
            let quantizer = RowQuantizer { format: Format::Bf16, rows, k: width, from, stride: width, to };
            // SAFETY: every machine has this set, and the buffers are as long as the quantizer says.
            (0..rows).for_each(|row| unsafe { quantizer.run_row(Isa::Scalar, row) });
            let rounded = |x: f32| from_bf16(to_bf16(x));
            let column = |j: usize| (0..rows).fold(0.0, |sum, i| sum + rounded(matrix[i * width + j]));
            let expected: Vec<f32> = (0..width).map(column).collect();
            for isa in Isa::available() {
                let mut found = vec![f32::NAN; width];
                let summing = RowSum { rows, width, from: quantized.as_ptr(), to: found.as_mut_ptr() };
                // SAFETY: the set is available, and both are as long as the summing says.
                (0..summing.parts()).for_each(|part| unsafe { summing.run_part(isa, part) });
                assert_eq!(found, expected, "[{rows}, {width}] on {isa}");
            }
        }
    }
}
