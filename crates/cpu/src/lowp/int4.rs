//! B in four bits: [`Format::Int4`](super::Format::Int4).
//!
//! A number is (code - 8) · step · scale. A code is 0 to 15. Sixteen numbers of a column share a step, 0 to 15. A column has one scale.
//! (code - 8) · step fits into eight bits, so an `int4` tile stands for an `int8` tile. `int4` weights are unpacked to `int8` in the kernel,
//! into the cache or, for few rows, into registers; results have the bits of [`Format::Int8`](super::Format::Int8). Without VNNI they are
//! multiplied packed, and the sums are multiplied by the steps (`sums.rs`), which gives the same integers.
//!
//! The codes of a tile are eight lines. A line holds one line of the tile in the low halves of its bytes, and the next in the high halves. The
//! steps of a tile are two bytes per column: half a byte for four lines. A panel is a run of pairs of tiles: the codes of both, then a line with
//! the steps of both. So it is read from front to back.

#[cfg(target_arch = "x86_64")]
use super::Dot;
use super::{LINE, LINES, LowpGemm, TILE};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::Lanes;
use glassformer_tensor::{CodedRow, Coding};
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
mod sums;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Unit, unpack_unit};

/// The integer sums of a unit: B is unpacked in registers, if at all, and never leaves them.
///
/// # Safety
/// The machine has `dot`, which is AVX2 or more; as [`Patch`](super::patch::Patch) says of A and of the sums; B is in
/// four bits and has this unit.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn multiply_unit(dot: Dot, unit: &Unit<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            Dot::Avx2 | Dot::AvxVnni | Dot::Avx512 => sums::multiply_unit(dot, unit),
            _ => x86::multiply_unit(unit),
        }
    }
}

/// Bytes of the codes of a tile.
const CODES: usize = TILE / 2;
/// Bytes of its steps.
const STEPS: usize = 2 * LINES;
/// Numbers of a column that share a step.
const GROUP: usize = LINE / 4;
/// Lines of a tile that hold them.
const GROUP_LINES: usize = GROUP / 4;
/// Groups of a tile.
const GROUPS: usize = LINES / GROUP_LINES;
/// The code of zero.
const ZERO: u8 = 8;

const _: () = assert!(GROUP == Coding::INT4.group, "a step for each group");

/// Bytes of a pair of tiles.
const PAIR: usize = 2 * (CODES + STEPS);

/// Bytes of a panel of so many tiles.
pub(super) const fn panel(tiles: usize) -> usize {
    tiles.div_ceil(2) * PAIR
}

/// Where in a panel the codes of tile number `step` begin, and its steps.
#[inline(always)]
const fn place(step: usize) -> [usize; 2] {
    let (pair, within) = (step / 2 * PAIR, step % 2);
    [pair + within * CODES, pair + 2 * CODES + within * STEPS]
}

/// Writes coded numbers to their places in a panel, as the column of this number.
pub(super) fn put(row: &CodedRow, column: usize, panel: &mut [u8]) {
    let column = column % LINES;
    let pairs = panel.as_chunks_mut::<PAIR>().0.iter_mut();
    for ((to, codes), steps) in
        pairs.zip(row.codes.chunks(2 * LINE)).zip(row.scale_steps.chunks(2 * GROUP_LINES))
    {
        if let Some(codes) = codes.first_chunk() {
            put_codes(codes, column, to);
        } else {
            // What is not full is filled up with zeros.
            let mut full = [ZERO; 2 * LINE];
            full[..codes.len()].copy_from_slice(codes);
            put_codes(&full, column, to);
        }
        for (tile, steps) in steps.chunks(GROUP_LINES).enumerate() {
            let join = |all: u16, step: &i8| all << 4 | u16::from(step.cast_unsigned());
            let all = steps.iter().rev().fold(0, join);
            let [_, first] = place(tile);
            to[first + 2 * column..][..2].copy_from_slice(&all.to_le_bytes());
        }
    }
}

/// Writes the codes of a column to their places in a pair of tiles.
fn put_codes(codes: &[u8; 2 * LINE], column: usize, to: &mut [u8; PAIR]) {
    for (line, eight) in codes.as_chunks::<8>().0.iter().enumerate() {
        let eight = u64::from_le_bytes(*eight);
        let packed = eight as u32 | ((eight >> 32) as u32) << 4;
        to[line * LINE + 4 * column..][..4].copy_from_slice(&packed.to_le_bytes());
    }
}

/// The integers that some coded numbers stand for, added up: whole groups of them, or up to the end.
pub(super) fn sum(row: &CodedRow, numbers: Range<usize>) -> i32 {
    let steps = &row.scale_steps[numbers.start / GROUP..];
    let (whole, rest) = row.codes[numbers].as_chunks::<GROUP>();
    let of_group = |codes: &[u8], step: i8| {
        let sum: u16 = codes.iter().map(|&code| u16::from(code)).sum();
        (i32::from(sum) - codes.len() as i32 * i32::from(ZERO)) * i32::from(step)
    };
    let all: i32 = whole.iter().zip(steps).map(|(codes, &step)| of_group(codes, step)).sum();
    let last = steps.get(whole.len()).map_or(0, |&step| of_group(rest, step));
    all + last
}

/// Unpacks the tiles of some panels and steps along k to `to`, panel by panel, tile by tile.
///
/// # Safety
/// The machine has `isa`; B is in four bits and has these panels and steps; `to` has room for their tiles, and nobody else uses it.
pub(super) unsafe fn unpack(
    isa: Isa,
    product: &LowpGemm,
    panels: Range<usize>,
    k: &Range<usize>,
    to: *mut u8,
) {
    for (at, panel) in panels.enumerate() {
        let b = product.b_panel(panel);
        for (step, from) in k.clone().enumerate() {
            let [codes, steps] = place(from);
            // SAFETY: the caller's promise.
            unsafe { tile(isa, b.add(codes), b.add(steps), to.add((at * k.len() + step) * TILE)) };
        }
    }
}

/// Unpacks one tile.
///
/// # Safety
/// The machine has `isa`; codes and steps of a tile are there; `to` has room for it. All are aligned to 32 bytes, codes and `to` to 64.
#[inline(always)]
unsafe fn tile(isa: Isa, codes: *const u8, steps: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => x86::tile(codes, steps, to),
            _ => dispatch!(isa, plain(codes, steps, to)),
        }
    }
}

/// In plain Rust, which the compiler vectorises.
///
/// # Safety
/// As for [`tile`].
#[inline(always)]
unsafe fn plain<L: Lanes>(codes: *const u8, steps: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; all are bytes.
    unsafe {
        let codes = &*codes.cast::<[[u8; LINE]; LINES / 2]>();
        let steps = &*steps.cast::<[[u8; 2]; LINES]>();
        let to = &mut *to.cast::<[[i8; LINE]; LINES]>();
        for group in 0..GROUPS {
            let step = |column: usize| steps[column][group / 2] >> (4 * (group % 2)) & 15;
            let steps: [i8; LINE] = std::array::from_fn(|at| step(at / 4).cast_signed());
            for line in (group * GROUP_LINES..(group + 1) * GROUP_LINES).step_by(2) {
                for (at, (&both, &step)) in codes[line / 2].iter().zip(&steps).enumerate() {
                    to[line][at] = ((both & 15).cast_signed() - 8).wrapping_mul(step);
                    to[line + 1][at] = ((both >> 4).cast_signed() - 8).wrapping_mul(step);
                }
            }
        }
    }
}
