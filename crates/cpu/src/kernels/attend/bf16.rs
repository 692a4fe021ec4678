//! Pages of keys and values in `bf16` for machines without AMX: half as much to read. Reading takes most of the time.
//!
//! 32 bits hold a pair of numbers: of a key, two neighbors; of values, the same number of two neighbors. A page of keys is
//! `[size / 2, 16 keys]` pairs, a page of values `[8 pairs of values, size]`, behind its keys where both have room. They are converted to `f32`
//! as they are read, for many queries once, and all arithmetic is that of `f32`, with terms of the softmax within 8e-5, as on tiles.
//!
//! Keys that lie in rows may be looked at from pages in another run, and are rounded as these are, so that the bits are the same. Only
//! where a side looks at all of itself nobody stores them.

use glassformer_graph::PAGE;

use super::form::HeadRows;
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::bf16::{pack_pairs, pair_bits};
use crate::lanes::{LANES, Lanes};
use crate::pages::KeysAndValues;

/// Pairs of a page of keys.
fn key_pairs(size: usize) -> usize {
    size.div_ceil(2) * PAGE
}

/// Pairs of so many values of a page, from the first on.
fn value_pairs(size: usize, count: usize) -> usize {
    count.div_ceil(2) * size
}

/// Where the values of a page are: behind its keys where both have room.
pub(super) fn values_at(size: usize, page: KeysAndValues) -> *mut f32 {
    if key_pairs(size) + value_pairs(size, PAGE) <= size * PAGE {
        page.keys.wrapping_add(key_pairs(size))
    } else {
        page.values
    }
}

/// Writes keys and values to a page, as many of each, from row `first` on.
///
/// # Safety
/// `isa` is available; keys and values are valid for reads, the page for writes; nobody else uses it.
pub(super) unsafe fn store(isa: Isa, keys: HeadRows, values: HeadRows, first: usize, page: KeysAndValues) {
    let to = values_at(values.size, page);
    // SAFETY: the caller's promise.
    unsafe {
        dispatch!(isa, |L| store_keys::<L>(keys, first, page.keys));
        dispatch!(isa, |L| store_values::<L>(values, first, to));
    }
}

#[inline(always)]
unsafe fn store_keys<L: Lanes>(rows: HeadRows, first: usize, keys: *mut f32) {
    let HeadRows { start, stride, count, size } = rows;
    // SAFETY: the caller's promise; of an odd number of numbers, the last has a zero beside it.
    unsafe {
        if count == PAGE {
            let mut transposed = [0.0; LANES * LANES];
            for d in (0..size).step_by(LANES) {
                let some = (size - d).min(LANES);
                transposed[some * LANES..].fill(0.0);
                L::transpose(start.add(d), stride as isize, 0..PAGE, some, transposed.as_mut_ptr());
                for (pair, both) in transposed.chunks_exact(2 * LANES).take(some.div_ceil(2)).enumerate() {
                    let (lower, upper) = (L::load(both.as_ptr()), L::load(both.as_ptr().add(LANES)));
                    pack_pairs(lower, upper).store(keys.add((d / 2 + pair) * PAGE));
                }
            }
            return;
        }
        for i in 0..count {
            let key = start.add(i * stride);
            for d in (0..size).step_by(2) {
                let upper = if d + 1 < size { *key.add(d + 1) } else { 0.0 };
                *keys.add(d / 2 * PAGE + first + i) = f32::from_bits(pair_bits(*key.add(d), upper));
            }
        }
    }
}

#[inline(always)]
unsafe fn store_values<L: Lanes>(rows: HeadRows, first: usize, values: *mut f32) {
    let HeadRows { start, stride, count, size } = rows;
    let mut j = first;
    while j < first + count {
        let row = start.wrapping_add((j - first) * stride);
        let both = j.is_multiple_of(2) && j + 1 < first + count;
        for c in (0..size).step_by(LANES) {
            let some = (size - c).min(LANES);
            // SAFETY: the caller's promise; no more than `some` numbers or pairs are touched.
            unsafe {
                let line = values.add(j / 2 * size + c);
                let value = L::load_first(row.add(c), some);
                let pair = if both {
                    pack_pairs(value, L::load_first(row.add(stride + c), some))
                } else if j.is_multiple_of(2) {
                    pack_pairs(value, L::zero())
                } else {
                    let [lower, _] = L::load_first(line, some).unpack_bf16();
                    pack_pairs(lower, value)
                };
                pair.store_first(line, some);
            }
        }
        j += if both { 2 } else { 1 };
    }
}

/// Copies the first `count` rows of a page's keys and values, and of keys what is none of them.
///
/// # Safety
/// `from` is a page that [`store`] wrote, `to` one that nobody else uses.
pub(super) unsafe fn copy(size: usize, count: usize, from: KeysAndValues, to: KeysAndValues) {
    let [from_values, to_values] = [from, to].map(|page| values_at(size, page));
    // SAFETY: the caller's promise.
    unsafe {
        to.keys.copy_from_nonoverlapping(from.keys, key_pairs(size));
        to_values.copy_from_nonoverlapping(from_values, value_pairs(size, count));
    }
}

/// A page of keys as `[size, 16]` numbers, and its values as `[16, size]`.
///
/// # Safety
/// `isa` is available; the page is valid for reads, and both for writes.
pub(super) unsafe fn widen(isa: Isa, size: usize, keys: *const f32, values: *const f32, to: KeysAndValues) {
    // SAFETY: the caller's promise.
    unsafe {
        // Of an odd number of numbers, the last of a key has no neighbor.
        dispatch!(isa, |L| unpack::<L>(keys, PAGE, size, to.keys));
        dispatch!(isa, |L| unpack::<L>(values, size, PAGE, to.values));
    }
}

/// Lines of `width` pairs as twice as many lines of numbers, `lines` of them.
#[inline(always)]
unsafe fn unpack<L: Lanes>(from: *const f32, width: usize, lines: usize, to: *mut f32) {
    for line in (0..lines).step_by(2) {
        for c in (0..width).step_by(LANES) {
            let some = (width - c).min(LANES);
            // SAFETY: the caller's promise; no more than `some` of a line are touched.
            unsafe {
                let [lower, upper] = L::load_first(from.add(line / 2 * width + c), some).unpack_bf16();
                lower.store_first(to.add(line * width + c), some);
                if line + 1 < lines {
                    upper.store_first(to.add((line + 1) * width + c), some);
                }
            }
        }
    }
}

/// So many numbers, rounded as pages have them.
///
/// # Safety
/// `isa` is available; they are valid for reads and writes.
pub(super) unsafe fn round(isa: Isa, numbers: *mut f32, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { dispatch!(isa, |L| round_on::<L>(numbers, count)) }
}

#[inline(always)]
unsafe fn round_on<L: Lanes>(numbers: *mut f32, count: usize) {
    for at in (0..count).step_by(LANES) {
        let some = (count - at).min(LANES);
        // SAFETY: the caller's promise; no more than `count` numbers are touched.
        unsafe {
            let [rounded, _] = pack_pairs(L::load_first(numbers.add(at), some), L::zero()).unpack_bf16();
            rounded.store_first(numbers.add(at), some);
        }
    }
}
