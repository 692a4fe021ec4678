//! By AVX-512: tiles unpacked, and few rows without that.
//!
//! Codes and steps are so small that two products fit beside each other into sixteen bits, and the sum over a group into as many.
#![allow(clippy::cast_ptr_alignment)] // lines are aligned to 64 bytes, and steps to 32
#![allow(clippy::needless_range_loop)] // several arrays have the same index
#![allow(clippy::wildcard_imports)] // intrinsics carry their origin in their names

use super::{GROUP_LINES, LINE, LINES, PAIR, TILE, place};
use crate::narrow::patch::Sums;
use crate::narrow::{Product, SCALED, UNIT};
use std::arch::x86_64::*;
use std::ops::Range;

/// How far ahead codes are asked for: so many pairs of tiles.
const PAIRS_AHEAD: usize = 2;
/// The same in bytes.
const AHEAD: usize = PAIRS_AHEAD * PAIR;
/// Panels of a unit.
const PANELS: usize = UNIT / LINES;
/// Groups of a tile.
const GROUPS: usize = LINES / GROUP_LINES;

/// Asks for what will be read in a while: so many bytes further on.
#[inline(always)]
fn ask(from: *const u8, ahead: usize) {
    // SAFETY: a hint, which reads nothing wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(ahead).cast()) };
}

/// The steps of a tile: of each column the four, half a byte each, in both halves of its four bytes.
///
/// # Safety
/// The machine has AVX-512 F; they are there, aligned to 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn steps(from: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    let steps = _mm512_cvtepu16_epi32(unsafe { _mm256_load_si256(from.cast()) });
    _mm512_or_si512(steps, _mm512_slli_epi32::<16>(steps))
}

/// Unpacks one tile.
///
/// # Safety
/// The machine has AVX-512 F and BW; as for [`super::tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn tile(codes: *const u8, from: *const u8, to: *mut u8) {
    ask(from, AHEAD);
    // SAFETY: the caller's promise.
    unsafe {
        let (steps, low) = (steps(from), _mm512_set1_epi16(15));
        group::<0>(codes, _mm512_and_si512(steps, low), to);
        group::<1>(codes, _mm512_and_si512(_mm512_srli_epi16::<4>(steps), low), to);
        group::<2>(codes, _mm512_and_si512(_mm512_srli_epi16::<8>(steps), low), to);
        group::<3>(codes, _mm512_srli_epi16::<12>(steps), to);
    }
}

/// Four lines that share their steps.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn group<const GROUP: usize>(codes: *const u8, steps: __m512i, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        // What the offset of codes is in each byte.
        let offset = _mm512_mullo_epi16(steps, _mm512_set1_epi16(0x0808));
        for pair in GROUP * GROUP_LINES / 2..(GROUP + 1) * GROUP_LINES / 2 {
            for (at, codes) in both(codes.add(pair * LINE), AHEAD).into_iter().enumerate() {
                let integers = _mm512_sub_epi8(_mm512_mullo_epi16(codes, steps), offset);
                _mm512_store_si512(to.add((2 * pair + at) * LINE).cast(), integers);
            }
        }
    }
}

/// The codes of two lines; what lies `ahead` bytes further on is asked for.
///
/// # Safety
/// The machine has AVX-512 F and BW; there is a line of codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn both(from: *const u8, ahead: usize) -> [__m512i; 2] {
    ask(from, ahead);
    // SAFETY: the caller's promise.
    let both = unsafe { _mm512_load_si512(from.cast()) };
    let low = _mm512_set1_epi8(15);
    [_mm512_and_si512(both, low), _mm512_and_si512(_mm512_srli_epi16::<4>(both), low)]
}

/// Unpacks the four tiles of a unit at one step along k, one behind the other.
///
/// # Safety
/// The machine has AVX-512 F and BW; B is in four bits and has this unit and step; there is room for four tiles.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::narrow) unsafe fn unpack_unit(product: &Product, unit: usize, step: usize, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let [codes, steps] = place(step);
        for panel in 0..PANELS {
            let b = product.b_panel(unit * PANELS + panel);
            tile(b.add(codes), b.add(steps), to.add(panel * TILE));
        }
    }
}

/// The most rows that [`few_rows`] multiplies.
pub(in crate::narrow) const FEW: usize = 4;

/// The integer sums of up to [`FEW`] rows from the first on by a unit of columns, over some steps along k. Nothing is unpacked: the sum
/// over a group, of A by codes without signs, is multiplied by the step of the group. What is asked for ahead goes on `jump` bytes behind
/// each panel.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; A has so many rows, B is in four bits and has this unit; no more than [`SCALED`] steps.
pub(in crate::narrow) unsafe fn few_rows(
    product: &Product,
    rows: usize,
    unit: usize,
    jump: usize,
    k: &Range<usize>,
    sums: *mut Sums,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            1 => some_rows::<1>(product, unit, jump, k, sums),
            2 => some_rows::<2>(product, unit, jump, k, sums),
            3 => some_rows::<3>(product, unit, jump, k, sums),
            _ => some_rows::<FEW>(product, unit, jump, k, sums),
        }
    }
}

/// # Safety
/// As for [`few_rows`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn some_rows<const M: usize>(
    product: &Product,
    unit: usize,
    jump: usize,
    k: &Range<usize>,
    sums: *mut Sums,
) {
    let pairs = product.tiles().div_ceil(2);
    // SAFETY: the caller's promise.
    unsafe {
        let a = product.a_tile(0, k.start);
        let offsets = offsets::<M>(a, k.len());
        let b: [*const u8; PANELS] = std::array::from_fn(|panel| product.b_panel(unit * PANELS + panel));
        let mut totals = [[_mm512_setzero_si512(); PANELS]; M];
        for step in 0..k.len() {
            let (a, tile) = (a.add(step * TILE), k.start + step);
            let ([codes, steps], last) = (place(tile), tile / 2 + PAIRS_AHEAD >= pairs);
            let ahead = AHEAD.wrapping_add(if last { jump } else { 0 });
            for panel in 0..PANELS {
                let b = b[panel];
                ask(b.add(steps), ahead);
                let mut steps = _mm512_cvtepu16_epi32(_mm256_load_si256(b.add(steps).cast()));
                for group in 0..GROUPS {
                    let mut parts = [_mm512_setzero_si512(); M];
                    for i in 0..M {
                        parts[i] = _mm512_set1_epi32(offsets[i][step][group * 4]);
                    }
                    for pair in 0..GROUP_LINES / 2 {
                        let pair = group * GROUP_LINES / 2 + pair;
                        let codes = both(b.add(codes + pair * LINE), ahead);
                        for (at, codes) in codes.into_iter().enumerate() {
                            for i in 0..M {
                                let left = *a.add(i * LINE + 4 * (2 * pair + at)).cast::<i32>();
                                parts[i] = _mm512_dpbusd_epi32(parts[i], codes, _mm512_set1_epi32(left));
                            }
                        }
                    }
                    // Only the lower half of a sum counts, and it is all of it.
                    let step = _mm512_and_si512(steps, _mm512_set1_epi32(15));
                    steps = _mm512_srli_epi32::<4>(steps);
                    for i in 0..M {
                        totals[i][panel] = _mm512_dpwssd_epi32(totals[i][panel], parts[i], step);
                    }
                }
            }
        }
        for i in 0..M {
            for panel in 0..PANELS {
                let to = sums.cast::<f32>().add(i * UNIT + panel * LINES);
                _mm512_store_si512(to.cast(), totals[i][panel]);
            }
        }
    }
}

/// What sums over groups begin with, since codes have an offset: -8 times the sum of A, four times for each of the four groups of a tile.
///
/// # Safety
/// As for [`few_rows`]; so many tiles of A are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn offsets<const M: usize>(a: *const u8, tiles: usize) -> [[[i32; LINES]; SCALED]; M] {
    let mut offsets = [[[0; LINES]; SCALED]; M];
    for i in 0..M {
        for step in 0..tiles {
            // SAFETY: the caller's promise.
            let line = unsafe { _mm512_load_si512(a.add(step * TILE + i * LINE).cast()) };
            let fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(8), line);
            let twos = _mm512_add_epi32(fours, _mm512_shuffle_epi32::<0b10_11_00_01>(fours));
            let all = _mm512_add_epi32(twos, _mm512_shuffle_epi32::<0b01_00_11_10>(twos));
            let less = _mm512_sub_epi32(_mm512_setzero_si512(), all);
            // SAFETY: sixteen integers are a line.
            unsafe { _mm512_storeu_si512(offsets[i][step].as_mut_ptr().cast(), less) };
        }
    }
    offsets
}

const _: () = assert!(GROUPS == 4, "four steps of four bits");
