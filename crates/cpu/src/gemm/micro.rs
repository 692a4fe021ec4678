//! One tile of a product: blocks of k, register rows, register tiles.
#![allow(clippy::needless_range_loop)] // rows and panels are counted: that is what the compiler unrolls

use super::{
    BLOCK, BLOCK_COPIED, BLOCK_FEW, Begin, FEW_ROWS, Matrix, PANEL, Product, STREAM_AHEAD, TILE_ROWS, part,
};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar};

/// How large a register tile an instruction set can hold.
pub(super) trait Registers: Lanes {
    /// The rows of a register tile in a product of many rows.
    const ROWS: usize;
    /// The rows of a register tile in a product of few rows: as many as possible, to read B less often.
    const MOST_ROWS: usize;
    /// The most rows times panels, where there is more than one panel. The rest holds B and an element of A.
    const ACCUMULATORS: usize;
}

/// 6 × 64, for few rows up to 8 × 48: 24 of the 32 registers. For many rows, 8 × 48, 12 × 32 and 14 × 32 were no faster,
/// and waste more on odd sizes; more than eight rows of A, 4096 bytes apart, would not stay in L1 together.
#[cfg(target_arch = "x86_64")]
impl Registers for Avx512 {
    const ROWS: usize = 6;
    const MOST_ROWS: usize = 8;
    const ACCUMULATORS: usize = 24;
}

/// 6 × 16: 12 of the 16 registers, since sixteen lanes take two.
#[cfg(target_arch = "x86_64")]
impl Registers for Avx2 {
    const ROWS: usize = 6;
    const MOST_ROWS: usize = 6;
    const ACCUMULATORS: usize = 4;
}

/// 2 × 16: 8 of the 16 registers of SSE2, four lanes in each.
impl Registers for Scalar {
    const ROWS: usize = 2;
    const MOST_ROWS: usize = 2;
    const ACCUMULATORS: usize = 2;
}

/// The part of C that [`run`] computes.
pub(super) struct Tile {
    pub row: usize,
    pub row_end: usize,
    pub panel: usize,
    pub panel_end: usize,
    /// [`Product::SCRATCH`] numbers.
    pub scratch: *mut f32,
}

/// One register tile's work over one block of k.
struct Micro {
    /// Steps of k.
    k: usize,
    /// Its rows of A, at its first k.
    a: Matrix,
    /// Its first panel of B, at its first k.
    b: *const f32,
    /// How far apart the panels of B are.
    b_panel: usize,
    /// Its corner of C.
    c: *mut f32,
    c_stride: usize,
    /// How many columns it has: all of its panels but the last are full.
    columns: usize,
    begin: Begin,
    /// Added after the last block of k.
    bias: Option<*const f32>,
    /// What A will be read next, fetched meanwhile: `a_ahead_len` numbers of each row.
    a_ahead: *const f32,
    a_ahead_len: usize,
    /// How far ahead in each panel B is fetched meanwhile; 0 where it is in L2 already.
    b_ahead: usize,
}

/// Computes one tile.
///
/// # Safety
/// As for [`Product::run_tile`]; the tile lies inside the product.
#[inline(always)]
pub(super) unsafe fn run<L: Registers>(product: &Product, tile: &Tile) {
    // SAFETY: the caller's promise.
    unsafe {
        let copied = product.a.column != 1;
        let block = match (copied, product.rows <= FEW_ROWS) {
            (true, _) => BLOCK_COPIED,
            (false, true) => BLOCK_FEW,
            (false, false) => BLOCK,
        };
        // With k = 0 there is still C to write.
        let blocks = product.k.div_ceil(block).max(1);
        for index in 0..blocks {
            let (k, k_end) = part(product.k, blocks, index);
            if copied {
                copy_block::<L>(product, tile, k, k_end);
            }
            run_block::<L>(product, tile, k, k_end);
        }
    }
}

/// How many strips of rows, each the height of a register tile, a tile has.
#[inline(always)]
fn strips<L: Registers>(tile: &Tile) -> usize {
    let rows = tile.row_end - tile.row;
    let height = if rows <= FEW_ROWS { L::MOST_ROWS } else { L::ROWS };
    rows.div_ceil(height)
}

/// Copies the tile's rows of A, at k to `k_end`, to scratch: strip by strip, in the order in which they are read.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn copy_block<L: Registers>(product: &Product, tile: &Tile, k: usize, k_end: usize) {
    let Matrix { start, row: row_stride, column } = product.a;
    let rows = tile.row_end - tile.row;
    let count = strips::<L>(tile);
    debug_assert!(rows <= TILE_ROWS && k_end - k <= BLOCK_COPIED);
    for step in k..k_end {
        for strip in 0..count {
            let (row, row_end) = part(rows, count, strip);
            let height = row_end - row;
            // SAFETY: the rows and the step lie inside A; the scratch has a place for each of them.
            unsafe {
                let from = start.add((tile.row + row) * row_stride + step * column);
                let to = tile.scratch.add(row * (k_end - k) + (step - k) * height);
                if row_stride == 1 {
                    L::load_first(from, height).store_first(to, height);
                } else {
                    for i in 0..height {
                        *to.add(i) = *from.add(i * row_stride);
                    }
                }
            }
        }
    }
}

/// One block of k: strips of rows from top to bottom, and in each, register tiles from left to right.
///
/// # Safety
/// As for [`run`].
#[inline(always)]
unsafe fn run_block<L: Registers>(product: &Product, tile: &Tile, k: usize, k_end: usize) {
    let (rows, count, steps) = (tile.row_end - tile.row, strips::<L>(tile), k_end - k);
    let copied = product.a.column != 1;
    let begin = if k == 0 { product.begin } else { Begin::Existing };
    let bias = product.bias.filter(|_| k_end == product.k);
    for strip in 0..count {
        let b_ahead = match (product.rows <= FEW_ROWS, count, strip) {
            (true, 1, _) => STREAM_AHEAD,
            // The first strip has brought this block of B to L2; the others bring the next one.
            (true, _, 1..) => steps * PANEL,
            (true, _, 0) | (false, _, _) => 0,
        };
        let (row, row_end) = part(rows, count, strip);
        let height = row_end - row;
        let width = (L::ACCUMULATORS / height).clamp(1, 4);
        let across = (tile.panel_end - tile.panel).div_ceil(width);
        // SAFETY: every address below lies inside A, B, C, the bias or the scratch; what lies ahead is only prefetched.
        unsafe {
            let a = if copied {
                Matrix { start: tile.scratch.add(row * steps), row: 1, column: height }
            } else {
                Matrix { start: product.a.start.add((tile.row + row) * product.a.row + k), ..product.a }
            };
            let below = product.a.start.wrapping_add((tile.row + row_end) * product.a.row + k);
            let ahead_end = if copied || strip + 1 == count { 0 } else { steps };
            for index in 0..across {
                let (first, end) = part(tile.panel_end - tile.panel, across, index);
                let panel = tile.panel + first;
                let (ahead, ahead_next) = part(ahead_end, across, index);
                let micro = Micro {
                    k: steps,
                    a,
                    b: product.b.add((panel * product.k + k) * PANEL),
                    b_panel: product.k * PANEL,
                    c: product.c.add((tile.row + row) * product.c_stride + panel * PANEL),
                    c_stride: product.c_stride,
                    columns: ((end - first) * PANEL).min(product.columns - panel * PANEL),
                    begin,
                    bias: bias.map(|bias| bias.add(panel * PANEL)),
                    a_ahead: below.wrapping_add(ahead),
                    a_ahead_len: ahead_next - ahead,
                    b_ahead,
                };
                by_height::<L>(height, end - first, &micro);
            }
        }
    }
}

/// # Safety
/// As for [`multiply`]; the tile fits into the registers.
#[inline(always)]
unsafe fn by_height<L: Registers>(height: usize, width: usize, micro: &Micro) {
    /// The arms of the match: a tile taller than the instruction set allows is never compiled.
    macro_rules! heights {
        ($($height:literal)*) => {
            match height {
                $($height if $height <= L::MOST_ROWS => by_width::<L, $height>(width, micro),)*
                _ => unreachable!("a register tile has up to {} rows, not {height}", L::MOST_ROWS),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { heights!(1 2 3 4 5 6 7 8) }
}

/// # Safety
/// As for [`multiply`]; the tile fits into the registers.
#[inline(always)]
unsafe fn by_width<L: Registers, const M: usize>(width: usize, micro: &Micro) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            1 => multiply::<L, M, 1>(micro),
            2 if L::ACCUMULATORS >= 2 * M => multiply::<L, M, 2>(micro),
            3 if L::ACCUMULATORS >= 3 * M => multiply::<L, M, 3>(micro),
            4 if L::ACCUMULATORS >= 4 * M => multiply::<L, M, 4>(micro),
            _ => unreachable!("a register tile of {M} rows has not {width} panels"),
        }
    }
}

/// `M` rows × `P` panels, accumulated in registers.
///
/// C is written at the end, and A's next rows are read soon: both are asked for a little at a time while the sums run,
/// because all at once they would hold up B in the queue to L2. It is worth 5 % of a large product. Where memory sets
/// the pace, B is asked for ahead of the machine's own prefetching, which stops at every page: 10 %.
///
/// # Safety
/// The machine has `L`'s instructions, and the addresses are valid for what `micro` says.
#[inline(always)]
unsafe fn multiply<L: Lanes, const M: usize, const P: usize>(micro: &Micro) {
    let Micro { k, a, c, c_stride, columns, .. } = *micro;
    // The last panel may end early.
    let last = columns - (P - 1) * PANEL;
    // SAFETY: the caller's promise; the last panel is loaded and stored only as far as it goes.
    unsafe {
        let mut sums = [[L::zero(); P]; M];
        if micro.begin == Begin::Existing {
            for i in 0..M {
                let row = c.add(i * c_stride);
                for p in 0..P {
                    sums[i][p] = load::<L, P>(row, p, last);
                }
            }
        }
        let (mut a_step, mut b_step, mut step) = (a.start, micro.b, 0);
        for row in 0..M {
            for p in 0..P {
                prefetch(c.add(row * c_stride + p * PANEL));
            }
            let mut ahead = 0;
            while ahead < micro.a_ahead_len {
                prefetch_l2(micro.a_ahead.wrapping_add(row * a.row + ahead));
                ahead += PANEL;
            }
            let end = k * (row + 1) / M;
            while step < end {
                let mut b = [L::zero(); P];
                for p in 0..P {
                    b[p] = L::load(b_step.add(p * micro.b_panel));
                }
                if micro.b_ahead > 0 {
                    for p in 0..P {
                        prefetch_l2(b_step.wrapping_add(p * micro.b_panel + micro.b_ahead));
                    }
                }
                for i in 0..M {
                    let x = L::splat(*a_step.add(i * a.row));
                    for p in 0..P {
                        sums[i][p] = x.fma(b[p], sums[i][p]);
                    }
                }
                a_step = a_step.add(a.column);
                b_step = b_step.add(PANEL);
                step += 1;
            }
        }
        if let Some(bias) = micro.bias {
            for p in 0..P {
                let bias = load::<L, P>(bias, p, last);
                for i in 0..M {
                    sums[i][p] = sums[i][p] + bias;
                }
            }
        }
        for i in 0..M {
            let row = c.add(i * c_stride);
            for p in 0..P {
                if p + 1 < P || last == PANEL {
                    sums[i][p].store(row.add(p * PANEL));
                } else {
                    sums[i][p].store_first(row.add(p * PANEL), last);
                }
            }
        }
    }
}

/// Panel `p` of `P` of a row, of which the last has `last` columns.
///
/// # Safety
/// The machine has `L`'s instructions, and the row is as long as that.
#[inline(always)]
unsafe fn load<L: Lanes, const P: usize>(row: *const f32, p: usize, last: usize) -> L {
    // SAFETY: the caller's promise.
    unsafe {
        if p + 1 < P || last == PANEL {
            L::load(row.add(p * PANEL))
        } else {
            L::load_first(row.add(p * PANEL), last)
        }
    }
}

/// Asks for a cache line in L1. Any address will do: what is not there is not fetched.
#[inline(always)]
fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching reads nothing, and every x86-64 machine has the instruction.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for a cache line in L2.
#[inline(always)]
fn prefetch_l2(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
