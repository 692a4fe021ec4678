//! The register tile: a few rows × a few panels, accumulated in registers over a block of k.

use super::{Begin, Matrix, PANEL, SLIVER};
#[cfg(target_arch = "x86_64")]
use crate::lanes::dispatch::{on_avx2, on_avx512};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar, prefetch, prefetch_l2};
#[cfg(target_arch = "aarch64")]
use crate::lanes::{Neon, dispatch::on_neon};
use crate::tuning::gemm::{STREAM_PREFETCH_DISTANCE, UNROLLED_STEPS};

/// How large a register tile an instruction set can hold.
pub(super) trait Registers: Lanes {
    /// The most rows of a register tile.
    const ROWS: usize;
    /// How far apart the columns of a strip of A are, where it is packed.
    const STRIDE: usize;
    /// The most rows times panels, where there is more than one panel. The rest holds B and an element of A.
    const ACCUMULATORS: usize;

    /// Calls a function compiled for these lanes, and does not inline it.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn enter(kernel: impl FnOnce());

    /// How many panels, of those that are left in a sliver, the next register tile of `height` rows has.
    #[inline(always)]
    fn width(height: usize, panels: usize) -> usize {
        (Self::ACCUMULATORS / height).clamp(1, panels)
    }

    /// How many whole slivers, of those that are left, a register tile of `height` rows has side by side: memory is read faster at
    /// several places.
    #[inline(always)]
    fn slivers(height: usize, slivers: usize) -> usize {
        match (Self::ACCUMULATORS / height / SLIVER).min(slivers) {
            4.. => 4,
            2 | 3 => 2,
            0 | 1 => 1,
        }
    }
}

/// 8 × 48, for few rows up to 2 × 192: at most 24 of the 32 registers.
#[cfg(target_arch = "x86_64")]
impl Registers for Avx512 {
    const ROWS: usize = 8;
    const STRIDE: usize = 8;
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
    const ROWS: usize = 6;
    const STRIDE: usize = 8;
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
    const ROWS: usize = 6;
    const STRIDE: usize = 8;
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
    const STRIDE: usize = 2;
    const ACCUMULATORS: usize = 2;

    #[inline(never)]
    unsafe fn enter(kernel: impl FnOnce()) {
        kernel();
    }
}

/// One register tile's work over some steps of k.
pub(super) struct Micro {
    /// Steps of k.
    pub steps: usize,
    /// Its rows of A, at its first k.
    pub a: RowAccess,
    /// Its first panel of B, at its first k.
    pub b: *const f32,
    /// How far apart the steps of B are.
    pub b_step: usize,
    /// How far apart the slivers of B are.
    pub b_sliver: usize,
    /// Its corner of C.
    pub c: *mut f32,
    pub c_stride: usize,
    /// How many columns it has: all of its panels but the last are full.
    pub columns: usize,
    pub begin: Begin,
    /// Added after the last step of k.
    pub bias: Option<*const f32>,
}

/// Where the rows of a register tile lie.
#[derive(Clone, Copy)]
pub(super) enum RowAccess {
    /// In a strip: [`Registers::STRIDE`] numbers for each step. B stays near for other strips; meanwhile this is prefetched, which
    /// is wanted next.
    Strip(*const f32, Prefetched),
    /// Where A is. B is read once, and prefetched: the processor's own prefetching stops at every page.
    Place(Matrix),
}

/// What is prefetched: so many lines from `start` on with every [`UNROLLED_STEPS`] steps. The addresses may lie anywhere.
#[derive(Clone, Copy)]
pub(super) struct Prefetched {
    pub start: *const f32,
    pub lines: usize,
}

impl Prefetched {
    pub const NOTHING: Self = Self { start: std::ptr::null(), lines: 0 };

    /// Part `index` of `parts` of what lies from `start` on, `width` lines for each step, where each part takes `steps` steps.
    pub fn part(start: *const f32, width: usize, steps: usize, index: usize, parts: usize) -> Self {
        let lines = (width * UNROLLED_STEPS).div_ceil(parts);
        Self { start: start.wrapping_add(steps / UNROLLED_STEPS * lines * index * PANEL), lines }
    }
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
                $($height if $height <= L::ROWS => by_width::<L, $height>(width, micro),)*
                _ => unreachable!("a register tile has up to {} rows, not {height}", L::ROWS),
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
            12 if L::ACCUMULATORS >= 12 * M => enter::<L, M, 12>(micro),
            6 if L::ACCUMULATORS >= 6 * M => enter::<L, M, 6>(micro),
            3 if L::ACCUMULATORS >= 3 * M => enter::<L, M, 3>(micro),
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
        match micro.a {
            RowAccess::Strip(start, prefetched) if P <= SLIVER => L::enter(
                #[inline(always)]
                || {
                    let a = Matrix { start, row: 1, column: L::STRIDE };
                    multiply_add::<L, M, P, true>(micro, a, prefetched);
                },
            ),
            RowAccess::Strip(..) => unreachable!("a strip is multiplied by one sliver"),
            RowAccess::Place(a) => L::enter(
                #[inline(always)]
                || multiply_add::<L, M, P, false>(micro, a, Prefetched::NOTHING),
            ),
        }
    }
}

/// `M` rows × `P` panels, accumulated in registers. A is a strip, or where it lies.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn multiply_add<L: Registers, const M: usize, const P: usize, const STRIP: bool>(
    micro: &Micro,
    a: Matrix,
    mut prefetched: Prefetched,
) {
    let Micro { steps, b, b_step, b_sliver, c, c_stride, columns, begin, bias, .. } = *micro;
    // The last panel may end early.
    let last = columns - (P - 1) * PANEL;
    // SAFETY: the caller's promise; the last panel is loaded and stored only as far as it goes.
    unsafe {
        let mut sums = [[L::zero(); P]; M];
        for i in 0..M {
            let row = c.add(i * c_stride);
            for p in 0..P {
                if begin == Begin::Existing {
                    sums[i][p] = load::<L, P>(row, p, last);
                } else {
                    prefetch(row.add(p * PANEL));
                }
            }
        }
        let (mut a_step, mut b_now, mut left) = (a.start, b, steps);
        while left >= UNROLLED_STEPS {
            if STRIP {
                let mut line = 0;
                while line < prefetched.lines {
                    prefetch_l2(prefetched.start.wrapping_add(line * PANEL));
                    line += 1;
                }
                prefetched.start = prefetched.start.wrapping_add(prefetched.lines * PANEL);
            } else {
                for next in STREAM_PREFETCH_DISTANCE..STREAM_PREFETCH_DISTANCE + UNROLLED_STEPS {
                    for p in 0..P {
                        let panel = p / SLIVER * b_sliver + p % SLIVER * PANEL;
                        prefetch_l2(b_now.wrapping_add(next * b_step + panel));
                    }
                }
            }
            for _ in 0..UNROLLED_STEPS {
                multiply_step::<L, M, P, STRIP>(&mut sums, a_step, a.row, b_now, b_sliver);
                a_step = a_step.add(if STRIP { L::STRIDE } else { a.column });
                b_now = b_now.add(b_step);
            }
            left -= UNROLLED_STEPS;
        }
        while left > 0 {
            multiply_step::<L, M, P, STRIP>(&mut sums, a_step, a.row, b_now, b_sliver);
            a_step = a_step.add(if STRIP { L::STRIDE } else { a.column });
            b_now = b_now.add(b_step);
            left -= 1;
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

/// One step of k: a column of A times a row of B, sliver by sliver.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn multiply_step<L: Lanes, const M: usize, const P: usize, const STRIP: bool>(
    sums: &mut [[L; P]; M],
    a: *const f32,
    a_row: usize,
    b: *const f32,
    b_sliver: usize,
) {
    let mut first = 0;
    while first < P {
        let panels = if P - first < SLIVER { P - first } else { SLIVER };
        // SAFETY: the caller's promise.
        unsafe {
            let mut x = [L::zero(); SLIVER];
            for p in 0..panels {
                x[p] = L::load(b.add(first / SLIVER * b_sliver + p * PANEL));
            }
            for i in 0..M {
                let y = L::splat(*a.add(if STRIP { i } else { i * a_row }));
                for p in 0..panels {
                    sums[i][first + p] = y.fma(x[p], sums[i][first + p]);
                }
            }
        }
        first += SLIVER;
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
