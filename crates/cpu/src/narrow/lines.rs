//! One work item by vector registers: each patch is multiplied, then finished.

use super::patch::{Beyond, Patch, Shape, Sums, Unpacked};
use super::strips::Strips;
use super::{Dot, Format, Item, LINES, Next, Product, SCALED, TILE, four, vector};
use crate::dispatch;
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use std::mem::MaybeUninit;

/// Steps along k that are unpacked at once for one strip: sixteen tiles.
const FEW_STEPS: usize = 4;

/// Computes one item. The units of the one that is `next` are likely this thread's as well.
///
/// # Safety
/// As for [`Product::run_item`]; the item lies inside the product, and `dot` is not AMX.
pub(super) unsafe fn run(product: &Product, dot: Dot, item: &Item, next: &Next<'_>) {
    if product.format == Format::Int4 {
        #[cfg(target_arch = "x86_64")]
        if dot == Dot::Avx512Dot && product.rows <= four::FEW {
            // SAFETY: the caller's promise.
            return unsafe { by_coded_lines(product, item, next) };
        }
        // SAFETY: the caller's promise.
        return unsafe { by_unpacked_lines(product, dot, item) };
    }
    let mut sums = Sums::ZERO;
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        let jump = next.jump(product, item, panel);
        for index in 0..product.blocks() {
            let strips = strips(index);
            for row in strips.starts() {
                let beyond = (row == item.rows.start)
                    .then(|| Beyond { left: product.tiles() - strips.steps.start, jump });
                let place = strips.place(row, panel);
                // SAFETY: the caller's promise.
                unsafe {
                    if strips.goes_on() {
                        dispatch!(dot.isa(), |L| place.load::<L>(&raw mut sums));
                    }
                    let patch = Patch { beyond, ..strips.patch(row, panel, &raw mut sums) };
                    vector::multiply(dot, product.format, &patch);
                    place.store(&raw mut sums, 0, place.part.rows);
                }
            }
        }
    }
}

impl Next<'_> {
    /// Bytes from the end of a unit's first panel, of an item of `product`, to where the panels begin that are read behind the unit.
    fn jump(&self, product: &Product, item: &Item, panel: usize) -> usize {
        let (then, unit) = self.behind(product, &item.units, panel / Shape::Wide.across());
        let from = product.b_panel(panel + 1);
        then.b_panel(unit * Shape::Wide.across()).addr().wrapping_sub(from.addr())
    }
}

/// The same where B is in four bits: the tiles of four panels are unpacked, then multiplied. Where one strip is all there is, a few steps
/// at a time, so that they stay in the nearest cache.
///
/// # Safety
/// As for [`run`].
unsafe fn by_unpacked_lines(product: &Product, dot: Dot, item: &Item) {
    let no_shift = Sums::ZERO;
    let (mut sums, mut place) =
        (Sums::ZERO, MaybeUninit::<Unpacked<{ Shape::Wide.across() * SCALED }>>::uninit());
    let to = place.as_mut_ptr().cast::<u8>();
    let strips = |index: usize| Strips::new(product, dot.isa(), Shape::Wide, item.rows.clone(), index);
    let most = if item.rows.len() <= LINES { FEW_STEPS } else { SCALED };
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        for index in 0..product.blocks() {
            let strips = strips(index);
            for first in strips.steps.clone().step_by(most) {
                let steps = first..strips.steps.end.min(first + most);
                let (begins, ends) = (first == strips.steps.start, steps.end == strips.steps.end);
                // SAFETY: the caller's promise; columns are filled up to four panels, and there is room for so many steps.
                unsafe {
                    four::unpack(dot.isa(), product, panel..panel + Shape::Wide.across(), &steps, to);
                    for row in strips.starts() {
                        let place = strips.place(row, panel);
                        let patch = strips.patch(row, panel, &raw mut sums);
                        let shift = if ends { patch.shift } else { (&raw const no_shift).cast() };
                        let a = product.a_tile(row / LINES, first);
                        let (stride, goes_on) = (steps.len() * TILE, !begins);
                        let patch = Patch { a, b: to, stride, shift, goes_on, steps: steps.len(), ..patch };
                        vector::multiply(dot, Format::Int8, &patch);
                        if ends {
                            place.store(&raw mut sums, 0, place.part.rows);
                        }
                    }
                }
            }
        }
    }
}

/// The same for few rows, without unpacking anything.
///
/// # Safety
/// As for [`run`]; the machine has AVX-512 VNNI, and there are no more rows than [`four::FEW`].
#[cfg(target_arch = "x86_64")]
unsafe fn by_coded_lines(product: &Product, item: &Item, next: &Next<'_>) {
    let mut sums = Sums::ZERO;
    let strips = |index: usize| Strips::new(product, Isa::Avx512, Shape::Wide, item.rows.clone(), index);
    for panel in strips(0).panels(&item.units).step_by(Shape::Wide.across()) {
        let jump = next.jump(product, item, panel);
        for index in 0..product.blocks() {
            let strips = strips(index);
            let place = strips.place(item.rows.start, panel);
            // SAFETY: the caller's promise.
            unsafe {
                let unit = panel / Shape::Wide.across();
                four::few_rows(product, item.rows.len(), unit, jump, &strips.steps, &raw mut sums);
                place.store(&raw mut sums, 0, place.part.rows);
            }
        }
    }
}
