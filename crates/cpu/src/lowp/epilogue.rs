//! The epilogue of a patch: from its sums to C, a few rows at a time, and back to sums where k goes on.
//!
//! First [`Rows`] convert sums to numbers: integers are scaled, and the bias is added. Then [`Place::complete`] does the rest in place. On AMX,
//! where products are so fast that this is seen, the first step of a whole patch applies what follows in registers too.
//!
//! Between the steps of a product on AMX a few rows are done at a time. They have to be short: what takes longer than the tiles are busy is
//! lost.

use super::patch::Sums;
use super::{Format, LINE, LINES, TILE, TILE_FLOATS, UNIT};
use crate::dispatch;
use crate::epilogue::{Combine, Epilogue, Other, Region, Store};
use crate::isa::Isa;
use crate::lanes::Lanes;
use crate::lanes::bf16::from_bf16;
use crate::tuning::lowp::MAX_ITEM_UNITS;
use std::ops::Range;

use numbers::{Biased, Columns, Kept, Numbers, Scaled, ScaledOnto};

#[cfg(target_arch = "x86_64")]
mod fused;
mod numbers;

#[cfg(target_arch = "x86_64")]
pub(super) use fused::fused;

/// How sums become numbers.
#[derive(Clone, Copy)]
pub(super) enum Conversion {
    /// They stay sums: k goes on.
    Keep,
    /// The bias is added.
    Add,
    /// Integers become numbers: sum · (scale of the row · scale of the column) onto the bias, rounded once on all machines.
    Scale,
    /// The same onto what C holds.
    ScaleOnto,
}

/// Converts rows of the sums of the patch at `column`, from one to before another. They go to C, or back to the place of the sums where C is
/// not `f32`.
///
/// # Safety
/// The machine has the instructions; the sums are those of the patch, which has these rows and lies in the place; the place is
/// valid for writes, and what it names, for its rows and columns, for reads.
pub(super) type Rows = unsafe fn(place: &Place, column: usize, sums: *mut Sums, from: usize, to: usize);

/// What is done to rows of a patch.
#[derive(Clone, Copy)]
pub(super) struct Finish {
    pub rows: Rows,
    /// Whether `rows` does all that follows, too, and writes C.
    pub is_all: bool,
    /// Whether it applies the activation and combines.
    pub applies: bool,
}

/// Where the numbers of patches go that lie side by side, and how. Columns are counted from the first of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub isa: Isa,
    /// The patches' part of C. Where C is tiles, its address is not used.
    pub region: Region,
    /// Numbers in a row of a patch's sums.
    pub width: usize,
    /// What is done to rows of a patch as wide as that, and of a last one that is not.
    pub finish: [Finish; 2],
    /// What is added to every row.
    pub bias: *const f32,
    /// One scale for each row, and one for each column, of integers.
    pub scales: [*const f32; 2],
    /// What follows; the bias is above.
    pub epilogue: Epilogue,
    /// How many tiles of `bf16` there are in a row of C.
    pub across: usize,
    /// What rounds some numbers to lines of `bf16`, one in each tile.
    pub round: unsafe fn(&[f32], *mut u8),
}

/// A bias that changes nothing, not even the sign of a zero, for all columns of an item.
pub(super) static NO_BIAS: [f32; MAX_ITEM_UNITS * UNIT] = [-0.0; MAX_ITEM_UNITS * UNIT];

impl Place {
    /// The columns of the patch at `column`.
    #[inline(always)]
    pub fn columns(&self, column: usize) -> usize {
        (self.region.columns - column).min(self.width)
    }

    /// Where numbers of the patch at `column` are while things are done to them, and how far apart rows begin.
    #[inline(always)]
    fn numbers(&self, column: usize, sums: *mut Sums) -> (*mut f32, usize) {
        match self.epilogue.store {
            Store::F32 | Store::Streaming => (self.region.c.wrapping_add(column), self.region.stride),
            Store::Bf16Tiles(_) | Store::ScaledBf16(_) => (sums.cast(), self.width),
        }
    }

    /// Takes the sums of the patch at `column` back from C.
    ///
    /// # Safety
    /// The machine has `L`'s instructions; the region is valid for reads, and the sums for writes.
    #[inline(always)]
    pub unsafe fn load<L: Lanes>(&self, column: usize, sums: *mut Sums) {
        let Region { rows, c, stride, .. } = self.region;
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

    /// Gives all rows of the sums of the patch at `column` to C.
    ///
    /// # Safety
    /// As [`Rows`] says.
    #[inline(always)]
    pub unsafe fn store(&self, column: usize, sums: *mut Sums) {
        // SAFETY: the caller's promise.
        unsafe { self.finish(column, sums, 0, self.region.rows) }
    }

    /// The same of rows from one to before another.
    ///
    /// # Safety
    /// As [`Rows`] says.
    #[inline(always)]
    pub unsafe fn finish(&self, column: usize, sums: *mut Sums, from: usize, to: usize) {
        let finish = &self.finish[usize::from(self.region.columns < column + self.width)];
        // SAFETY: the caller's promise.
        unsafe {
            (finish.rows)(self, column, sums, from, to);
            if !finish.is_all {
                self.complete(column, sums, from, to, finish.applies);
            }
        }
    }

    /// What follows the conversion: what is kept is rounded, the activation and the other matrix are applied, and C is rounded, where any of
    /// this is asked for.
    ///
    /// # Safety
    /// As [`Rows`] says; the rows were converted.
    #[inline(never)]
    unsafe fn complete(&self, column: usize, sums: *mut Sums, from: usize, to: usize, applied: bool) {
        let (numbers, stride) = self.numbers(column, sums);
        let [first, left] = self.region.corner;
        let columns = self.columns(column);
        let row = |row: usize| numbers.wrapping_add(row * stride);
        let rows =
            Region { corner: [first + from, left + column], rows: to - from, columns, c: row(from), stride };
        // SAFETY: the caller's promise; rows of numbers have so many columns, and each row its own line in every tile.
        unsafe {
            if let Some(kept) = self.epilogue.keep {
                for i in from..to {
                    (self.round)(
                        std::slice::from_raw_parts(row(i), columns),
                        self.line(kept, column, i).cast(),
                    );
                }
            }
            if let Combine::DerivativeBf16(act, kept) = self.epilogue.combine {
                for i in from..to {
                    let (line, mut before) = (self.line(kept.cast_mut(), column, i), [0.0; UNIT]);
                    dispatch!(self.isa, convert_lines(line, columns, &mut before));
                    let other = Other { start: before.as_ptr(), stride: 0 };
                    let combine = Combine::Derivative(act, other);
                    let region = Region { corner: [0, 0], rows: 1, c: row(i), ..rows };
                    Epilogue { combine, ..self.epilogue }.apply(self.isa, &region);
                }
            } else if !applied {
                self.epilogue.apply(self.isa, &rows);
            }
            match self.epilogue.store {
                Store::F32 | Store::Streaming => {}
                Store::Bf16Tiles(tiles) => {
                    for i in from..to {
                        let line = self.line(tiles, column, i).cast();
                        (self.round)(std::slice::from_raw_parts(row(i), columns), line);
                    }
                }
                Store::ScaledBf16(scale) => {
                    dispatch!(self.isa, |L| times::<L>(&rows, scale));
                    let depth = Format::Bf16.depth();
                    for i in from..to {
                        let to = self.region.c.cast::<u16>().add(i * self.region.stride + column);
                        for at in (0..columns).step_by(depth) {
                            (self.round)(
                                std::slice::from_raw_parts(row(i).add(at), depth),
                                to.add(at).cast(),
                            );
                        }
                    }
                }
            }
        }
    }

    /// The line of a row of C among `tiles`, from a column on.
    #[inline(always)]
    fn line(&self, tiles: *mut f32, column: usize, row: usize) -> *mut u16 {
        let [first, left] = self.region.corner;
        let tile = (first + row) / LINES * self.across + (left + column) / Format::Bf16.depth();
        tiles.wrapping_add(tile * TILE_FLOATS + (first + row) % LINES * LINES).cast()
    }
}

/// Converts the numbers of some lines to `f32`, one line in each tile.
///
/// # Safety
/// The machine has `L`'s instructions; there are lines for so many columns.
#[inline(always)]
unsafe fn convert_lines<L: Lanes>(first: *const u16, columns: usize, to: &mut [f32; UNIT]) {
    for (line, to) in
        to.as_chunks_mut::<{ LINE / 2 }>().0.iter_mut().take(columns.div_ceil(LINE / 2)).enumerate()
    {
        // SAFETY: the caller's promise; the next tile is so many `bf16` further on.
        let numbers = unsafe { &*first.add(line * TILE / 2).cast::<[u16; LINE / 2]>() };
        for (to, &number) in to.iter_mut().zip(numbers) {
            *to = from_bf16(number);
        }
    }
}

/// A region times a number.
///
/// # Safety
/// The machine has `L`'s instructions; the region is valid for reads and writes, and its columns are whole lanes.
#[inline(always)]
unsafe fn times<L: Lanes>(region: &Region, factor: f32) {
    for row in 0..region.rows {
        for at in (0..region.columns).step_by(LINES) {
            let x = region.c.wrapping_add(row * region.stride + at);
            // SAFETY: the caller's promise.
            unsafe { (L::load(x) * L::splat(factor)).store(x) };
        }
    }
}

/// # Safety
/// As [`Rows`] says.
#[inline(always)]
unsafe fn convert<L: Lanes, N: Numbers>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    from: usize,
    to: usize,
) {
    let columns = place.columns(column);
    let whole = columns / LINES * LINES;
    // SAFETY: the caller's promise; these are columns of the patch.
    unsafe {
        // With a constant length there is no mask.
        for at in (0..whole).step_by(LINES) {
            convert_columns::<L, N>(place, column, sums, from..to, at, LINES);
        }
        if whole < columns {
            convert_columns::<L, N>(place, column, sums, from..to, whole, columns - whole);
        }
    }
}

/// The same of `some` columns of the patch, at most sixteen, from `at` on.
///
/// # Safety
/// As [`Rows`] says.
#[inline(always)]
unsafe fn convert_columns<L: Lanes, N: Numbers>(
    place: &Place,
    column: usize,
    sums: *mut Sums,
    rows: Range<usize>,
    at: usize,
    some: usize,
) {
    let (numbers, stride) = place.numbers(column, sums);
    // SAFETY: the caller's promise.
    unsafe {
        let columns = Columns::<L>::of::<N>(place, column + at, some);
        for row in rows {
            let sums = sums.cast::<f32>().add(row * place.width + at);
            let x = columns.numbers::<N>(place, sums, row, column + at, some);
            x.store_first(numbers.add(row * stride + at), some);
        }
    }
}

/// What is done to rows of any patch by the instructions of `isa`.
pub(super) fn finish(isa: Isa, conversion: Conversion, epilogue: &Epilogue) -> Finish {
    let rows: Rows = match conversion {
        Conversion::Keep => rows::<Kept>(isa),
        Conversion::Add => rows::<Biased>(isa),
        Conversion::Scale => rows::<Scaled>(isa),
        Conversion::ScaleOnto => rows::<ScaledOnto>(isa),
    };
    let is_all = !epilogue.changes() && epilogue.keep.is_none() && is_f32(epilogue);
    Finish { rows, is_all, applies: false }
}

fn is_f32(epilogue: &Epilogue) -> bool {
    matches!(epilogue.store, Store::F32 | Store::Streaming)
}

/// [`convert`], compiled for these instructions.
fn rows<N: Numbers>(isa: Isa) -> Rows {
    macro_rules! on {
        ($isa:expr) => {
            // SAFETY: as `Rows` says.
            |place, column, sums, from, to| unsafe {
                dispatch!($isa, |L| convert::<L, N>(place, column, sums, from, to))
            }
        };
    }
    match isa {
        Isa::Scalar => on!(Isa::Scalar),
        Isa::Neon => on!(Isa::Neon),
        Isa::Avx2 => on!(Isa::Avx2),
        Isa::Avx512 => on!(Isa::Avx512),
    }
}
