//! Many rows by AMX: the integers of a group are multiplied by tiles, and their sums are given to the chains of sixteen rows.
//!
//! A tile is as deep as a group, half or a quarter of what it could be, and its sums leave it at once, which takes longer than
//! the multiplication. This is still about twice as fast as `vpdpbusd`, with the same bits.

use crate::tuning::coded::{MAX_ITEM_ROWS, PREFETCH_DISTANCE, UNPACKED_STEPS};
use std::arch::x86_64::*;

use glassformer_tensor::{Base, Bits};

use super::quantize::Parts;
use super::strip::{Sums, Upper, store};
use super::vectors::{One, Vnni};
use super::{Item, LINE, LINES, Layout, UNIT, by_coding};
use crate::lanes::{Avx512, Lanes};
use crate::lowp::{Tiles, apart};
use std::marker::PhantomData;

/// Sums as vectors have them.
type Integers = One<Vnni>;

/// Tile registers for groups of so many steps: 0 and 1 for sums, 4 and 5 for sixteen rows of A, 6 and 7 for as many steps of sixteen columns
/// of B.
///
/// # Safety
/// The machine has AMX, and the system lets this process use it; a group is 16 or 32.
unsafe fn tiles_for(group: usize) -> Tiles {
    let (deep, line) = (group as u16, LINE as u16);
    let steps = deep as u8 / 4;
    // SAFETY: the caller's promise.
    unsafe { Tiles::shaped([16, 16, 0, 0, 16, 16, steps, steps], [line, line, 0, 0, deep, deep, line, line]) }
}

/// Sums of sixteen rows and columns: integers on their way out of a tile, or chains.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Square([[f32; LINES]; LINES]);

#[repr(C, align(64))]
struct Codes([u8; UNPACKED_STEPS * LINES]);

/// Computes the rows of an item that make whole sixteens, and gives the first that is left.
///
/// # Safety
/// The machine has AMX and AVX-512; as [`super::CodedGemm::run_item`] says.
pub(super) unsafe fn run(item: &Item<'_>) -> usize {
    let strips = item.rows.len() / LINES;
    if strips == 0 {
        return item.rows.start;
    }
    let coding = item.product.coding;
    // SAFETY: the caller's promise; panels beyond the last column hold zeros, and `store` writes nothing of them.
    unsafe {
        let _tiles = tiles_for(coding.group);
        let columns = item.product.columns - item.unit * UNIT;
        for panel in 0..columns.min(UNIT).div_ceil(LINES) {
            by_coding!(coding, by_tiles(item, panel, strips));
        }
    }
    item.rows.start + strips * LINES
}

/// All strips of an item by one panel.
///
/// # Safety
/// As for [`run`]; tiles are configured for groups of this coding.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vnni")]
unsafe fn by_tiles<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>, panel: usize, strips: usize) {
    let product = item.product;
    let (layout, parts) = (Layout::of(product.coding), Parts::of(product.k));
    let blocks = layout.blocks(product.k);
    let at_once = UNPACKED_STEPS / layout.steps;
    let mut chains = [Square([[0.0; LINES]; LINES]); MAX_ITEM_ROWS / LINES];
    let mut codes = Codes([0; UNPACKED_STEPS * LINES]);
    // SAFETY: the caller's promise; everything lies where the layouts say.
    unsafe {
        let panel_of_b =
            product.b.cast::<u8>().add((item.unit * (UNIT / LINES) + panel) * layout.panel(product.k));
        let rows_of_a = product.a.cast::<u8>().add(item.rows.start * parts.bytes);
        let mut block = 0;
        while block < blocks {
            let count = at_once.min(blocks - block);
            let b = panel_of_b.add(block * layout.bytes);
            unpack::<BITS>(b, layout, product.coding.base, count, &mut codes);
            for (strip, chains) in chains[..strips].iter_mut().enumerate() {
                let a = rows_of_a.add(strip * LINES * parts.bytes);
                let chunk = Chunk { a, b, first: block * layout.steps, blocks: count, codes: &codes };
                advance::<SIXTEENS>(item, layout, parts, &chunk, chains);
            }
            block += count;
        }
        for (strip, chains) in chains[..strips].iter().enumerate() {
            for (i, chain) in chains.0.iter().enumerate() {
                let row = item.rows.start + strip * LINES + i;
                store(item, row, panel, Avx512::load(chain.as_ptr()));
            }
        }
    }
}

/// The codes of some blocks as integers with signs, a line for each four steps.
///
/// # Safety
/// As for [`by_tiles`]; there is room.
#[inline(always)]
unsafe fn unpack<const BITS: usize>(b: *const u8, layout: Layout, base: Base, blocks: usize, to: &mut Codes) {
    // SAFETY: the caller's promise.
    unsafe {
        let offset = _mm512_set1_epi8(match base {
            Base::Offset(offset) => offset.cast_signed(),
            Base::Minimum => 0,
        });
        let mut to = to.0.as_mut_ptr();
        for block in 0..blocks {
            for sixteen in 0..layout.steps / LINES {
                let from = b.add(block * layout.bytes + sixteen * layout.sixteen);
                Integers::prefetch::<BITS>(from.wrapping_add(PREFETCH_DISTANCE));
                for codes in Integers::codes::<BITS>(from) {
                    _mm512_store_si512(to.cast(), _mm512_sub_epi8(codes, offset));
                    to = to.add(LINE);
                }
            }
        }
    }
}

/// Some blocks of k for sixteen rows.
struct Chunk<'a> {
    /// The first of the rows.
    a: *const u8,
    /// The first of the blocks.
    b: *const u8,
    /// Its first step.
    first: usize,
    blocks: usize,
    codes: &'a Codes,
}

/// One group: a tile of A by one of B, and its sums.
macro_rules! tile {
    ($sums:literal, $a:literal, $b:literal, $from:expr, $stride:expr, $codes:expr, $to:expr) => {
        apart!(
            concat!("tilezero tmm", $sums),
            concat!("tileloadd tmm", $a, ", [{a} + {stride}]"),
            concat!("tileloadd tmm", $b, ", [{b} + {line}]"),
            concat!("tdpbssd tmm", $sums, ", tmm", $a, ", tmm", $b),
            concat!("tilestored [{to} + {line}], tmm", $sums);
            a = in(reg) $from,
            stride = in(reg) $stride,
            b = in(reg) $codes,
            line = in(reg) LINE,
            to = in(reg) $to,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        )
    };
}

/// Takes sixteen chains a chunk further. The tile of the next group is begun before the sums of this one are used.
///
/// # Safety
/// As for [`by_tiles`].
#[inline(always)]
unsafe fn advance<const SIXTEENS: usize>(
    item: &Item<'_>,
    layout: Layout,
    parts: Parts,
    chunk: &Chunk<'_>,
    chains: &mut Square,
) {
    let coding = item.product.coding;
    let groups = chunk.blocks * layout.groups;
    let first = chunk.first / (SIXTEENS * LINES);
    let mut sums = [Square([[0.0; LINES]; LINES]); 2];
    // SAFETY: the caller's promise.
    unsafe {
        let begin = |group: usize, to: *mut Square| {
            let a = chunk.a.add(chunk.first + group * SIXTEENS * LINES);
            let b = chunk.codes.0.as_ptr().add(group * SIXTEENS * LINES * LINES);
            if group.is_multiple_of(2) {
                tile!("0", "4", "6", a, parts.bytes, b, to);
            } else {
                tile!("1", "5", "7", a, parts.bytes, b, to);
            }
        };
        let sums_of_a = chunk.a.add(if SIXTEENS == 2 { parts.by_32 } else { parts.by_16 });
        let mut totals = [Avx512::zero(); LINES];
        for i in 0..LINES {
            totals[i] = Avx512::load(chains.0[i].as_ptr());
        }
        begin(0, &raw mut sums[0]);
        for group in 0..groups {
            if group + 1 < groups {
                begin(group + 1, &raw mut sums[(group + 1) % 2]);
            }
            let block = chunk.b.add(group / layout.groups * layout.bytes);
            let upper = Upper { block, layout, scales: coding.scales, within: group % layout.groups };
            let scale = upper.scale::<Integers>();
            let found = (&raw const sums[group % 2]).cast::<i32>();
            let scales = chunk.a.add(parts.scales).cast::<f32>().add((first + group) * SIXTEENS / 2);
            let scale_of = |i: usize| *scales.byte_add(i * parts.bytes);
            for i in 0..LINES {
                let integers = _mm512_load_si512(found.add(i * LINES).cast());
                let scale = scale * Avx512::splat(scale_of(i));
                totals[i] = scale.fma(One(integers, PhantomData::<Vnni>).numbers(), totals[i]);
            }
            if coding.base == Base::Minimum {
                let minimum = upper.minimum::<Integers>();
                for i in 0..LINES {
                    let sum = *sums_of_a.add(i * parts.bytes).cast::<i32>().add(first + group);
                    totals[i] = minimum.fma(Avx512::splat(-(sum as f32) * scale_of(i)), totals[i]);
                }
            }
        }
        for i in 0..LINES {
            totals[i].store(chains.0[i].as_mut_ptr());
        }
    }
}
