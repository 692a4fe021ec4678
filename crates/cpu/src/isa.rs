//! Which vector instructions this machine has, asked once, at run time.
//!
//! This file names the sets and nothing more: what they can do is in [`crate::lanes`], and how a kernel gets there is
//! [`crate::dispatch!`].

use std::fmt;
use std::sync::OnceLock;

/// An instruction set that the kernels are compiled for, from the weakest to the strongest.
///
/// All but [`Isa::Scalar`] give the same bits: they have fused multiply-add, and the lanes of a kernel run across
/// outputs, so the width of a register never changes the order of a sum. [`Isa::Scalar`] rounds twice where they round
/// once, and may differ from them in the last bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust, for any machine.
    Scalar,
    /// NEON: every 64-bit ARM.
    Neon,
    /// AVX2 and FMA: Intel since 2013, AMD since 2015.
    Avx2,
    /// AVX-512 F, DQ, BW and VL: Intel servers since 2017, AMD since 2022.
    Avx512,
}

impl Isa {
    /// Every set, from the weakest to the strongest, whether this machine has it or not.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512];

    /// The strongest set of this machine. The question is asked once and remembered.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().copied().unwrap_or(Self::Scalar))
    }

    /// The sets of this machine, from the weakest to the strongest: what tests run over.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Whether this machine, and its operating system, can run this set.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "aarch64"))]
            Self::Neon => false,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Scalar => "scalar",
            Self::Neon => "NEON",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_set_is_the_last_one_available() {
        let available = Isa::available();
        assert_eq!(available.first(), Some(&Isa::Scalar));
        assert_eq!(available.last(), Some(&Isa::best()));
        assert!(available.is_sorted());
    }
}
