//! The register tile: a few rows × a few panels, accumulated in registers over a block of k.
#![allow(clippy::needless_range_loop)] // rows and panels are counted: that is what the compiler unrolls

use super::{Begin, Matrix, PANEL};
#[cfg(target_arch = "x86_64")]
use crate::lanes::dispatch::{on_avx2, on_avx512};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar};
#[cfg(target_arch = "aarch64")]
use crate::lanes::{Neon, dispatch::on_neon};

/// How large a register tile an instruction set can hold.
pub(super) trait Registers: Lanes {
    /// The rows of a register tile in a product of many rows.
    const ROWS: usize;
    /// The rows of a register tile in a product of few rows: as many as possible, to read B less often.
    const MOST_ROWS: usize;
    /// The most rows times panels, where there is more than one panel. The rest holds B and an element of A.
    const ACCUMULATORS: usize;

    /// Calls a function compiled for these lanes, and does not inline it.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn enter(kernel: impl FnOnce());

    /// The width of the next register tile, of `height` rows, where `panels` panels are left: 1, 2 or 4.
    #[inline(always)]
    fn width(height: usize, panels: usize) -> usize {
        match (Self::ACCUMULATORS / height).min(panels) {
            4.. => 4,
            2 | 3 => 2,
            0 | 1 => 1,
        }
    }
}

/// 6 × 64, for few rows up to 8 × 32: at most 24 of the 32 registers. For many rows, 8 × 48, 12 × 32 and 14 × 32 were no faster,
/// and waste more on odd sizes; more than eight rows of A, 4096 bytes apart, would not stay in L1 together.
#[cfg(target_arch = "x86_64")]
impl Registers for Avx512 {
    const ROWS: usize = super::STRIP;
    const MOST_ROWS: usize = 8;
    const ACCUMULATORS: usize = 24;

    #[inline(always)]
    unsafe fn enter(kernel: impl FnOnce()) {
        // SAFETY: the caller's promise.
        unsafe { on_avx512(kernel) }
    }
}

/// 6 × 16: 12 of the 16 registers, since sixteen lanes take two.
#[cfg(target_arch = "x86_64")]
impl Registers for Avx2 {
    const ROWS: usize = super::STRIP;
    const MOST_ROWS: usize = 6;
    const ACCUMULATORS: usize = 4;

    #[inline(always)]
    unsafe fn enter(kernel: impl FnOnce()) {
        // SAFETY: the caller's promise.
        unsafe { on_avx2(kernel) }
    }
}

/// 6 × 16: 24 of the 32 registers, since sixteen lanes take four. One row alone has 32 columns: beside 64, one of the sums did not
/// stay in a register. Read from what the compiler made of it, not measured.
#[cfg(target_arch = "aarch64")]
impl Registers for Neon {
    const ROWS: usize = super::STRIP;
    const MOST_ROWS: usize = 6;
    const ACCUMULATORS: usize = 2;

    #[inline(always)]
    unsafe fn enter(kernel: impl FnOnce()) {
        // SAFETY: the caller's promise.
        unsafe { on_neon(kernel) }
    }
}

/// 2 × 16: 8 of the 16 registers of SSE2, four lanes in each.
impl Registers for Scalar {
    const ROWS: usize = 2;
    const MOST_ROWS: usize = 2;
    const ACCUMULATORS: usize = 2;

    #[inline(always)]
    unsafe fn enter(kernel: impl FnOnce()) {
        kernel();
    }
}

/// Steps that are taken in one turn of the loop: else a fifth of the instructions would be counting, and a core that begins four at a
/// time has no room for them.
const TOGETHER: usize = 4;

/// One register tile's work over one block of k.
pub(super) struct Micro {
    /// Steps of k.
    pub steps: usize,
    /// Its rows of A, at its first k.
    pub a: Matrix,
    /// Its first panel of B, at its first k.
    pub b: *const f32,
    /// How far apart the panels of B are.
    pub b_panel: usize,
    /// Its corner of C.
    pub c: *mut f32,
    pub c_stride: usize,
    /// How many columns it has: all of its panels but the last are full.
    pub columns: usize,
    pub begin: Begin,
    /// Added after the last block of k.
    pub bias: Option<*const f32>,
    /// What A will be read next: one stretch per row of the tile, while the sums run.
    pub a_ahead: Ahead,
    /// What B will be read next, at the first step; from step to step it moves as B does.
    pub b_ahead: Ahead,
}

/// What is asked for before it is needed: `count` stretches of `len` numbers each. The addresses may lie anywhere.
pub(super) struct Ahead {
    pub start: *const f32,
    pub stride: usize,
    pub count: usize,
    pub len: usize,
}

/// Computes a register tile of `height` rows and `width` panels.
///
/// # Safety
/// The machine has `L`'s instructions; the tile fits into its registers; the addresses are valid for what `micro` says.
#[inline(always)]
pub(super) unsafe fn multiply<L: Registers>(height: usize, width: usize, micro: &Micro) {
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
/// As for [`multiply`].
#[inline(always)]
unsafe fn by_width<L: Registers, const M: usize>(width: usize, micro: &Micro) {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            4 if L::ACCUMULATORS >= 4 * M => enter::<L, M, 4>(micro),
            2 if L::ACCUMULATORS >= 2 * M => enter::<L, M, 2>(micro),
            1 => enter::<L, M, 1>(micro),
            _ => unreachable!("a register tile of {M} rows has not {width} panels"),
        }
    }
}

/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn enter<L: Registers, const M: usize, const P: usize>(micro: &Micro) {
    // SAFETY: the caller's promise.
    unsafe {
        L::enter(
            #[inline(always)]
            || multiply_add::<L, M, P>(micro),
        );
    }
}

/// `M` rows × `P` panels, accumulated in registers.
///
/// C is written at the end, and A's next rows are read soon: both are asked for a little at a time while the sums run,
/// because all at once they would hold up B in the queue to L2. It is worth 5 % of a large product. Where memory sets
/// the pace, B is asked for ahead of the machine's own prefetching, which stops at every page: 10 %.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn multiply_add<L: Lanes, const M: usize, const P: usize>(micro: &Micro) {
    let Micro { steps, a, b, b_panel, c, c_stride, columns, begin, bias, ref a_ahead, ref b_ahead } = *micro;
    // The last panel may end early.
    let last = columns - (P - 1) * PANEL;
    // SAFETY: the caller's promise; the last panel is loaded and stored only as far as it goes.
    unsafe {
        let mut sums = [[L::zero(); P]; M];
        if begin == Begin::Existing {
            for i in 0..M {
                let row = c.add(i * c_stride);
                for p in 0..P {
                    sums[i][p] = load::<L, P>(row, p, last);
                }
            }
        }
        let (mut a_step, mut b_step, mut b_next, mut step) = (a.start, b, b_ahead.start, 0);
        for row in 0..M {
            for p in 0..P {
                prefetch(c.add(row * c_stride + p * PANEL));
            }
            let mut at = 0;
            while row < a_ahead.count && at < a_ahead.len {
                prefetch_l2(a_ahead.start.wrapping_add(row * a_ahead.stride + at));
                at += PANEL;
            }
            // Whole groups; what is left over comes behind the last row.
            let end = if row + 1 < M { steps * (row + 1) / M / TOGETHER * TOGETHER } else { steps };
            while step + TOGETHER <= end {
                let mut stretch = 0;
                while stretch < b_ahead.count {
                    for next in 0..TOGETHER {
                        prefetch_l2(b_next.wrapping_add(stretch * b_ahead.stride + next * PANEL));
                    }
                    stretch += 1;
                }
                for next in 0..TOGETHER {
                    multiply_step::<L, M, P>(&mut sums, a_step, a.row, b_step.add(next * PANEL), b_panel);
                    a_step = a_step.add(a.column);
                }
                b_step = b_step.add(TOGETHER * PANEL);
                b_next = b_next.wrapping_add(TOGETHER * PANEL);
                step += TOGETHER;
            }
            while step < end {
                multiply_step::<L, M, P>(&mut sums, a_step, a.row, b_step, b_panel);
                a_step = a_step.add(a.column);
                b_step = b_step.add(PANEL);
                step += 1;
            }
        }
        if let Some(bias) = bias {
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

/// One step of k: a column of A times a row of B.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn multiply_step<L: Lanes, const M: usize, const P: usize>(
    sums: &mut [[L; P]; M],
    a: *const f32,
    a_row: usize,
    b: *const f32,
    b_panel: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut x = [L::zero(); P];
        for p in 0..P {
            x[p] = L::load(b.add(p * b_panel));
        }
        for i in 0..M {
            let y = L::splat(*a.add(i * a_row));
            for p in 0..P {
                sums[i][p] = y.fma(x[p], sums[i][p]);
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
pub(crate) fn prefetch(address: *const f32) {
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
pub(crate) fn prefetch_l2(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
