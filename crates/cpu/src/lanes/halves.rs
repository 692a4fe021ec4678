//! Numbers of two registers rounded to `bf16` into one, by the instruction for it.

use std::arch::x86_64::{__m512, __m512bh, __m512i, _mm512_cvtne2ps_pbh, _mm512_permutexvar_epi16};

use super::LANES;

/// Numbers and those that follow them.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
pub(crate) fn together([low, high]: [__m512; 2]) -> __m512i {
    // SAFETY: both are 512 bits, and any bits will do.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Numbers of two rows in turns: those of the first are the lower halves of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) fn pair(rows: [__m512; 2]) -> __m512i {
    in_turns(together(rows))
}

/// Sixteen halves and sixteen others, taken in turns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn in_turns(halves: __m512i) -> __m512i {
    const TURNS: [u16; 2 * LANES] = {
        let mut turns = [0; 2 * LANES];
        let mut i = 0;
        while i < LANES {
            turns[2 * i] = i as u16;
            turns[2 * i + 1] = (LANES + i) as u16;
            i += 1;
        }
        turns
    };
    // SAFETY: both are 512 bits, and any bits will do.
    let turns = unsafe { std::mem::transmute::<[u16; 2 * LANES], __m512i>(TURNS) };
    _mm512_permutexvar_epi16(turns, halves)
}
