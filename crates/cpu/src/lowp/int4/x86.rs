//! By AVX-512: tiles unpacked for many rows, and up to sixteen rows multiplied without that.
//!
//! Codes and steps are so small that two products fit beside each other into sixteen bits, and the sum over a group into as many.

use super::{GROUP_LINES, GROUPS, LINE, LINES, PAIR, TILE, place};
use crate::lowp::patch::Patch;
use crate::lowp::vector::{self, Prepared};
use crate::lowp::{Dot, Format, LowpGemm, UNIT};
use crate::tuning::lowp::{INT4_PREFETCH_DISTANCE, MAX_INTEGER_BLOCK};
use std::arch::x86_64::*;
use std::ops::Range;

/// By how many bytes codes are prefetched before they are read.
const PREFETCH_BYTES: usize = INT4_PREFETCH_DISTANCE * PAIR;
/// Panels of a unit.
pub(super) const PANELS: usize = UNIT / LINES;

/// Prefetches what is `distance` bytes further on.
#[inline(always)]
pub(super) fn prefetch(from: *const u8, distance: usize) {
    // SAFETY: a hint, which reads nothing wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(distance).cast()) };
}

/// The steps of a tile: of each column four, half a byte each, in both halves of its four bytes.
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
    prefetch(from, PREFETCH_BYTES);
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
        let offset = offset_of(steps);
        for pair in GROUP * GROUP_LINES / 2..(GROUP + 1) * GROUP_LINES / 2 {
            for (at, codes) in both(codes.add(pair * LINE), PREFETCH_BYTES).into_iter().enumerate() {
                let to = to.add((2 * pair + at) * LINE);
                _mm512_store_si512(to.cast(), integers(codes, steps, offset));
            }
        }
    }
}

/// What the offset of codes comes to in each byte, times its step.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn offset_of(steps: __m512i) -> __m512i {
    _mm512_mullo_epi16(steps, _mm512_set1_epi16(0x0808))
}

/// The integers that the codes of a line stand for.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn integers(codes: __m512i, steps: __m512i, offset: __m512i) -> __m512i {
    _mm512_sub_epi8(_mm512_mullo_epi16(codes, steps), offset)
}

/// The codes of two lines. What lies `distance` bytes further on is prefetched.
///
/// # Safety
/// The machine has AVX-512 F and BW; there is a line of codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn both(from: *const u8, distance: usize) -> [__m512i; 2] {
    prefetch(from, distance);
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
pub(in crate::lowp) unsafe fn unpack_unit(product: &LowpGemm, unit: usize, step: usize, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let [codes, steps] = place(step);
        for panel in 0..PANELS {
            let b = product.b_panel(unit * PANELS + panel);
            tile(b.add(codes), b.add(steps), to.add(panel * TILE));
        }
    }
}

/// A patch, one unit of columns, over some steps along k.
pub(in crate::lowp) struct Unit<'a> {
    pub product: &'a LowpGemm,
    pub patch: Patch,
    /// The unit's number.
    pub number: usize,
    /// The steps: no more than [`MAX_INTEGER_BLOCK`].
    pub k: &'a Range<usize>,
    /// How many bytes behind each panel the prefetching goes on.
    pub jump: usize,
}

/// The integer sums of a unit.
///
/// # Safety
/// The machine has AVX-512 F, BW and VNNI; as for [`super::multiply_unit`].
pub(super) unsafe fn multiply_unit(unit: &Unit<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match vector::together(unit.patch.rows) {
            ..=1 => by_codes::<1>(unit),
            2 => by_codes::<2>(unit),
            3 => by_integers::<3, 2>(unit),
            4 => by_integers::<4, 2>(unit),
            5..=6 => by_integers::<6, 2>(unit),
            7..=8 => by_integers::<8, 2>(unit),
            9..=12 => by_integers::<12, 1>(unit),
            _ => by_integers::<LINES, 1>(unit),
        }
    }
}

impl Unit<'_> {
    /// Where one of its panels begins.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize) -> *const u8 {
        self.product.b_panel(self.number * PANELS + panel)
    }

    /// By how many bytes to prefetch before this tile of a panel.
    #[inline(always)]
    pub(super) fn prefetch_distance(&self, tile: usize) -> usize {
        let last = tile / 2 + INT4_PREFETCH_DISTANCE >= self.product.tiles().div_ceil(2);
        PREFETCH_BYTES.wrapping_add(if last { self.jump } else { 0 })
    }

    /// Where the sums of a row and of a panel are.
    #[inline(always)]
    pub(super) fn sums(&self, row: usize, panel: usize) -> *mut __m512i {
        self.patch.sums.cast::<f32>().wrapping_add(row * UNIT + panel * LINES).cast()
    }
}

/// Few rows, without unpacking: the sum over a group, of A by codes without signs, is multiplied by the step of the group.
///
/// # Safety
/// As for [`multiply_unit`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_codes<const M: usize>(unit: &Unit<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, k) = (unit.patch.a, unit.k);
        let offsets = offsets::<M>(a, k.len());
        let b: [*const u8; PANELS] = std::array::from_fn(|panel| unit.panel(panel));
        let mut totals = [[_mm512_setzero_si512(); PANELS]; M];
        for step in 0..k.len() {
            let (a, tile) = (a.add(step * TILE), k.start + step);
            let ([codes, steps], distance) = (place(tile), unit.prefetch_distance(tile));
            for panel in 0..PANELS {
                let b = b[panel];
                prefetch(b.add(steps), distance);
                let mut steps = _mm512_cvtepu16_epi32(_mm256_load_si256(b.add(steps).cast()));
                for group in 0..GROUPS {
                    let mut parts = [_mm512_setzero_si512(); M];
                    for i in 0..M {
                        parts[i] = _mm512_set1_epi32(offsets[i][step][group * 4]);
                    }
                    for pair in 0..GROUP_LINES / 2 {
                        let pair = group * GROUP_LINES / 2 + pair;
                        let codes = both(b.add(codes + pair * LINE), distance);
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
                _mm512_store_si512(unit.sums(i, panel), totals[i][panel]);
            }
        }
    }
}

/// More rows, for which it pays to unpack: all panels of the unit, `P` at a time.
///
/// # Safety
/// As for [`multiply_unit`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_integers<const M: usize, const P: usize>(unit: &Unit<'_>) {
    let mut place = Prepared::PLACE;
    // SAFETY: the caller's promise.
    unsafe {
        let a = vector::left(Dot::Avx512Vnni, Format::Int8, &unit.patch, &mut place);
        for panel in (0..PANELS).step_by(P) {
            strip::<M, P>(unit, a, panel);
        }
    }
}

/// `P` panels from this one on, with A as [`vector::left`] has it.
///
/// # Safety
/// As for [`by_integers`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn strip<const M: usize, const P: usize>(unit: &Unit<'_>, a: *const u8, panel: usize) {
    let Unit { patch, k, .. } = unit;
    // SAFETY: the caller's promise; tiles have the rows that do not count, and their sums have a place.
    unsafe {
        let b: [*const u8; P] = std::array::from_fn(|p| unit.panel(panel + p));
        let mut sums = [[_mm512_setzero_si512(); P]; M];
        for p in 0..P {
            let shift = _mm512_loadu_si512(patch.shift.add((panel + p) * LINES).cast());
            for i in 0..M {
                sums[i][p] = shift;
            }
        }
        for step in 0..k.len() {
            let (a, tile) = (a.add(step * TILE), k.start + step);
            let ([codes, from], distance) = (place(tile), unit.prefetch_distance(tile));
            let mut rest = [_mm512_setzero_si512(); P];
            for p in 0..P {
                prefetch(b[p].add(from), distance);
                rest[p] = steps(b[p].add(from));
            }
            for group in 0..GROUPS {
                let (mut steps, mut offset) = (rest, rest);
                for p in 0..P {
                    steps[p] = _mm512_and_si512(rest[p], _mm512_set1_epi16(15));
                    offset[p] = offset_of(steps[p]);
                    rest[p] = _mm512_srli_epi16::<4>(rest[p]);
                }
                for pair in group * GROUP_LINES / 2..(group + 1) * GROUP_LINES / 2 {
                    let mut right = [[_mm512_setzero_si512(); 2]; P];
                    for p in 0..P {
                        right[p] = both(b[p].add(codes + pair * LINE), distance);
                    }
                    for at in 0..2 {
                        for p in 0..P {
                            right[p][at] = integers(right[p][at], steps[p], offset[p]);
                        }
                        for i in 0..M {
                            let left = _mm512_set1_epi32(*a.add(i * LINE + 4 * (2 * pair + at)).cast());
                            for p in 0..P {
                                sums[i][p] = _mm512_dpbusd_epi32(sums[i][p], left, right[p][at]);
                            }
                        }
                    }
                }
            }
        }
        for i in 0..M {
            for p in 0..P {
                _mm512_store_si512(unit.sums(i, panel + p), sums[i][p]);
            }
        }
    }
}

/// What sums over groups begin with, since codes have an offset: -8 times the sum of A, four times for each of the four groups of a tile.
///
/// # Safety
/// As for [`multiply_unit`]; so many tiles of A are there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn offsets<const M: usize>(a: *const u8, tiles: usize) -> [[[i32; LINES]; MAX_INTEGER_BLOCK]; M] {
    let mut offsets = [[[0; LINES]; MAX_INTEGER_BLOCK]; M];
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
