//! Patches without AMX: sums in vector registers, one line of B at a time.
//!
//! A *step* is one line of each panel of B, and four bytes of each row of A: two `bf16`, or four integers. Each kind of
//! instructions says how it reads them and how it adds their products to sixteen sums; the loop is the same for all.

use super::patch::{Patch, Shape, Sums};
use super::prefetch::{Nothing, Prefetch, Prefetcher};
use super::{Dot, Format, LINE, LINES, TILE};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{Lanes, Scalar, prefetch};
use crate::tuning::lowp::{MAX_INTEGER_BLOCK, UNROLLED_LINES, VECTOR_PREFETCH_DISTANCE};
use std::hint::black_box;
use std::mem::MaybeUninit;

#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Sixteen sums of four bytes in registers, and what they are made of.
///
/// # Safety
/// Of all functions: the machine has the instructions; what addresses say is there, lines and sums aligned to 64 bytes.
trait Step: Copy {
    /// How many times as wide as A it wants A: see [`left`].
    const WIDER: usize = 1;
    /// Four bytes of A, in all lanes.
    type Left: Copy;
    /// A line of B.
    type Right: Copy;

    /// Sums to go on with.
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        const { assert!(size_of::<Self>() == LINE, "sixteen sums of four bytes") };
        // SAFETY: the caller's promise; sums are registers, of which any bits are a value.
        unsafe { from.cast::<Self>().read() }
    }

    /// Sums to begin with.
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        unsafe { std::mem::zeroed() }
    }

    /// The sums, corrected for the 128 that was added to A. `shift` is for sixteen columns, and only there where integers are multiplied.
    #[inline(always)]
    unsafe fn shifted(self, _shift: *const i32) -> Self {
        self
    }

    /// Four bytes of A, as [`left`] makes them.
    unsafe fn left(from: *const u32) -> Self::Left;

    unsafe fn right(line: *const u8) -> Self::Right;

    /// The sums with the products of one step.
    unsafe fn add(self, left: Self::Left, right: Self::Right) -> Self;

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self>().write(self) };
    }
}

/// Sums of `bf16` that are converted to `f32` and added one by one. Plain Rust rounds each product, and each sum.
#[derive(Clone, Copy)]
struct Widened<L>(L);

impl<L: Lanes> Step for Widened<L> {
    type Left = [L; 2];
    type Right = [L; 2];

    #[inline(always)]
    unsafe fn left(from: *const u32) -> [L; 2] {
        // SAFETY: the caller's promise.
        unsafe { [L::splat(f32::from_bits(*from << 16)), L::splat(f32::from_bits(*from & 0xffff_0000))] }
    }

    #[inline(always)]
    unsafe fn right(line: *const u8) -> [L; 2] {
        // SAFETY: the caller's promise; a line is sixteen pairs.
        unsafe { L::load(line.cast()).unpack_bf16() }
    }

    #[inline(always)]
    unsafe fn add(self, left: [L; 2], right: [L; 2]) -> Self {
        Self(left[1].fma(right[1], left[0].fma(right[0], self.0)))
    }
}

/// Room for A of a patch as [`left`] makes it: a block of k of sixteen rows of integers, in sixteen bits each.
#[repr(align(64))]
pub(super) struct Prepared(MaybeUninit<[[u8; 2 * TILE]; MAX_INTEGER_BLOCK]>);

impl Prepared {
    pub const PLACE: Self = Self(MaybeUninit::uninit());
}

/// A of a patch as `dot` reads it, in `place` if it has to be changed. `vpdpbusd` multiplies unsigned by signed integers: for it, 128 is added
/// to A. AVX-512 without VNNI multiplies 16-bit integers: for it, A is converted to them.
///
/// # Safety
/// The machine has `dot`; as [`Patch`] says.
pub(super) unsafe fn left(dot: Dot, format: Format, patch: &Patch, place: &mut Prepared) -> *const u8 {
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            Dot::AvxVnni | Dot::Avx512Vnni | Dot::Avx512Dot if format.is_integers() => {
                dispatch!(dot.isa(), flip(patch, place));
            }
            Dot::Avx512 if format.is_integers() => dispatch!(dot.isa(), to_i16(patch, place)),
            _ => return patch.a,
        }
    }
    place.0.as_ptr().cast()
}

/// # Safety
/// The machine has `L`'s instructions; as [`Patch`] says.
#[inline(always)]
unsafe fn flip<L: Lanes>(patch: &Patch, place: &mut Prepared) {
    let to = place.0.as_mut_ptr().cast::<u8>();
    for tile in 0..patch.steps {
        for row in 0..together(patch.rows) {
            let at = tile * TILE + row * LINE;
            // SAFETY: the caller's promise; there is room for as many tiles as a block has.
            unsafe {
                // A loop, because `map` on arrays is not inlined, and would not have the instructions.
                let mut line = patch.a.add(at).cast::<[u8; LINE]>().read();
                for byte in &mut line {
                    *byte ^= 128;
                }
                to.add(at).cast::<[u8; LINE]>().write(line);
            }
        }
    }
}

/// Four bytes a, b, c, d become a, c, b, d in sixteen bits each: see [`Step::WIDER`].
///
/// # Safety
/// The machine has `L`'s instructions; as [`Patch`] says.
#[inline(always)]
unsafe fn to_i16<L: Lanes>(patch: &Patch, place: &mut Prepared) {
    let to = place.0.as_mut_ptr().cast::<i16>();
    for tile in 0..patch.steps {
        for row in 0..together(patch.rows) {
            let at = tile * TILE + row * LINE;
            // SAFETY: the caller's promise; there is room for as many tiles as a block has.
            unsafe {
                let line = patch.a.add(at).cast::<[[i8; 4]; LINE / 4]>().read();
                let to = to.add(at).cast::<[i16; 4]>();
                for (four, bytes) in line.into_iter().enumerate() {
                    let [a, b, c, d] = bytes.map(i16::from);
                    to.add(four).write([a, c, b, d]);
                }
            }
        }
    }
}

/// How many rows are multiplied together where there are so many. Sometimes these are more than count; tiles have them.
pub(super) fn together(rows: usize) -> usize {
    match rows {
        ..=4 => rows,
        5..=6 => 6,
        7..=8 => 8,
        9..=12 => 12,
        _ => LINES,
    }
}

/// Whether these prefetch what comes next.
pub(super) fn prefetches(dot: Dot, format: Format) -> bool {
    matches!(dot, Dot::Avx512Vnni | Dot::Avx512Dot) && format.is_integers()
}

/// Adds a patch's product to its sums, and prefetches meanwhile where it [`prefetches`]. B in four bits was unpacked before.
///
/// # Safety
/// The machine has `dot`, which is not AMX; as [`Patch`] says, with A from [`left`].
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))] // what prefetches is of another machine
pub(super) unsafe fn multiply(dot: Dot, format: Format, patch: &Patch, prefetcher: &mut Prefetcher) {
    // SAFETY: the caller's promise.
    unsafe {
        match (dot.isa(), format) {
            (Isa::Scalar, Format::Bf16) => rows::<Widened<Scalar>, 1, 1>(patch),
            (Isa::Scalar, Format::Int8 | Format::Int4) => rows::<scalar::Integers, 1, 1>(patch),
            #[cfg(target_arch = "aarch64")]
            (Isa::Neon, _) => neon::multiply(dot, format, patch),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2 | Isa::Avx512, _) => x86::multiply(dot, format, patch, prefetcher),
            #[allow(unreachable_patterns)] // those of this machine are above
            (Isa::Neon | Isa::Avx2 | Isa::Avx512, _) => unreachable!("this machine has no {dot}"),
        }
    }
}

/// Runs the multiply instruction of `dot` so many times on registers alone, and gives the number of multiply-adds. None where there is no single
/// such instruction, and for AMX.
///
/// # Safety
/// The machine has `dot`.
pub(crate) unsafe fn alone(dot: Dot, format: Format, times: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            #[cfg(target_arch = "aarch64")]
            Dot::NeonDot => neon::alone(format, times),
            #[cfg(target_arch = "x86_64")]
            Dot::AvxVnni | Dot::Avx512Vnni | Dot::Avx512Dot => x86::alone(dot, format, times),
            _ => None,
        }
    }
}

/// Steps onto `N` sums, which do not wait for each other. The result is how many multiply-adds there were.
///
/// # Safety
/// The machine has `S`'s instructions, and `S` is of `format`.
#[inline(always)]
unsafe fn steps_alone<S: Step, const N: usize>(format: Format, times: usize) -> usize {
    // SAFETY: the caller's promise; the line and the sums have the size and the place that a step wants.
    unsafe {
        let mut place = black_box(Prepared(MaybeUninit::zeroed()));
        let lines = (&raw mut place).cast::<f32>();
        let (left, right) = (S::left(lines.cast()), S::right(lines.cast()));
        // Whatever they begin with, the compiler must not know that it is the same, and add it up once for all.
        let mut sums = [S::zero(); N];
        for (at, sum) in sums.iter_mut().enumerate() {
            *sum = S::load(lines.add(at * LINES));
        }
        for _ in 0..times {
            for sum in &mut sums {
                *sum = sum.add(left, right);
            }
        }
        for (at, sum) in sums.iter().enumerate() {
            sum.store(lines.add(at * LINES));
        }
        black_box(place);
    }
    // Sixteen columns, and a sixteenth of a line of A.
    times * N * format.depth()
}

/// All rows of a patch, `M` at a time, and its panels, `P` at a time.
///
/// # Safety
/// The machine has `S`'s instructions; as [`Patch`] says.
#[inline(always)]
unsafe fn rows<S: Step, const M: usize, const P: usize>(patch: &Patch) {
    // SAFETY: the caller's promise.
    unsafe { rows_prefetching::<S, M, P>(patch, &mut Nothing) }
}

/// The same, prefetching meanwhile.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn rows_prefetching<S: Step, const M: usize, const P: usize>(
    patch: &Patch,
    prefetcher: &mut impl Prefetch,
) {
    let mut panel = 0;
    while panel < Shape::Wide.across() {
        let mut row = 0;
        // SAFETY: the caller's promise; four panels are a whole number of P.
        unsafe {
            while row + M <= patch.rows {
                strip::<S, M, P>(patch, row, panel, prefetcher);
                row += M;
            }
            while row < patch.rows {
                strip::<S, 1, P>(patch, row, panel, prefetcher);
                row += 1;
            }
        }
        panel += P;
    }
}

/// `M` rows from `row` on, `P` panels from `panel` on.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn strip<S: Step, const M: usize, const P: usize>(
    patch: &Patch,
    row: usize,
    panel: usize,
    prefetcher: &mut impl Prefetch,
) {
    let sums_at = patch.sums.cast::<f32>();
    let place =
        |i: usize, p: usize| sums_at.wrapping_add((row + i) * Shape::Wide.width() + (panel + p) * LINES);
    let shift = |p: usize| patch.shift.wrapping_add((panel + p) * LINES);
    // SAFETY: the caller's promise; a tile has sixteen lines, of which one for each row of A.
    unsafe {
        let mut sums = [[S::zero(); P]; M];
        for p in 0..P {
            // They are needed at the end.
            prefetch(shift(p).cast());
            for i in 0..M {
                if patch.accumulates {
                    sums[i][p] = S::load(place(i, p));
                }
            }
        }
        for tile in 0..patch.steps {
            let a = patch.a.add((tile * TILE + row * LINE) * S::WIDER);
            let b = patch.b.add(panel * patch.stride + tile * TILE);
            prefetcher.some();
            // The next tile comes in time from L2. From further away, the one after it does.
            let next = match patch.beyond.filter(|_| row == 0) {
                Some(beyond) => {
                    let jump = if tile + VECTOR_PREFETCH_DISTANCE >= beyond.left { beyond.jump } else { 0 };
                    b.wrapping_add(VECTOR_PREFETCH_DISTANCE * TILE).wrapping_add(jump)
                }
                None if tile + 1 < patch.steps => b.wrapping_add(TILE),
                None if row + M < patch.rows => b.wrapping_sub(tile * TILE),
                None => b.wrapping_sub(tile * TILE).wrapping_add(P * patch.stride),
            };
            for first in (0..LINES).step_by(UNROLLED_LINES) {
                for line in first..first + UNROLLED_LINES {
                    for p in 0..P {
                        prefetch(next.wrapping_add(p * patch.stride + line * LINE).cast());
                    }
                    let mut right = [S::right(b.add(line * LINE)); P];
                    for p in 1..P {
                        right[p] = S::right(b.add(p * patch.stride + line * LINE));
                    }
                    for i in 0..M {
                        let left = S::left(a.add((i * LINE + line * 4) * S::WIDER).cast());
                        for p in 0..P {
                            sums[i][p] = sums[i][p].add(left, right[p]);
                        }
                    }
                }
            }
        }
        for i in 0..M {
            for p in 0..P {
                sums[i][p].shifted(shift(p)).store(place(i, p));
            }
        }
    }
}

const _: () = assert!(size_of::<Sums>() == 4 * TILE, "a sum is four bytes");
