//! Sums along a row, always in the same order, whoever computes them and whatever else is in the batch.
//!
//! Sixty-four partial sums run along the row (sixteen lanes, four registers, so that additions need not wait for each
//! other); what is left over goes to the first of them, and then they are added as a tree. The order depends on the
//! row's width alone.

use crate::lanes::{LANES, Lanes};

/// Registers of partial sums.
const PARTS: usize = 4;

/// `K` sums over the columns of a row, taken in one pass.
pub(super) trait Sums<const K: usize> {
    /// `sums` with the terms of the columns from `at` on: `some` of them, at most sixteen. Lanes beyond add nothing.
    ///
    /// # Safety
    /// The machine has `L`'s instructions, and the row has those columns.
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, sums: [L; K]) -> [L; K];
}

/// The sums over `width` columns.
///
/// # Safety
/// The machine has `L`'s instructions, and the rows of `terms` have `width` columns.
#[inline(always)]
pub(super) unsafe fn sums<L: Lanes, const K: usize>(terms: &impl Sums<K>, width: usize) -> [f32; K] {
    // SAFETY: the caller's promise; columns stay below `width`.
    unsafe {
        let mut parts = [[L::zero(); K]; PARTS];
        let mut at = 0;
        while at + PARTS * LANES <= width {
            let mut part = 0;
            while part < PARTS {
                parts[part] = terms.add(at + part * LANES, LANES, parts[part]);
                part += 1;
            }
            at += PARTS * LANES;
        }
        while at + LANES <= width {
            parts[0] = terms.add(at, LANES, parts[0]);
            at += LANES;
        }
        if at < width {
            parts[0] = terms.add(at, width - at, parts[0]);
        }
        let mut totals = [0.0; K];
        let mut k = 0;
        while k < K {
            totals[k] = ((parts[0][k] + parts[1][k]) + (parts[2][k] + parts[3][k])).sum();
            k += 1;
        }
        totals
    }
}

/// `some` numbers from `from` on, zeros beyond. With a constant sixteen the branch is gone.
///
/// # Safety
/// The machine has `L`'s instructions; `some ≤ 16`; `from` is valid for `some` reads.
#[inline(always)]
pub(super) unsafe fn load<L: Lanes>(from: *const f32, some: usize) -> L {
    // SAFETY: the caller's promise.
    unsafe { if some == LANES { L::load(from) } else { L::load_first(from, some) } }
}

/// Writes the first `some` lanes to `to` on.
///
/// # Safety
/// `some ≤ 16`; `to` is valid for `some` writes.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(x: L, to: *mut f32, some: usize) {
    // SAFETY: the caller's promise.
    unsafe { if some == LANES { x.store(to) } else { x.store_first(to, some) } }
}

/// `value` in the first `some` lanes, zeros beyond.
///
/// # Safety
/// The machine has `L`'s instructions; `some ≤ 16`.
#[inline(always)]
pub(super) unsafe fn splat_first<L: Lanes>(value: f32, some: usize) -> L {
    static ONES: [f32; LANES] = [1.0; LANES];
    // SAFETY: the caller's promise; there are sixteen ones.
    unsafe {
        if some == LANES { L::splat(value) } else { L::load_first(ONES.as_ptr(), some) * L::splat(value) }
    }
}

/// The largest of `width` numbers; −∞ if there are none.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `width` reads.
#[inline(always)]
pub(super) unsafe fn largest<L: Lanes>(x: *const f32, width: usize) -> f32 {
    // SAFETY: the caller's promise; the last load ends at `width`, and may cover numbers seen before.
    unsafe {
        if width < LANES {
            let mut most = f32::NEG_INFINITY;
            let mut at = 0;
            while at < width {
                most = most.max(*x.add(at));
                at += 1;
            }
            return most;
        }
        let last = L::load(x.add(width - LANES));
        let mut most = [last; PARTS];
        let mut at = 0;
        while at + PARTS * LANES <= width {
            let mut part = 0;
            while part < PARTS {
                most[part] = most[part].max(L::load(x.add(at + part * LANES)));
                part += 1;
            }
            at += PARTS * LANES;
        }
        while at + LANES <= width {
            most[0] = most[0].max(L::load(x.add(at)));
            at += LANES;
        }
        most[0].max(most[1]).max(most[2].max(most[3])).largest()
    }
}

/// a · b.
#[derive(Clone, Copy)]
pub(super) struct Dot(pub *const f32, pub *const f32);

impl Sums<1> for Dot {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum]: [L; 1]) -> [L; 1] {
        // SAFETY: the caller's promise.
        unsafe { [load::<L>(self.0.add(at), some).fma(load(self.1.add(at), some), sum)] }
    }
}

/// Σ x.
#[derive(Clone, Copy)]
pub(super) struct Total(pub *const f32);

impl Sums<1> for Total {
    #[inline(always)]
    unsafe fn add<L: Lanes>(&self, at: usize, some: usize, [sum]: [L; 1]) -> [L; 1] {
        // SAFETY: the caller's promise.
        unsafe { [sum + load(self.0.add(at), some)] }
    }
}
