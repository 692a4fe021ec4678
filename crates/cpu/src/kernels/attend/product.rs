//! The two products of attention, as small as a tile: dots of rows with transposed keys, and mixtures of rows.
//!
//! In both, every result is one chain of fused multiply-adds in the order of its sum, and lanes run across results. How
//! many rows and vectors a block holds in registers therefore changes speed and never a bit.

use std::marker::PhantomData;
use std::ops::Range;

use super::mask::{TILE, bits_of, first_run, only_run};
use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes};

/// Rows that a product works on at once: six, with four vectors each, keep both multipliers of AVX-512 busy.
pub(super) const ROWS: usize = 6;
/// Rows at once of mixtures that are shorter than four vectors.
const TALL: usize = 2 * ROWS;

/// How numbers lie at the places that they are read from.
pub(super) trait Packing: Copy {
    /// How many numbers are in a place.
    const NUMBERS: usize;

    /// What lies in sixteen places: the first number of each, and the second where there is one.
    fn unpack<L: Lanes>(places: L) -> [L; 2];
}

/// A number in each place.
#[derive(Clone, Copy)]
pub(super) struct F32;

impl Packing for F32 {
    const NUMBERS: usize = 1;

    #[inline(always)]
    fn unpack<L: Lanes>(places: L) -> [L; 2] {
        [places; 2]
    }
}

/// A pair in each, as in pages of `bf16`.
#[derive(Clone, Copy)]
pub(super) struct Pairs;

impl Packing for Pairs {
    const NUMBERS: usize = 2;

    #[inline(always)]
    fn unpack<L: Lanes>(places: L) -> [L; 2] {
        places.unpack_bf16()
    }
}

/// `out[r][j] = scale · Σ_d rows[r][d] · keys[j][d]`.
#[derive(Clone, Copy)]
pub(super) struct Dots {
    /// The first row.
    pub rows: *const f32,
    /// From a row to the next.
    pub stride: usize,
    /// How many rows.
    pub count: usize,
    /// Numbers per row.
    pub size: usize,
    /// What each sum is multiplied by.
    pub scale: f32,
    /// Where the result of the first row begins.
    pub out: *mut f32,
    /// From a row of the result to the next.
    pub out_stride: usize,
}

impl Dots {
    /// Of transposed keys, `[size, 16]` for each sixteen of them, or half as many places, the results standing one after the
    /// other.
    ///
    /// # Safety
    /// `isa` is available; rows, keys and results are valid as described.
    pub unsafe fn with<W: Packing>(&self, isa: Isa, keys: &[*const f32]) {
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.run::<L, W>(keys)) }
    }

    #[inline(always)]
    unsafe fn run<L: Lanes, W: Packing>(&self, keys: &[*const f32]) {
        let mut r = 0;
        while r < self.count {
            // SAFETY: the caller's promise; each block ends within the rows.
            unsafe {
                match self.count - r {
                    ROWS.. if W::NUMBERS == 1 => r += self.block::<L, W, ROWS>(r, keys),
                    4.. => r += self.block::<L, W, 4>(r, keys),
                    2.. => r += self.block::<L, W, 2>(r, keys),
                    _ => r += self.block::<L, W, 1>(r, keys),
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, W: Packing, const R: usize>(&self, r: usize, keys: &[*const f32]) -> usize {
        let mut v = 0;
        while v < keys.len() {
            // SAFETY: the caller's promise; each tile ends within the keys.
            unsafe {
                match keys.len() - v {
                    4.. if L::IS_WIDE => v += self.tile::<L, W, R, 4>(r, v, keys),
                    2.. if L::IS_WIDE => v += self.tile::<L, W, R, 2>(r, v, keys),
                    _ => v += self.tile::<L, W, R, 1>(r, v, keys),
                }
            }
        }
        R
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, W: Packing, const R: usize, const V: usize>(
        &self,
        r: usize,
        v: usize,
        keys: &[*const f32],
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let rows = self.rows.add(r * self.stride);
            let keys: [*const f32; V] = *keys.as_ptr().add(v).cast();
            let mut sums = [[L::zero(); V]; R];
            for place in 0..self.size / W::NUMBERS {
                let mut keys_of = [[L::zero(); V]; 2];
                for v in 0..V {
                    [keys_of[0][v], keys_of[1][v]] = W::unpack(L::load(keys[v].add(place * LANES)));
                }
                for (nth, key) in keys_of.iter().enumerate().take(W::NUMBERS) {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let x = L::splat(*rows.add(r * self.stride + place * W::NUMBERS + nth));
                        for v in 0..V {
                            sums[v] = x.fma(key[v], sums[v]);
                        }
                    }
                }
            }
            // The last number where it has its place for itself.
            for d in self.size / W::NUMBERS * W::NUMBERS..self.size {
                for v in 0..V {
                    let [key, _] = W::unpack(L::load(keys[v].add(d / W::NUMBERS * LANES)));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        sums[v] = L::splat(*rows.add(r * self.stride + d)).fma(key, sums[v]);
                    }
                }
            }
            let scale = L::splat(self.scale);
            for (i, sums) in sums.into_iter().enumerate() {
                let out = self.out.add((r + i) * self.out_stride + v * LANES);
                for (v, sum) in sums.into_iter().enumerate() {
                    (sum * scale).store(out.add(v * LANES));
                }
            }
        }
        V
    }
}

/// Where the rows of a matrix begin: at equal distances, for a while.
pub(super) trait RowAt: Copy {
    /// How they are written: a number of one row in each place, or of two.
    type As: Packing;

    /// The address of row `j`, or of that and its neighbor.
    fn row(self, j: usize) -> *const f32;

    /// From there to the next.
    fn step(self) -> isize;

    /// Before which row behind `j` that ends.
    fn until(self, j: usize) -> usize;
}

/// Rows at equal distances, forwards or backwards.
#[derive(Clone, Copy)]
pub(super) struct Strided(pub *const f32, pub isize);

impl RowAt for Strided {
    type As = F32;

    #[inline(always)]
    fn row(self, j: usize) -> *const f32 {
        self.0.wrapping_offset(j as isize * self.1)
    }

    #[inline(always)]
    fn step(self) -> isize {
        self.1
    }

    #[inline(always)]
    fn until(self, _: usize) -> usize {
        usize::MAX
    }
}

/// Sixteen rows here, sixteen there: where these begin, and from a place of rows to the next.
#[derive(Clone, Copy)]
pub(super) struct Paged<W = F32>(pub [*const f32; 4], pub usize, pub PhantomData<W>);

impl<W: Packing> RowAt for Paged<W> {
    type As = W;

    #[inline(always)]
    fn row(self, j: usize) -> *const f32 {
        self.0[j / LANES % 4].wrapping_add(j % LANES / W::NUMBERS * self.1)
    }

    #[inline(always)]
    fn step(self) -> isize {
        self.1.cast_signed()
    }

    #[inline(always)]
    fn until(self, j: usize) -> usize {
        (j / LANES + 1) * LANES
    }
}

/// The steps of weights that are a tile of scores.
pub(super) const OF_TILE: (usize, usize) = (TILE, 1);

/// `out[i][·] += Σ_j weights[i, j] · rows[j][·]`, over a range of j, in its order.
#[derive(Clone, Copy)]
pub(super) struct Mix {
    /// The weight of i = 0 and j = 0.
    pub weights: *const f32,
    /// From the weight of i to that of i + 1, and from that of j to that of j + 1.
    pub steps: (usize, usize),
    /// Where the result of i = 0 begins.
    pub out: *mut f32,
    /// From a row of the result to the next.
    pub stride: isize,
    /// How many i.
    pub count: usize,
    /// Numbers per row.
    pub size: usize,
}

impl Mix {
    /// Adds the mixture of those of `rows` that `depth` says.
    ///
    /// # Safety
    /// `isa` is available; weights, rows and results are valid as described.
    pub unsafe fn add(&self, isa: Isa, rows: impl RowAt, depth: Range<usize>) {
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.run::<L, _>(rows, depth)) }
    }

    /// Adds to the result of each i the mixture of those of the 64 `rows` that `seen[i]` has a bit for.
    ///
    /// The others are left out, not multiplied by zero: they may be anything, even NaN.
    ///
    /// # Safety
    /// As for [`Mix::add`], for the rows that are seen; the weights are those of a tile.
    pub unsafe fn add_seen(&self, isa: Isa, rows: impl RowAt, seen: &[u64]) {
        debug_assert_eq!((seen.len(), OF_TILE), (self.count, self.steps));
        // SAFETY: the caller's promise.
        unsafe { dispatch!(isa, |L| self.run_seen::<L, _>(rows, seen)) }
    }

    #[inline(always)]
    unsafe fn run_seen<L: Lanes, B: RowAt>(&self, rows: B, seen: &[u64]) {
        let most = if L::IS_WIDE && self.size < 4 * LANES { TALL } else { ROWS };
        for (few, seen) in seen.chunks(most).enumerate() {
            let first = few * most;
            let part = Self {
                weights: self.weights.wrapping_add(first * self.steps.0),
                out: self.out.wrapping_offset(first as isize * self.stride),
                // Which the compiler has to know: else it steps from row to row in a chain of additions.
                steps: OF_TILE,
                count: seen.len(),
                ..*self
            };
            // What all see is mixed for all at once; before it and after it stands what only some see.
            let shared = only_run(seen.iter().fold(u64::MAX, |all, &bits| all & bits));
            let whole = seen.iter().all(|&bits| only_run(bits).is_some());
            // SAFETY: the caller's promise.
            unsafe {
                if let Some(shared) = shared.filter(|_| whole) {
                    part.run_each::<L, B>(rows, seen, 0..shared.start);
                    part.run::<L, B>(rows, shared.clone());
                    part.run_each::<L, B>(rows, seen, shared.end..TILE);
                } else {
                    part.run_each::<L, B>(rows, seen, 0..TILE);
                }
            }
        }
    }

    /// For each i alone, what it sees within `depth`.
    #[inline(always)]
    unsafe fn run_each<L: Lanes, B: RowAt>(&self, rows: B, seen: &[u64], depth: Range<usize>) {
        for (i, &bits) in seen.iter().enumerate() {
            let mut left = bits & bits_of(&depth);
            while left != 0 {
                let run = first_run(left);
                left &= !bits_of(&run);
                // SAFETY: the caller's promise.
                unsafe { self.block::<L, B, 1>(i, rows, &run) };
            }
        }
    }

    #[inline(always)]
    unsafe fn run<L: Lanes, B: RowAt>(&self, rows: B, depth: Range<usize>) {
        let mut i = 0;
        while i < self.count {
            // SAFETY: the caller's promise; each block ends within the results.
            unsafe {
                match self.count - i {
                    TALL.. if L::IS_WIDE && B::As::NUMBERS == 1 && self.size < 4 * LANES => {
                        i += self.block::<L, B, TALL>(i, rows, &depth);
                    }
                    ROWS.. if B::As::NUMBERS == 1 => i += self.block::<L, B, ROWS>(i, rows, &depth),
                    4.. => i += self.block::<L, B, 4>(i, rows, &depth),
                    2.. => i += self.block::<L, B, 2>(i, rows, &depth),
                    _ => i += self.block::<L, B, 1>(i, rows, &depth),
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn block<L: Lanes, B: RowAt, const R: usize>(
        &self,
        i: usize,
        rows: B,
        depth: &Range<usize>,
    ) -> usize {
        let mut c = 0;
        while c < self.size {
            // SAFETY: the caller's promise; each tile ends within the row, the last one by its count of numbers.
            unsafe {
                match self.size - c {
                    64.. if L::IS_WIDE && R <= ROWS => c += self.tile::<L, B, R, 4>(i, c, rows, depth),
                    32.. if L::IS_WIDE => c += self.tile::<L, B, R, 2>(i, c, rows, depth),
                    16.. => c += self.tile::<L, B, R, 1>(i, c, rows, depth),
                    _ => c += self.tail::<L, B, R>(i, c, rows, depth),
                }
            }
        }
        R
    }

    #[inline(always)]
    unsafe fn tile<L: Lanes, B: RowAt, const R: usize, const C: usize>(
        &self,
        i: usize,
        c: usize,
        rows: B,
        depth: &Range<usize>,
    ) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            let weights = self.weights.add(i * self.steps.0);
            let mut sums = [[L::zero(); C]; R];
            for (r, sums) in sums.iter_mut().enumerate() {
                let out = self.out.offset((i + r) as isize * self.stride).add(c);
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = L::load(out.add(v * LANES));
                }
            }
            let mut j = depth.start;
            while j < depth.end {
                let (mut from, end) = (rows.row(j).add(c), rows.until(j).min(depth.end));
                let mut weights = weights.add(j * self.steps.1);
                while j < end {
                    let mut row = [[L::zero(); 2]; C];
                    for (v, row) in row.iter_mut().enumerate() {
                        *row = B::As::unpack(L::load(from.add(v * LANES)));
                    }
                    if j.is_multiple_of(B::As::NUMBERS) && j + B::As::NUMBERS <= end {
                        for nth in 0..B::As::NUMBERS {
                            self.add_row(weights.add(nth * self.steps.1), &row, nth, &mut sums);
                        }
                        (j, weights) =
                            (j + B::As::NUMBERS, weights.wrapping_add(B::As::NUMBERS * self.steps.1));
                    } else {
                        // One of two, its neighbor being none of these.
                        if j.is_multiple_of(B::As::NUMBERS) {
                            self.add_row(weights, &row, 0, &mut sums);
                        } else {
                            self.add_row(weights, &row, 1, &mut sums);
                        }
                        (j, weights) = (j + 1, weights.wrapping_add(self.steps.1));
                    }
                    from = from.wrapping_offset(rows.step());
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                let out = self.out.offset((i + r) as isize * self.stride).add(c);
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(out.add(v * LANES));
                }
            }
        }
        C * LANES
    }

    /// Adds some columns of a row, the first or the second of those that lie in one place, by these weights.
    #[inline(always)]
    unsafe fn add_row<L: Lanes, const R: usize, const C: usize>(
        &self,
        weights: *const f32,
        rows: &[[L; 2]; C],
        nth: usize,
        sums: &mut [[L; C]; R],
    ) {
        for (r, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let w = unsafe { L::splat(*weights.add(r * self.steps.0)) };
            for v in 0..C {
                sums[v] = w.fma(rows[v][nth], sums[v]);
            }
        }
    }

    /// The last columns, fewer than sixteen.
    #[inline(always)]
    unsafe fn tail<L: Lanes, B: RowAt, const R: usize>(
        &self,
        i: usize,
        c: usize,
        rows: B,
        depth: &Range<usize>,
    ) -> usize {
        let n = self.size - c;
        // SAFETY: the caller's promise; no more than `n` numbers of a row are touched.
        unsafe {
            let weights = self.weights.add(i * self.steps.0);
            let mut sums = [L::zero(); R];
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = L::load_first(self.out.offset((i + r) as isize * self.stride).add(c), n);
            }
            for j in depth.clone() {
                let both = B::As::unpack(L::load_first(rows.row(j).add(c), n));
                let row = if j % B::As::NUMBERS == 0 { both[0] } else { both[1] };
                for (r, sum) in sums.iter_mut().enumerate() {
                    *sum = L::splat(*weights.add(r * self.steps.0 + j * self.steps.1)).fma(row, *sum);
                }
            }
            for (r, sum) in sums.into_iter().enumerate() {
                sum.store_first(self.out.offset((i + r) as isize * self.stride).add(c), n);
            }
        }
        n
    }
}
