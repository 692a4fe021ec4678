//! The loop that all kinds of instructions share: some rows by some panels, over all groups of k.

use crate::tuning::coded::PREFETCH_DISTANCE;
use glassformer_tensor::{Base, Scales};

use super::quantize::Parts;
use super::{Item, LINE, LINES, Layout, UNIT};
use crate::lanes::{Lanes, prefetch};

/// Sixteen integer sums, and what they are made of.
///
/// # Safety
/// Of all functions: the machine has the instructions; what addresses say is there, aligned to its size.
pub(super) trait Sums: Copy {
    /// Sixteen `f32`.
    type Numbers: Lanes;
    /// Codes of four steps of sixteen columns.
    type Codes: Copy;
    /// Four integers of A, in all lanes.
    type Left: Copy;

    /// Sums that begin with what is taken away for the offset of codes of `BITS` bits.
    unsafe fn begin<const BITS: usize>(with: i32) -> Self;

    /// Four times four steps of codes.
    unsafe fn codes<const BITS: usize>(from: *const u8) -> [Self::Codes; 4];

    /// Prefetches the codes of sixteen steps. There may be nothing.
    #[inline(always)]
    fn prefetch<const BITS: usize>(from: *const u8) {
        for line in 0..BITS / 2 {
            prefetch(from.wrapping_add(line * LINE).cast());
        }
    }

    unsafe fn left(from: *const u8) -> Self::Left;

    /// The sums with the products of four steps.
    unsafe fn add<const BITS: usize>(self, codes: Self::Codes, left: Self::Left) -> Self;

    /// The sums as numbers.
    #[inline(always)]
    unsafe fn numbers(self) -> Self::Numbers {
        const { assert!(size_of::<Self>() == 4 * LINES, "sixteen integers") };
        let mut numbers = [0.0; LINES];
        // SAFETY: sums are sixteen integers, in registers or not.
        unsafe {
            let sums = (&raw const self).cast::<i32>();
            for (i, number) in numbers.iter_mut().enumerate() {
                *number = *sums.add(i) as f32;
            }
            Self::Numbers::load(numbers.as_ptr())
        }
    }

    /// Sixteen `f16`, converted.
    unsafe fn f16(from: *const u8) -> Self::Numbers;

    /// Sixteen signed bytes, converted. Compilers make no vectors of this by themselves.
    #[inline(always)]
    unsafe fn steps(from: *const u8) -> Self::Numbers {
        let mut numbers = [0.0; LINES];
        // SAFETY: the caller's promise.
        unsafe {
            for (i, number) in numbers.iter_mut().enumerate() {
                *number = f32::from(*from.cast::<i8>().add(i));
            }
            Self::Numbers::load(numbers.as_ptr())
        }
    }
}

/// All rows of an item that are left from `row` on, `M` at a time, by its four panels, `P` at a time. Gives the first row that
/// is still left.
///
/// # Safety
/// The machine has the instructions; as [`super::CodedGemm::run_item`] says.
#[inline(always)]
pub(super) unsafe fn rows<
    S: Sums,
    const BITS: usize,
    const SIXTEENS: usize,
    const M: usize,
    const P: usize,
>(
    item: &Item<'_>,
    mut row: usize,
) -> usize {
    let first = row;
    for panel in (0..UNIT / LINES).step_by(P) {
        row = first;
        while row + M <= item.rows.end {
            // SAFETY: the caller's promise; four panels are a whole number of P.
            unsafe { strip::<S, BITS, SIXTEENS, M, P>(item, row, panel) };
            row += M;
        }
    }
    row
}

/// `M` rows from `row` on, by `P` panels from `panel` of the item's unit on.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn strip<S: Sums, const BITS: usize, const SIXTEENS: usize, const M: usize, const P: usize>(
    item: &Item<'_>,
    row: usize,
    panel: usize,
) {
    let product = item.product;
    let (layout, parts) = (Layout::of(product.coding), Parts::of(product.k));
    let size = layout.panel(product.k);
    // SAFETY: the caller's promise; everything lies where the layouts say.
    unsafe {
        let a = product.a.cast::<u8>().add(row * parts.bytes);
        let sums_of_a = a.add(if SIXTEENS == 2 { parts.by_32 } else { parts.by_16 });
        let scales_of_a = a.add(parts.scales);
        let mut integers = a;
        let mut b = product.b.cast::<u8>().add((item.unit * (UNIT / LINES) + panel) * size);
        let mut totals = [[S::Numbers::zero(); P]; M];
        let mut group = 0;
        for _ in 0..layout.blocks(product.k) {
            let mut codes = b;
            for within in 0..layout.groups {
                let sum_of = |i: usize| *sums_of_a.add(i * parts.bytes).cast::<i32>().add(group);
                let scale_of =
                    |i: usize| *scales_of_a.add(i * parts.bytes).cast::<f32>().add(group * SIXTEENS / 2);
                let mut sums = [[S::begin::<BITS>(0); P]; M];
                if let Base::Offset(offset) = product.coding.base {
                    for i in 0..M {
                        sums[i] = [S::begin::<BITS>(-i32::from(offset) * sum_of(i)); P];
                    }
                }
                for _ in 0..SIXTEENS {
                    for p in 0..P {
                        S::prefetch::<BITS>(codes.wrapping_add(p * size + PREFETCH_DISTANCE));
                        let right = S::codes::<BITS>(codes.add(p * size));
                        for i in 0..M {
                            for four in 0..4 {
                                let left = S::left(integers.add(i * parts.bytes + 4 * four));
                                sums[i][p] = sums[i][p].add::<BITS>(right[four], left);
                            }
                        }
                    }
                    codes = codes.add(layout.sixteen);
                    integers = integers.add(LINES);
                }
                for p in 0..P {
                    let upper =
                        Upper { block: b.add(p * size), layout, scales: product.coding.scales, within };
                    let scale = upper.scale::<S>();
                    for i in 0..M {
                        let scale = scale * S::Numbers::splat(scale_of(i));
                        totals[i][p] = scale.fma(sums[i][p].numbers(), totals[i][p]);
                    }
                    if product.coding.base == Base::Minimum {
                        let minimum = upper.minimum::<S>();
                        for i in 0..M {
                            let less = S::Numbers::splat(-(sum_of(i) as f32) * scale_of(i));
                            totals[i][p] = minimum.fma(less, totals[i][p]);
                        }
                    }
                }
                group += 1;
            }
            b = b.add(layout.bytes);
        }
        for i in 0..M {
            for p in 0..P {
                store(item, row + i, panel + p, totals[i][p]);
            }
        }
    }
}

/// What the codes of group `within` of a block are multiplied by.
pub(super) struct Upper {
    pub block: *const u8,
    pub layout: Layout,
    pub scales: Scales,
    pub within: usize,
}

impl Upper {
    /// The scales of sixteen columns.
    ///
    /// # Safety
    /// The machine has the instructions; the block is there.
    #[inline(always)]
    pub unsafe fn scale<S: Sums>(&self) -> S::Numbers {
        // SAFETY: the caller's promise.
        unsafe { self.at::<S>(self.layout.scales, 0) }
    }

    /// Their minima.
    ///
    /// # Safety
    /// As for [`Upper::scale`]; the coding has minima.
    #[inline(always)]
    pub unsafe fn minimum<S: Sums>(&self) -> S::Numbers {
        // SAFETY: the caller's promise.
        unsafe { self.at::<S>(self.layout.minima, LINE) }
    }

    /// # Safety
    /// As for [`Upper::scale`].
    #[inline(always)]
    unsafe fn at<S: Sums>(&self, start: usize, upper: usize) -> S::Numbers {
        let Self { block, layout, scales, within } = *self;
        // SAFETY: the caller's promise.
        unsafe {
            match scales {
                Scales::Steps => {
                    let by = S::Numbers::load(block.add(layout.upper + upper).cast());
                    by * S::steps(block.add(start + within * LINES))
                }
                Scales::Halves | Scales::Row | Scales::RowSteps => {
                    S::f16(block.add(start + within * 2 * LINES))
                }
            }
        }
    }
}

/// Gives sixteen numbers to C, with their biases, as far as it has columns.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(item: &Item<'_>, row: usize, panel: usize, numbers: L) {
    let product = item.product;
    let column = item.unit * UNIT + panel * LINES;
    let count = product.columns.saturating_sub(column).min(LINES);
    if count == 0 {
        return;
    }
    // SAFETY: the caller's promise; so many columns are left.
    unsafe {
        let numbers = match product.epilogue.bias {
            None => numbers,
            Some(bias) => numbers + L::load_first(bias.add(column), count),
        };
        numbers.store_first(product.c.add(row * product.c_stride + column), count);
    }
}
