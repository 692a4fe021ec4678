//! Prefetching cache lines.

/// Prefetches a cache line into L1. Any address will do.
#[inline(always)]
pub(crate) fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching reads nothing, and every x86-64 machine has the instruction.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches a cache line into L2.
#[inline(always)]
pub(crate) fn prefetch_l2(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as for `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
