//! Which instructions multiply low-precision numbers on this machine, asked once, at run time.

use crate::isa::Isa;
use std::fmt;

/// Instructions for products of low-precision numbers, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dot {
    /// Plain Rust, for any machine.
    Scalar,
    /// NEON: `bf16` is converted to `f32`; integers by `smull`, and then added up in pairs.
    Neon,
    /// NEON with its dot product, since 2017: integers by `sdot`; `bf16` as without it.
    NeonDot,
    /// AVX2: `bf16` is converted to `f32`; integers by `vpmaddubsw`, on absolute values so that nothing saturates.
    Avx2,
    /// AVX-VNNI, on machines without AVX-512: integers by `vpdpbusd`; `bf16` as with AVX2.
    AvxVnni,
    /// AVX-512: `bf16` is converted to `f32`, and integers to sixteen bits for `vpmaddwd`.
    Avx512,
    /// AVX-512 VNNI: integers by `vpdpbusd`; `bf16` is converted to `f32`.
    Avx512Vnni,
    /// AVX-512 BF16 and VNNI: `vdpbf16ps` and `vpdpbusd`.
    Avx512Dot,
    /// AMX: whole tiles at a time.
    Amx,
}

impl Dot {
    /// Every one, from the weakest to the strongest, whether this machine has it or not.
    pub const ALL: [Self; 9] = [
        Self::Scalar,
        Self::Neon,
        Self::NeonDot,
        Self::Avx2,
        Self::AvxVnni,
        Self::Avx512,
        Self::Avx512Vnni,
        Self::Avx512Dot,
        Self::Amx,
    ];

    /// The strongest that this machine has beside `isa`.
    pub fn best(isa: Isa) -> Self {
        let fits = |dot: &Self| dot.isa() <= isa && dot.is_available();
        Self::ALL.into_iter().rfind(fits).unwrap_or(Self::Scalar)
    }

    /// The word for it on a command line.
    pub fn word(self) -> &'static str {
        self.names().0
    }

    /// That word, and its name.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Scalar => ("scalar", "scalar"),
            Self::Neon => ("neon", "NEON"),
            Self::NeonDot => ("neon-dot", "NEON with its dot product"),
            Self::Avx2 => ("avx2", "AVX2"),
            Self::AvxVnni => ("avx-vnni", "AVX-VNNI"),
            Self::Avx512 => ("avx512", "AVX-512"),
            Self::Avx512Vnni => ("avx512-vnni", "AVX-512 VNNI"),
            Self::Avx512Dot => ("avx512-dot", "AVX-512 BF16 and VNNI"),
            Self::Amx => ("amx", "AMX"),
        }
    }

    /// Those of this machine, from the weakest to the strongest: what tests run over.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|dot| dot.is_available()).collect()
    }

    /// The vector instructions for what is done around the products.
    pub fn isa(self) -> Isa {
        match self {
            Self::Scalar => Isa::Scalar,
            Self::Neon | Self::NeonDot => Isa::Neon,
            Self::Avx2 | Self::AvxVnni => Isa::Avx2,
            Self::Avx512 | Self::Avx512Vnni | Self::Avx512Dot | Self::Amx => Isa::Avx512,
        }
    }

    /// Whether this machine, and its operating system, can run them. For AMX the system is asked for permission, the first
    /// time.
    pub fn is_available(self) -> bool {
        self.isa().is_available()
            && match self {
                Self::Scalar => true,
                #[cfg(target_arch = "aarch64")]
                Self::Neon => true,
                #[cfg(target_arch = "aarch64")]
                Self::NeonDot => std::arch::is_aarch64_feature_detected!("dotprod"),
                // Every processor with AVX2 has F16C too.
                #[cfg(target_arch = "x86_64")]
                Self::Avx2 | Self::Avx512 => is_x86_feature_detected!("f16c"),
                #[cfg(target_arch = "x86_64")]
                Self::AvxVnni => Self::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Vnni => Self::Avx512.is_available() && is_x86_feature_detected!("avx512vnni"),
                #[cfg(target_arch = "x86_64")]
                Self::Avx512Dot => Self::Avx512Vnni.is_available() && is_x86_feature_detected!("avx512bf16"),
                #[cfg(target_arch = "x86_64")]
                Self::Amx => {
                    // Vectors do few rows, and epilogues.
                    static AMX: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
                    *AMX.get_or_init(|| Self::Avx512Dot.is_available() && super::amx::ask())
                }
                #[cfg(not(target_arch = "aarch64"))]
                Self::Neon | Self::NeonDot => false,
                #[cfg(not(target_arch = "x86_64"))]
                Self::Avx2
                | Self::AvxVnni
                | Self::Avx512
                | Self::Avx512Vnni
                | Self::Avx512Dot
                | Self::Amx => false,
            }
    }
}

impl fmt::Display for Dot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.names().1)
    }
}
