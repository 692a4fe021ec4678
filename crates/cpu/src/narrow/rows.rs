//! A, row by row: rounded to `bf16`, or to integers by scales of the row's own.
#![allow(clippy::cast_ptr_alignment)] // lines are aligned to 64 bytes
#![allow(clippy::needless_range_loop)] // plain loops become vectors
#![allow(clippy::extra_unused_type_parameters)] // the compiler has the instructions of `L`, and finds the vectors by itself

#[cfg(target_arch = "x86_64")]
use super::Dot;
use super::{Format, LINE, LINES, TILE, TILE_FLOATS};
use crate::dispatch;
use crate::isa::Isa;
#[cfg(target_arch = "aarch64")]
use crate::lanes::Neon;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar};

/// The largest integer; the range is symmetric.
const LARGEST: f32 = 127.0;

/// The narrowing of rows, described: [`Narrowing::run_row`] narrows one of them, on any thread.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing {
    /// What they become.
    pub format: Format,
    /// How many there are.
    pub rows: usize,
    /// Numbers of a row.
    pub k: usize,
    /// The first row.
    pub from: *const f32,
    /// How far apart rows begin.
    pub stride: usize,
    /// [`Narrowing::len`] numbers, aligned to 64 bytes.
    pub to: *mut f32,
}

// SAFETY: a description holds addresses and reads none; whoever calls `run_row` answers for them.
unsafe impl Send for Narrowing {}
// SAFETY: as above.
unsafe impl Sync for Narrowing {}

impl Narrowing {
    /// How many `f32` so many narrowed rows take: whole tiles, and for integers a scale for each row and block of k.
    pub const fn len(format: Format, rows: usize, k: usize) -> usize {
        let scales = match format {
            Format::Bf16 => 0,
            Format::Int8 | Format::Int4 => LINES * format.blocks(k),
        };
        rows.div_ceil(LINES) * (format.tiles(k) * TILE_FLOATS + scales)
    }

    /// Narrows row number `row` on `isa`.
    ///
    /// # Safety
    /// The machine has `isa`; `row < self.rows`. The rows are valid for reads and `to` for [`Narrowing::len`] writes; they
    /// do not overlap, and nobody else uses `to`, or writes the rows, at the same time, except other rows of this narrowing.
    pub unsafe fn run_row(&self, isa: Isa, row: usize) {
        for block in 0..self.format.blocks(self.k) {
            // SAFETY: the caller's promise.
            unsafe { self.run_block(isa, row, block) };
        }
    }

    /// The same for one block of k of the row; no other numbers of it are read.
    ///
    /// # Safety
    /// As for [`Narrowing::run_row`]; `block < self.format.blocks(self.k)`.
    pub unsafe fn run_block(&self, isa: Isa, row: usize, block: usize) {
        let Self { format, rows, k, from, stride, to } = *self;
        let (lines, tiles) = (rows.div_ceil(LINES), format.tiles(k));
        let some = format.block(k, block);
        // SAFETY: the caller's promise; each row has its own line in every tile, and its own scale for every block.
        unsafe {
            let numbers =
                std::slice::from_raw_parts(from.wrapping_add(row * stride + some.start), some.len());
            let first = to.add((row / LINES * tiles + some.start / format.depth()) * TILE_FLOATS);
            let scale = narrow_row(isa, format, numbers, first.cast::<u8>().add(row % LINES * LINE));
            if format.is_integers() {
                *to.add(lines * (tiles * TILE_FLOATS + block * LINES) + row) = scale;
            }
        }
    }
}

/// Narrows some numbers into the lines from `first` on, one in each tile, and gives their scale: of a `bf16`, 1.
///
/// # Safety
/// The machine has `isa`; there are that many tiles, and nobody else uses these lines.
pub(super) unsafe fn narrow_row(isa: Isa, format: Format, numbers: &[f32], first: *mut u8) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            Format::Bf16 => {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 if Dot::Avx512Dot.is_available() => x86::round_row(numbers, first),
                    _ => dispatch!(isa, round_row(numbers, first)),
                }
                1.0
            }
            Format::Int8 | Format::Int4 => dispatch!(isa, quantise_row(numbers, first)),
        }
    }
}

/// # Safety
/// Every tile from the one of `first` on has a line for this row.
#[inline(always)]
unsafe fn round_row<L: Lanes>(numbers: &[f32], first: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { lines::<{ LINE / 2 }, u16>(numbers, first, bf16) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE, LINES, TILE, narrow_line};
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
                low.store_halves(high, first.add(tile * TILE).cast());
            }
            if !rest.is_empty() || numbers.is_empty() {
                narrow_line::<Avx512>(rest.as_ptr(), rest.len(), first.add(whole.len() * TILE));
            }
        }
    }
}

/// One line of `bf16`: `some` numbers, at most 32, and zeros behind them.
///
/// # Safety
/// The machine has `L`'s instructions; there are so many numbers at `from`, and a line at `line`, aligned to 64 bytes.
#[inline(always)]
pub(super) unsafe fn narrow_line<L: Lanes>(from: *const f32, some: usize, line: *mut u8) {
    let mut narrow = [0_u16; LINE / 2];
    // SAFETY: the caller's promise.
    unsafe {
        if some == LINE / 2 {
            for i in 0..LINE / 2 {
                narrow[i] = bf16(*from.add(i));
            }
        } else {
            for i in 0..some {
                narrow[i] = bf16(*from.add(i));
            }
        }
        *line.cast() = narrow;
    }
}

/// The scale of these numbers: the largest is 127 of it.
///
/// # Safety
/// As for [`round_row`].
#[inline(always)]
unsafe fn quantise_row<L: Bytes>(numbers: &[f32], first: *mut u8) -> f32 {
    let (scale, inverse) = scale(numbers);
    let whole = numbers.len() / LINE;
    // SAFETY: the caller's promise; there are so many whole lines, and one for what is left.
    unsafe {
        for tile in 0..whole {
            L::quantise_line(numbers.as_ptr().add(tile * LINE), inverse, first.add(tile * TILE));
        }
        let rest = &numbers[whole * LINE..];
        if !rest.is_empty() || numbers.is_empty() {
            lines::<LINE, i8>(rest, first.add(whole * TILE), |x| quantise(x, inverse));
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
    unsafe fn quantise_line(from: *const f32, inverse: f32, to: *mut u8) {
        let mut line = [0; LINE];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..LINE {
                line[i] = quantise(*from.add(i), inverse);
            }
            *to.cast() = line;
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
    unsafe fn quantise_line(from: *const f32, inverse: f32, to: *mut u8) {
        use std::arch::x86_64::{
            _mm512_cvtps_epi32, _mm512_loadu_ps, _mm512_mul_ps, _mm512_packs_epi16, _mm512_packs_epi32,
            _mm512_permutexvar_epi32, _mm512_set1_ps, _mm512_setr_epi32, _mm512_store_si512,
        };
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
}

/// Writes one row, line by line, with zeros behind its end.
///
/// # Safety
/// As for [`round_row`]; a line is `DEPTH` numbers of type `T`.
#[inline(always)]
unsafe fn lines<const DEPTH: usize, T: Copy + Default>(
    numbers: &[f32],
    first: *mut u8,
    narrow: impl Fn(f32) -> T,
) {
    let (whole, rest) = numbers.as_chunks::<DEPTH>();
    // SAFETY: the caller's promise; lines are aligned to 64 bytes.
    unsafe {
        for (tile, numbers) in whole.iter().enumerate() {
            // A loop, because `map` on arrays is not inlined, and would not have the instructions; and a line of its own,
            // or the compiler would think that it might overlap the numbers.
            let mut line = [T::default(); DEPTH];
            for i in 0..DEPTH {
                line[i] = narrow(numbers[i]);
            }
            *first.add(tile * TILE).cast::<[T; DEPTH]>() = line;
        }
        if !rest.is_empty() || numbers.is_empty() {
            let mut line = [T::default(); DEPTH];
            for (to, &from) in line.iter_mut().zip(rest) {
                *to = narrow(from);
            }
            *first.add(whole.len() * TILE).cast::<[T; DEPTH]>() = line;
        }
    }
}

/// The nearest `bf16`, the even one of two; NaN stays NaN. What is subnormal becomes zero, as the instruction has it that rounds: whether
/// a row meets that one may depend on its neighbours.
#[inline(always)]
pub(super) fn bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let bits = if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

/// The scale of some numbers, and what to multiply by to get integers.
///
/// The largest is found among the bits, where NaN is larger than everything: one NaN makes the scale NaN, and with it all
/// that the row takes part in. Infinity does so too, as zero times infinity.
#[inline(always)]
pub(super) fn scale(numbers: &[f32]) -> (f32, f32) {
    let most = numbers.iter().fold(0, |most: u32, x| most.max(x.to_bits() & 0x7fff_ffff));
    let most = f32::from_bits(most);
    // Below this, the inverse would be infinite; what is so small is nothing.
    if most < f32::MIN_POSITIVE * LARGEST { (0.0, 0.0) } else { (most / LARGEST, LARGEST / most) }
}

/// The nearest integer, the even one of two. Added to a number so large that there is nothing behind the point, the last
/// bits are the integer.
#[inline(always)]
pub(super) fn quantise(x: f32, inverse: f32) -> i8 {
    const POINT: f32 = 12_582_912.0; // 1.5 · 2²³
    (x * inverse + POINT).to_bits() as i8
}
