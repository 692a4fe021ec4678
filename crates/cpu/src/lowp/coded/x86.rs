//! The loop for AVX2, AVX-VNNI, AVX-512, and AVX-512 VNNI, which also does what AMX leaves.

use glassformer_tensor::Bits;

use super::strip::rows;
use super::vectors::{One, Pairs, Two, Vnni};
use super::{Item, LINES, by_coding};
use crate::lowp::Dot;

/// # Safety
/// The machine has `dot`; as [`super::CodedGemm::run_item`] says.
pub(super) unsafe fn run(dot: Dot, item: &Item<'_>) {
    let (coding, first) = (item.product.coding, item.rows.start);
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            Dot::Scalar | Dot::Neon | Dot::NeonDot => unreachable!("{dot} multiplies elsewhere"),
            Dot::Avx2 => by_coding!(coding, avx2(item, first)),
            Dot::Avx512 => by_coding!(coding, avx512(item, first)),
            Dot::AvxVnni => by_coding!(coding, avx_vnni(item, first)),
            Dot::Avx512Vnni | Dot::Avx512Dot => by_coding!(coding, avx512_vnni(item, first)),
            Dot::Amx => {
                let row = super::amx::run(item);
                by_coding!(coding, avx512_vnni(item, row));
            }
        }
    }
}

/// A function for each kind of instructions, which does the rows from one on, so many at a time by so many panels.
macro_rules! kernel {
    ($name:ident, $features:literal, $sums:ty, $($rows:literal by $panels:literal),+) => {
        #[doc = concat!("# Safety\nThe machine has ", $features, "; as for [`run`].")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>, row: usize) {
            // SAFETY: the caller's promise.
            unsafe {
                $(let row = rows::<$sums, BITS, SIXTEENS, $rows, $panels>(item, row);)+
                debug_assert!(row == item.rows.end, "one row at a time leaves none");
            }
        }
    };
}

kernel!(avx2, "avx2,fma,f16c", Two<Pairs>, 4 by 1, 1 by 2);
kernel!(avx_vnni, "avx2,fma,f16c,avxvnni", Two<Vnni>, 4 by 1, 1 by 2);
kernel!(avx512, "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl", One<Pairs>, 8 by 1, 4 by 2, 1 by 4);
kernel!(
    avx512_vnni,
    "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vnni",
    One<Vnni>, 8 by 1, 4 by 2, 1 by 4
);
