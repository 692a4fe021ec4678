//! The loop for AVX2, AVX-VNNI, AVX-512, and AVX-512 VNNI, which also does what AMX leaves.

use glassformer_tensor::Bits;

use super::strip::rows;
use super::vectors::{Pairs, Pairs512, Vnni2, Vnni512};
use super::{Item, LINES, by_coding};
use crate::lowp::Dot;

/// # Safety
/// The machine has `dot`; as [`super::CodedGemm::run_item`] says.
pub(super) unsafe fn run(dot: Dot, item: &Item<'_>) {
    let coding = item.product.coding;
    // SAFETY: the caller's promise.
    unsafe {
        match dot {
            Dot::Scalar | Dot::Neon | Dot::NeonDot => unreachable!("{dot} multiplies elsewhere"),
            Dot::Avx2 => by_coding!(coding, avx2(item)),
            Dot::Avx512 => by_coding!(coding, avx512_pairs(item)),
            Dot::AvxVnni => by_coding!(coding, avx_vnni(item)),
            Dot::Avx512Vnni | Dot::Avx512Dot => by_coding!(coding, avx512(item, item.rows.start)),
            Dot::Amx => {
                let row = super::amx::run(item);
                by_coding!(coding, avx512(item, row));
            }
        }
    }
}

/// # Safety
/// The machine has AVX2, FMA and F16C; as for [`run`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Pairs, BITS, SIXTEENS, 4, 1>(item, item.rows.start);
        rows::<Pairs, BITS, SIXTEENS, 1, 2>(item, row);
    }
}

/// # Safety
/// The machine has AVX2, FMA, F16C and AVX-VNNI; as for [`run`].
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
unsafe fn avx_vnni<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Vnni2, BITS, SIXTEENS, 4, 1>(item, item.rows.start);
        rows::<Vnni2, BITS, SIXTEENS, 1, 2>(item, row);
    }
}

/// # Safety
/// The machine has AVX-512 F, DQ, BW and VL; as for [`run`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn avx512_pairs<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Pairs512, BITS, SIXTEENS, 8, 1>(item, item.rows.start);
        let row = rows::<Pairs512, BITS, SIXTEENS, 4, 2>(item, row);
        rows::<Pairs512, BITS, SIXTEENS, 1, 4>(item, row);
    }
}

/// # Safety
/// The machine has AVX-512 F, DQ, BW, VL and VNNI; as for [`run`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vnni")]
unsafe fn avx512<const BITS: usize, const SIXTEENS: usize>(item: &Item<'_>, row: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = rows::<Vnni512, BITS, SIXTEENS, 8, 1>(item, row);
        let row = rows::<Vnni512, BITS, SIXTEENS, 4, 2>(item, row);
        rows::<Vnni512, BITS, SIXTEENS, 1, 4>(item, row);
    }
}
