//! From a value of `Isa` to code compiled for it.

/// Runs a kernel compiled for `isa`, and returns what it returns.
///
/// Two forms: `dispatch!(isa, kernel(arguments…))` calls `kernel::<L>(arguments…)`; where the kernel has more generic
/// arguments, or more is to be done inside, `dispatch!(isa, |L| kernel::<L, 4>(arguments…))` binds `L` to the lanes in
/// any expression.
///
/// It stands inside `unsafe`: the kernel is `unsafe`, and `isa` must be one that [this machine has]. The arguments are
/// evaluated once, inside the function that has the instructions.
///
/// [this machine has]: crate::isa::Isa::is_available
#[macro_export]
macro_rules! dispatch {
    ($isa:expr, |$lanes:ident| $body:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Isa::Avx512 => $crate::lanes::dispatch::on_avx512(
                #[inline(always)]
                || {
                    type $lanes = $crate::lanes::Avx512;
                    $body
                },
            ),
            #[cfg(target_arch = "x86_64")]
            $crate::isa::Isa::Avx2 => $crate::lanes::dispatch::on_avx2(
                #[inline(always)]
                || {
                    type $lanes = $crate::lanes::Avx2;
                    $body
                },
            ),
            #[cfg(not(target_arch = "x86_64"))]
            $crate::isa::Isa::Avx512 | $crate::isa::Isa::Avx2 => unreachable!("this machine has no AVX"),
            #[cfg(target_arch = "aarch64")]
            $crate::isa::Isa::Neon => $crate::lanes::dispatch::on_neon(
                #[inline(always)]
                || {
                    type $lanes = $crate::lanes::Neon;
                    $body
                },
            ),
            #[cfg(not(target_arch = "aarch64"))]
            $crate::isa::Isa::Neon => unreachable!("this machine has no NEON"),
            $crate::isa::Isa::Scalar => {
                type $lanes = $crate::lanes::Scalar;
                $body
            }
        }
    };
    ($isa:expr, $kernel:ident($($argument:expr),* $(,)?)) => {
        $crate::dispatch!($isa, |LanesOfIsa| $kernel::<LanesOfIsa>($($argument),*))
    };
}

// Never inlined: each kernel stays a function of its own, which the compiler gets through in reasonable time.

/// # Safety
/// The machine has AVX-512 F, DQ, BW and VL.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
pub unsafe fn on_avx512<R>(kernel: impl FnOnce() -> R) -> R {
    kernel()
}

/// # Safety
/// The machine has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
pub unsafe fn on_avx2<R>(kernel: impl FnOnce() -> R) -> R {
    kernel()
}

/// # Safety
/// The machine has NEON.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
#[target_feature(enable = "neon")]
pub unsafe fn on_neon<R>(kernel: impl FnOnce() -> R) -> R {
    kernel()
}
