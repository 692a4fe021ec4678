//! Without VNNI: products of codes are added up in sixteen bits over a group, and then multiplied by its step.
//!
//! `vpmaddubsw` multiplies codes without their offset, 0 to 15, by A, and adds two products. Over the four lines of a group that is at
//! most 4 · 2 · 15 · 127, and what the offset takes away, with which sums begin, at most 4 · 2 · 8 · 127: together sixteen bits hold
//! them. So ten instructions multiply 256 numbers, where integers of eight bits take sixteen.

use super::x86::{PANELS, Unit, prefetch};
use super::{GROUP_LINES, GROUPS, LINE, LINES, TILE, place};
use crate::lowp::{Dot, UNIT};
use crate::tuning::lowp::MAX_INTEGER_BLOCK;
use std::arch::x86_64::*;

/// Some columns of a line, in a register.
///
/// # Safety
/// Of all functions: the machine has the instructions.
trait Register: Copy {
    /// How many columns, each of four bytes.
    const COLUMNS: usize;

    unsafe fn zero() -> Self;

    /// These four bytes in all columns.
    unsafe fn all(from: *const u8) -> Self;

    unsafe fn load(from: *const u8) -> Self;

    unsafe fn store(self, to: *mut u8);

    /// Codes of two lines, of which one lies in the low halves of bytes.
    unsafe fn both(self) -> [Self; 2];

    /// The steps of a tile, which are two bytes of a column, in both halves of its four bytes.
    unsafe fn steps(from: *const u8) -> Self;

    /// The step of the next group, and those behind it.
    unsafe fn step(self) -> [Self; 2];

    /// Sums in sixteen bits with the products of codes and A.
    unsafe fn add(self, codes: Self, left: Self) -> Self;

    /// Sums in thirty-two bits with those of a group times its step.
    unsafe fn add_group(self, parts: Self, step: Self) -> Self;

    /// Of so much of a row of A: what the sums of each group begin with, four times.
    unsafe fn offsets(self) -> Self;
}

/// What a register of so many bits does as a [`Register`].
macro_rules! register {
    (
        $name:ident($register:ty), $columns:literal columns,
        zero: $zero:ident, all: $all:ident, all_bytes: $all_bytes:ident, all_i16: $all_i16:ident, load: $load:ident,
        store: $store:ident, and: $and:ident, or: $or:ident, right_i16: $right_i16:ident, left: $left:ident,
        half: $half:ident, widen: $widen:ident, multiply: $multiply:ident, add_i16: $add_i16:ident, multiply_i16: $multiply_i16:ident,
        add_sums: $add_sums:ident, subtract: $subtract:ident, shuffle: $shuffle:ident
    ) => {
        #[derive(Clone, Copy)]
        struct $name($register);

        impl Register for $name {
            const COLUMNS: usize = $columns;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            unsafe fn all(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $all(from.cast::<i32>().read_unaligned()) })
            }

            #[inline(always)]
            unsafe fn load(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { $store(to.cast(), self.0) };
            }

            #[inline(always)]
            unsafe fn both(self) -> [Self; 2] {
                // SAFETY: the caller's promise.
                unsafe {
                    let low = $all_bytes(15);
                    [Self($and(self.0, low)), Self($and($right_i16::<4>(self.0), low))]
                }
            }

            #[inline(always)]
            unsafe fn steps(from: *const u8) -> Self {
                // SAFETY: the caller's promise.
                unsafe {
                    let steps = $widen($half(from.cast()));
                    Self($or(steps, $left::<16>(steps)))
                }
            }

            #[inline(always)]
            unsafe fn step(self) -> [Self; 2] {
                // SAFETY: the caller's promise.
                unsafe { [Self($and(self.0, $all_i16(15))), Self($right_i16::<4>(self.0))] }
            }

            #[inline(always)]
            unsafe fn add(self, codes: Self, left: Self) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $add_i16(self.0, $multiply(codes.0, left.0)) })
            }

            #[inline(always)]
            unsafe fn add_group(self, parts: Self, step: Self) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $add_sums(self.0, $multiply_i16(parts.0, step.0)) })
            }

            #[inline(always)]
            unsafe fn offsets(self) -> Self {
                // SAFETY: the caller's promise.
                unsafe {
                    let sums = $multiply($all_bytes(8), self.0);
                    let two = $add_i16(sums, $shuffle::<0b10_11_00_01>(sums));
                    Self($subtract($zero(), $add_i16(two, $shuffle::<0b01_00_11_10>(two))))
                }
            }
        }
    };
}

register!(
    Eight(__m256i), 8 columns,
    zero: _mm256_setzero_si256,
    all: _mm256_set1_epi32,
    all_bytes: _mm256_set1_epi8,
    all_i16: _mm256_set1_epi16,
    load: _mm256_load_si256,
    store: _mm256_store_si256,
    and: _mm256_and_si256,
    or: _mm256_or_si256,
    right_i16: _mm256_srli_epi16,
    left: _mm256_slli_epi32,
    half: _mm_load_si128,
    widen: _mm256_cvtepu16_epi32,
    multiply: _mm256_maddubs_epi16,
    add_i16: _mm256_add_epi16,
    multiply_i16: _mm256_madd_epi16,
    add_sums: _mm256_add_epi32,
    subtract: _mm256_sub_epi16,
    shuffle: _mm256_shuffle_epi32
);
register!(
    Sixteen(__m512i), 16 columns,
    zero: _mm512_setzero_si512,
    all: _mm512_set1_epi32,
    all_bytes: _mm512_set1_epi8,
    all_i16: _mm512_set1_epi16,
    load: _mm512_load_si512,
    store: _mm512_store_si512,
    and: _mm512_and_si512,
    or: _mm512_or_si512,
    right_i16: _mm512_srli_epi16,
    left: _mm512_slli_epi32,
    half: _mm256_load_si256,
    widen: _mm512_cvtepu16_epi32,
    multiply: _mm512_maddubs_epi16,
    add_i16: _mm512_add_epi16,
    multiply_i16: _mm512_madd_epi16,
    add_sums: _mm512_add_epi32,
    subtract: _mm512_sub_epi16,
    shuffle: _mm512_shuffle_epi32
);

/// As [`super::multiply_unit`], by AVX-512 or AVX2.
///
/// # Safety
/// The machine has `dot`; as [`super::multiply_unit`] says.
pub(super) unsafe fn multiply_unit(dot: Dot, unit: &Unit<'_>) {
    // SAFETY: the caller's promise.
    unsafe { if dot == Dot::Avx512 { by_sixteen(unit) } else { by_eight(unit) } }
}

/// # Safety
/// The machine has AVX-512 F and BW; as for [`multiply_unit`].
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn by_sixteen(unit: &Unit<'_>) {
    // SAFETY: the caller's promise; tiles have the rows that do not count, and their sums have a place.
    unsafe {
        match unit.patch.rows {
            1 => rows::<Sixteen, 1, 4>(unit, 0),
            2 => rows::<Sixteen, 2, 4>(unit, 0),
            3 => rows::<Sixteen, 3, 2>(unit, 0),
            4 => rows::<Sixteen, 4, 2>(unit, 0),
            5..=6 => rows::<Sixteen, 6, 1>(unit, 0),
            7..=8 => rows::<Sixteen, 8, 1>(unit, 0),
            9..=12 => rows::<Sixteen, 12, 1>(unit, 0),
            _ => {
                rows::<Sixteen, 8, 1>(unit, 0);
                rows::<Sixteen, 8, 1>(unit, 8);
            }
        }
    }
}

/// # Safety
/// The machine has AVX2; as for [`multiply_unit`].
#[target_feature(enable = "avx2,fma")]
unsafe fn by_eight(unit: &Unit<'_>) {
    for first in (0..unit.patch.rows).step_by(4) {
        // SAFETY: the caller's promise.
        unsafe {
            match unit.patch.rows - first {
                1 => rows::<Eight, 1, 4>(unit, first),
                2 => rows::<Eight, 2, 2>(unit, first),
                3 => rows::<Eight, 3, 1>(unit, first),
                _ => rows::<Eight, 4, 1>(unit, first),
            }
        }
    }
}

/// `M` rows from `first` on, by all columns of the unit, `P` registers of them at a time.
///
/// # Safety
/// The machine has `R`'s instructions; as for [`multiply_unit`].
#[inline(always)]
unsafe fn rows<R: Register, const M: usize, const P: usize>(unit: &Unit<'_>, first: usize) {
    let (a, k) = (unit.patch.a.wrapping_add(first * LINE), unit.k);
    // SAFETY: the caller's promise; a register is a part of a line, and of sixteen sums.
    unsafe {
        let offsets = offsets::<R, M>(a, k.len());
        for columns in (0..UNIT).step_by(P * R::COLUMNS) {
            let column = |p: usize| columns + p * R::COLUMNS;
            let b: [*const u8; P] = std::array::from_fn(|p| unit.panel(column(p) / LINES));
            let mut totals = [[R::zero(); P]; M];
            for step in 0..k.len() {
                let (a, tile) = (a.add(step * TILE), k.start + step);
                let ([codes, from], distance) = (place(tile), unit.prefetch_distance(tile));
                for p in 0..P {
                    let within = column(p) % LINES;
                    prefetch(b[p].add(from), distance);
                    let mut steps = R::steps(b[p].add(from + 2 * within));
                    for group in 0..GROUPS {
                        let mut parts = [R::zero(); M];
                        for i in 0..M {
                            parts[i] = R::all((&raw const offsets.0[i][step][group * LINE / GROUPS]).cast());
                        }
                        for pair in group * GROUP_LINES / 2..(group + 1) * GROUP_LINES / 2 {
                            let line = b[p].add(codes + pair * LINE);
                            prefetch(line, distance);
                            let both = R::load(line.add(4 * within)).both();
                            for (at, codes) in both.into_iter().enumerate() {
                                for i in 0..M {
                                    let left = R::all(a.add(i * LINE + 4 * (2 * pair + at)));
                                    parts[i] = parts[i].add(codes, left);
                                }
                            }
                        }
                        let [now, rest] = steps.step();
                        steps = rest;
                        for i in 0..M {
                            totals[i][p] = totals[i][p].add_group(parts[i], now);
                        }
                    }
                }
            }
            for i in 0..M {
                for p in 0..P {
                    let sums = unit.sums(first + i, column(p) / LINES).cast::<u8>();
                    totals[i][p].store(sums.add(4 * (column(p) % LINES)));
                }
            }
        }
    }
}

/// What sums of groups begin with, of rows of A, each a line.
#[repr(align(64))]
struct Offsets<const M: usize>([[[u8; LINE]; MAX_INTEGER_BLOCK]; M]);

/// Those of so many tiles.
///
/// # Safety
/// As for [`rows`]; so many tiles of A are there.
#[inline(always)]
unsafe fn offsets<R: Register, const M: usize>(a: *const u8, tiles: usize) -> Offsets<M> {
    let mut offsets = Offsets([[[0; LINE]; MAX_INTEGER_BLOCK]; M]);
    for i in 0..M {
        for step in 0..tiles {
            for column in (0..LINES).step_by(R::COLUMNS) {
                let to = offsets.0[i][step].as_mut_ptr().wrapping_add(4 * column);
                // SAFETY: the caller's promise; a line has so many columns.
                unsafe { R::load(a.add(step * TILE + i * LINE + 4 * column)).offsets().store(to) };
            }
        }
    }
    offsets
}

const _: () = assert!(GROUPS == 4 && PANELS * LINES == UNIT, "a group is a lane of 128 bits");
