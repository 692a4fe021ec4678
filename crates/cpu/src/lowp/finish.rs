//! From a patch's sums to C, a few rows at a time, and back where k goes on.
//!
//! A few rows are one call, whatever is done on the way: to a function that was compiled for these instructions, this kind of
//! sums and what follows, and chosen once for all patches ([`rows`]). It is called between the steps of a product, and has to be
//! short: what it takes longer than the tiles are busy is lost.
#![allow(clippy::inline_always)] // the first rule of `lanes`

use super::patch::Sums;
use super::quantize::bf16_line;
use super::{Format, LINES, Store, TILE_FLOATS, UNIT, WIDEST};
use crate::epilogue::{Gated, Region, Sloped, Sum, Then};
use crate::isa::Isa;
#[cfg(target_arch = "aarch64")]
use crate::lanes::Neon;
use crate::lanes::activation::with_activation;
#[cfg(target_arch = "x86_64")]
use crate::lanes::{Avx2, Avx512};
use crate::lanes::{Lanes, Scalar};
use follows::{ActivationKind, BentAndKept, Follows, NarrowSloped, Nothing, With};
use numbers::{Biased, Kept, Numbers, Scaled, ScaledOnto};

mod follows;
mod numbers;

/// What happens to sums on their way to C.
#[derive(Clone, Copy)]
pub(super) enum Finish {
    /// Nothing: k goes on.
    Keep,
    /// The bias is added.
    Add,
    /// Integers become numbers: sum · (scale of the row · scale of the column) onto the bias, rounded once on all machines.
    Scale,
    /// The same onto what C holds.
    ScaleOnto,
}

/// Gives rows of the sums of the patch at `column` to C, from one to before another, and does what follows.
///
/// # Safety
/// The machine has the instructions; the sums are those of the patch, which has these rows and lies in the place; the place is
/// valid for writes, and what it names, for its rows and columns, for reads.
pub(super) type Rows = unsafe fn(place: &Place, column: usize, sums: *mut Sums, from: usize, to: usize);

/// Where the numbers of patches go that lie side by side, and how. Columns are counted from the first of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The patches' part of C. Where C is tiles, its address is not used; where it is `bf16`, they are there.
    pub part: Region,
    /// Numbers in a row of a patch's sums.
    pub width: usize,
    /// What is done to rows of a patch as wide as that, and of a last one that is not.
    pub finish: [Rows; 2],
    /// What is added to every row.
    pub bias: *const f32,
    /// One scale for each row, and one for each column, of integers.
    pub scales: [*const f32; 2],
    /// Where the numbers of the other matrix are that follow, and how far apart its rows begin; where it is quantized, its first tile.
    pub other: (*const f32, usize),
    /// What C becomes.
    pub target: Store,
    /// Where that is tiles: how many of them there are in a row.
    pub across: usize,
}

/// A bias that changes nothing, not even the sign of a zero, for all columns of an item.
pub(super) static NO_BIAS: [f32; WIDEST * UNIT] = [-0.0; WIDEST * UNIT];

impl Place {
    /// The columns of the patch at `column`.
    #[inline(always)]
    pub fn columns(&self, column: usize) -> usize {
        (self.part.columns - column).min(self.width)
    }

    /// Takes the sums of the patch at `column` back from C.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; the part is valid for reads, and the sums for writes.
    #[inline(always)]
    pub unsafe fn load<L: Lanes>(&self, column: usize, sums: *mut Sums) {
        let Region { rows, c, stride, .. } = self.part;
        let (c, columns) = (c.wrapping_add(column), self.columns(column));
        for row in 0..rows {
            let mut at = 0;
            while at < columns {
                let some = LINES.min(columns - at);
                // SAFETY: the caller's promise; a row of the sums is a whole number of lanes.
                unsafe {
                    let line = L::load_first(c.add(row * stride + at), some);
                    line.store(sums.cast::<f32>().add(row * self.width + at));
                }
                at += LINES;
            }
        }
    }

    /// What is done to rows of the patch at `column`.
    #[inline(always)]
    pub fn finish(&self, column: usize) -> Rows {
        self.finish[usize::from(self.part.columns < column + self.width)]
    }

    /// Gives the sums of the patch at `column` to C.
    ///
    /// # Safety
    /// As [`Rows`] says.
    #[inline(always)]
    pub unsafe fn store(&self, column: usize, sums: *mut Sums) {
        // SAFETY: the caller's promise.
        unsafe { self.finish(column)(self, column, sums, 0, self.part.rows) }
    }
}

/// # Safety
/// As [`Rows`] says.
#[inline(always)]
unsafe fn each<L: Lanes, N: Numbers, F: Follows>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    let columns = place.columns(column);
    let (rows, sums) = (from..to, sums.cast::<f32>());
    let (c, stride) = match place.target {
        Store::F32 | Store::Streaming => (place.part.c.wrapping_add(column), place.part.stride),
        // Low-precision numbers are made where the sums are.
        Store::Bf16Tiles(_) | Store::ScaledBf16(_) => (sums, place.width),
    };
    let mut at = 0;
    // SAFETY: the caller's promise; `at` stays below the part's columns.
    unsafe {
        while at + 2 * LINES <= columns {
            let left = N::columns::<L>(place, column + at, LINES);
            let right = N::columns::<L>(place, column + at + LINES, LINES);
            for row in rows.clone() {
                for (at, columns) in [(at, left), (at + LINES, right)] {
                    let x = N::at(place, columns, sums.add(row * place.width + at), row, column + at, LINES);
                    F::at(x, place, row, column + at, LINES).store(c.add(row * stride + at));
                }
            }
            at += 2 * LINES;
        }
        while at < columns {
            let some = LINES.min(columns - at);
            let columns = N::columns::<L>(place, column + at, some);
            for row in rows.clone() {
                let x = N::at(place, columns, sums.add(row * place.width + at), row, column + at, some);
                F::at(x, place, row, column + at, some).store_first(c.add(row * stride + at), some);
            }
            at += LINES;
        }
        for row in rows {
            let sums = sums.add(row * place.width);
            match place.target {
                Store::F32 | Store::Streaming => {}
                Store::Bf16Tiles(tiles) => narrow::<L>(place, column, sums, row, tiles),
                Store::ScaledBf16(scale) => halve::<L>(place, column, sums, row, scale),
            }
        }
    }
}

/// What the columns of a whole square have in common.
///
/// # Safety
/// As for [`square`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn both<N: Numbers>(place: &Place, column: usize) -> [[Avx512; 2]; 2] {
    // SAFETY: the caller's promise.
    unsafe { [N::columns(place, column, LINES), N::columns(place, column + LINES, LINES)] }
}

/// The same where a patch is square and as wide as can be: with nothing to decide on the way. To C, or `FAR`, past the caches.
///
/// # Safety
/// As [`Rows`] says; the patch is as wide as two lines, and the machine has AVX-512. What is far begins with a line.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn square<N: Numbers, F: Follows, const FAR: bool>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    // SAFETY: the caller's promise.
    let columns = unsafe { both::<N>(place, column) };
    for row in from..to {
        let sums = sums.cast::<f32>().wrapping_add(row * 2 * LINES);
        let to = place.part.c.wrapping_add(row * place.part.stride + column);
        // SAFETY: the caller's promise.
        unsafe {
            for (columns, at) in columns.into_iter().zip([0, LINES]) {
                let x = N::at::<Avx512>(place, columns, sums.add(at), row, column + at, LINES);
                let x = F::at(x, place, row, column + at, LINES);
                if FAR { x.store_far(to.add(at)) } else { x.store(to.add(at)) }
            }
        }
    }
}

/// Rounds a row to `bf16`, into the lines that it has among `tiles`. Behind the last column there are zeros.
///
/// # Safety
/// As [`Rows`] says; the part begins at a tile's first column.
#[inline(always)]
unsafe fn narrow<L: Lanes>(place: &Place, column: usize, numbers: *const f32, row: usize, tiles: *mut f32) {
    let (depth, columns) = (Format::Bf16.depth(), place.columns(column));
    let mut at = 0;
    while at < columns {
        // SAFETY: the caller's promise.
        unsafe {
            let line = line_of(place, column + at, row, tiles);
            bf16_line::<L>(numbers.add(at), depth.min(columns - at), line.cast());
        }
        at += depth;
    }
}

/// The line among `tiles` of a row, from a column on.
#[inline(always)]
fn line_of(place: &Place, column: usize, row: usize, tiles: *mut f32) -> *mut u16 {
    let [first, left] = place.part.corner;
    let tile = (first + row) / LINES * place.across + (left + column) / Format::Bf16.depth();
    tiles.wrapping_add(tile * TILE_FLOATS + (first + row) % LINES * LINES).cast()
}

/// Rounds a row times `scale` to `bf16`, where it stands in C.
///
/// # Safety
/// As [`Rows`] says; the part is whole lines of `bf16`.
#[inline(always)]
unsafe fn halve<L: Lanes>(place: &Place, column: usize, numbers: *mut f32, row: usize, scale: f32) {
    let (depth, columns) = (Format::Bf16.depth(), place.columns(column));
    let to = place.part.c.cast::<u16>().wrapping_add(row * place.part.stride + column);
    // SAFETY: the caller's promise.
    unsafe {
        for at in (0..columns).step_by(LINES) {
            (L::load(numbers.add(at)) * L::splat(scale)).store(numbers.add(at));
        }
        for at in (0..columns).step_by(depth) {
            bf16_line::<L>(numbers.add(at), depth, to.add(at).cast());
        }
    }
}

/// [`square`] to tiles or rows of `bf16`, by the instruction that rounds.
///
/// # Safety
/// As [`Rows`] says; the machine has AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
unsafe fn halves<N: Numbers, F: Follows>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    // SAFETY: the caller's promise.
    let [left, right] = unsafe { both::<N>(place, column) };
    for row in from..to {
        let sums = sums.cast::<f32>().wrapping_add(row * 2 * LINES);
        // SAFETY: the caller's promise.
        unsafe {
            let low = N::at::<Avx512>(place, left, sums, row, column, LINES);
            let low = F::at(low, place, row, column, LINES);
            let high = N::at::<Avx512>(place, right, sums.add(LINES), row, column + LINES, LINES);
            let high = F::at(high, place, row, column + LINES, LINES);
            match place.target {
                Store::F32 | Store::Streaming => {}
                Store::Bf16Tiles(tiles) => low.store_bf16(high, line_of(place, column, row, tiles)),
                Store::ScaledBf16(scale) => {
                    let (scale, to) = (Avx512::splat(scale), place.part.c.cast::<u16>());
                    (low * scale).store_bf16(high * scale, to.add(row * place.part.stride + column));
                }
            }
        }
    }
}

/// The same for whole squares on a machine with AMX.
#[cfg(target_arch = "x86_64")]
pub(super) fn square_rows(finish: Finish, then: Then, target: Store) -> Rows {
    match target {
        Store::F32 => of::<OnSquares>(finish, then),
        Store::Streaming => of::<OnFarSquares>(finish, then),
        Store::Bf16Tiles(_) | Store::ScaledBf16(_) => of::<OnHalves>(finish, then),
    }
}

/// What is done to rows by the instructions of `isa`.
pub(super) fn rows(isa: Isa, finish: Finish, then: Then) -> Rows {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => of::<OnAvx512>(finish, then),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => of::<OnAvx2>(finish, then),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx512 | Isa::Avx2 => unreachable!("this machine has no AVX"),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => of::<OnNeon>(finish, then),
        #[cfg(not(target_arch = "aarch64"))]
        Isa::Neon => unreachable!("this machine has no NEON"),
        Isa::Scalar => of::<OnScalar>(finish, then),
    }
}

fn of<C: Compiled>(finish: Finish, then: Then) -> Rows {
    match finish {
        Finish::Keep => C::rows::<Kept, Nothing>(),
        Finish::Add => of_bf16::<C>(then),
        Finish::Scale => followed::<C, Scaled>(then),
        Finish::ScaleOnto => followed::<C, ScaledOnto>(then),
    }
}

/// What follows products in `bf16`, which may be those of a model that is trained.
fn of_bf16<C: Compiled>(then: Then) -> Rows {
    match then {
        Then::Slope(act, _) => with_activation!(act, |B| C::rows::<Biased, With<Sloped<B>>>()),
        Then::ActivateAndKeep(act, _) => with_activation!(act, |B| C::rows::<Biased, BentAndKept<B>>()),
        Then::NarrowSlope(act, _) => with_activation!(act, |B| C::rows::<Biased, NarrowSloped<B>>()),
        then => followed::<C, Biased>(then),
    }
}

fn followed<C: Compiled, N: Numbers>(then: Then) -> Rows {
    match then {
        Then::Nothing => C::rows::<N, Nothing>(),
        Then::Activate(act) => with_activation!(act, |B| C::rows::<N, ActivationKind<B>>()),
        Then::Add(_) => C::rows::<N, With<Sum>>(),
        Then::Gate(act, _) => with_activation!(act, |B| C::rows::<N, With<Gated<B>>>()),
        Then::Slope(..) | Then::ActivateAndKeep(..) | Then::NarrowSlope(..) => {
            unreachable!("integers are not trained")
        }
    }
}

/// What is done to rows, with the instructions of a machine.
trait Compiled {
    fn rows<N: Numbers, F: Follows>() -> Rows;
}

/// A type for which this function is compiled with these instructions.
macro_rules! compiled {
    ($on:ident, |$n:ident, $f:ident| $function:expr $(, $features:literal)?) => {
        struct $on;

        impl Compiled for $on {
            fn rows<$n: Numbers, $f: Follows>() -> Rows {
                /// # Safety
                /// As [`Rows`] says.
                $(#[target_feature(enable = $features)])?
                unsafe fn rows<$n: Numbers, $f: Follows>(
                    place: &Place,
                    column: usize,
                    sums: *mut Sums,
                    from: usize,
                    to: usize,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { $function(place, column, sums, from, to) }
                }
                rows::<$n, $f>
            }
        }
    };
    ($on:ident, avx512 |$n:ident, $f:ident| $function:expr) => {
        compiled!($on, |$n, $f| $function, "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl");
    };
}

#[cfg(target_arch = "x86_64")]
compiled!(OnSquares, avx512 | N, F | square::<N, F, false>);
#[cfg(target_arch = "x86_64")]
compiled!(OnFarSquares, avx512 | N, F | square::<N, F, true>);
#[cfg(target_arch = "x86_64")]
compiled!(OnHalves, |N, F| halves::<N, F>, "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16");
#[cfg(target_arch = "x86_64")]
compiled!(OnAvx512, avx512 | N, F | each::<Avx512, N, F>);
#[cfg(target_arch = "x86_64")]
compiled!(OnAvx2, |N, F| each::<Avx2, N, F>, "avx2,fma");
#[cfg(target_arch = "aarch64")]
compiled!(OnNeon, |N, F| each::<Neon, N, F>, "neon");
compiled!(OnScalar, |N, F| each::<Scalar, N, F>);
