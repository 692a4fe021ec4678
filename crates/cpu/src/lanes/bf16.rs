//! Numbers in `bf16`: the upper 16 bits of an `f32`.

use super::{LANES, Lanes};

#[cfg(target_arch = "x86_64")]
pub(crate) use machine::{interleave, round_interleaved, round_two};

/// The nearest `bf16`, the even one of two; NaN stays NaN. What is subnormal becomes zero, as the instruction has it that rounds: whether
/// a row meets that one may depend on its neighbors.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let bits = if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits };
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let quiet = bits >> 16 | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

/// The number whose upper 16 bits these are.
#[inline(always)]
pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A pair of `bf16`: the first number is in the lower 16 bits.
#[inline(always)]
pub(crate) fn pair_bits(lower: f32, upper: f32) -> u32 {
    u32::from(to_bf16(lower)) | u32::from(to_bf16(upper)) << 16
}

/// The same, lane by lane: what [`Lanes::unpack_bf16`] takes apart.
///
/// # Safety
/// The machine has the instructions.
#[inline(always)]
pub(crate) unsafe fn pack_pairs<L: Lanes>(lower: L, upper: L) -> L {
    let [mut a, mut b] = [[0.0; LANES]; 2];
    // SAFETY: the caller's promise; the arrays have sixteen places.
    unsafe {
        lower.store(a.as_mut_ptr());
        upper.store(b.as_mut_ptr());
        for (a, &b) in a.iter_mut().zip(&b) {
            *a = f32::from_bits(pair_bits(*a, b));
        }
        L::load(a.as_ptr())
    }
}

/// Rounding by the instruction for it.
#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::x86_64::{__m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_permutexvar_epi16};

    use super::LANES;

    /// Numbers and those that follow them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub(crate) fn round_two([low, high]: [__m512; 2]) -> __m512i {
        // SAFETY: both are 512 bits, and any bits will do.
        unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
    }

    /// Numbers of two rows, interleaved: those of the first are the lower ones of pairs.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(crate) fn round_interleaved(rows: [__m512; 2]) -> __m512i {
        interleave(round_two(rows))
    }

    /// Sixteen `bf16` and sixteen others, interleaved.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn interleave(numbers: __m512i) -> __m512i {
        const ORDER: [u16; 2 * LANES] = {
            let mut order = [0; 2 * LANES];
            let mut i = 0;
            while i < LANES {
                order[2 * i] = i as u16;
                order[2 * i + 1] = (LANES + i) as u16;
                i += 1;
            }
            order
        };
        // SAFETY: both are 512 bits, and any bits will do.
        let order = unsafe { std::mem::transmute::<[u16; 2 * LANES], __m512i>(ORDER) };
        _mm512_permutexvar_epi16(order, numbers)
    }
}
