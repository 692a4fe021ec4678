//! CPUID, told with more in it than this processor says.

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;

/// The variable of the environment that says what is pretended, in words with commas between: those of `glassformer --isa`.
const CHOICE: &str = "GLASSFORMER_EMULATE";
/// What is pretended where nobody says: each step of a loop on vectors is a trap, and tiles do most work in one.
const USUAL: &str = "amx";

/// Bits of the second page of features, register eax.
const AVX_VNNI: u32 = 1 << 4;
const AVX512_BF16: u32 = 1 << 5;
/// Bits of the first one, register edx: `bf16`, tiles, and integers of eight bits.
const AMX: u32 = 1 << 22 | 1 << 24 | 1 << 25;
/// The pages.
const FEATURES: (u32, u32) = (7, 0);
const MORE_FEATURES: (u32, u32) = (7, 1);

/// Bits that are added to both pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Added {
    features: u32,
    more: u32,
}

static ADDED: OnceLock<Added> = OnceLock::new();

/// Reads what is to be pretended; before CPUID traps.
pub fn choose() -> Result<(), String> {
    let words = std::env::var(CHOICE).unwrap_or_else(|_| USUAL.to_owned());
    let added = Added::of(&words)
        .map_err(|word| format!("{CHOICE}: {word:?} is none of amx, avx512-dot and avx-vnni"))?;
    ADDED.get_or_init(|| added);
    Ok(())
}

impl Added {
    /// What these words mean, or the one that means nothing.
    fn of(words: &str) -> Result<Self, &str> {
        let mut added = Self::default();
        for word in words.split(',') {
            match word {
                "amx" => (added.features, added.more) = (AMX, added.more | AVX512_BF16),
                "avx512-dot" => added.more |= AVX512_BF16,
                "avx-vnni" => added.more |= AVX_VNNI,
                _ => return Err(word),
            }
        }
        Ok(added)
    }
}

/// The answer, in the order of its registers: eax, ebx, ecx, edx. CPUID must not trap now.
pub fn answer(leaf: u32, page: u32) -> [u32; 4] {
    let added = ADDED.get().copied().unwrap_or_default();
    let found = __cpuid_count(leaf, page);
    let mut all = [found.eax, found.ebx, found.ecx, found.edx];
    match (leaf, page) {
        FEATURES => {
            all[0] = all[0].max(MORE_FEATURES.1); // the last page
            all[3] |= added.features;
        }
        MORE_FEATURES => all[0] |= added.more,
        _ => {}
    }
    all
}

/// Whether this processor has what is not carried out here.
pub fn has_the_rest() -> bool {
    is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

/// Whether there is nothing to add.
pub fn has_all() -> bool {
    [FEATURES, MORE_FEATURES].iter().all(|&(leaf, page)| {
        let found = __cpuid_count(leaf, page);
        answer(leaf, page) == [found.eax, found.ebx, found.ecx, found.edx]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_features_and_tiles_come_with_halves() {
        assert_eq!(Added::of("amx"), Ok(Added { features: AMX, more: AVX512_BF16 }));
        assert_eq!(Added::of("avx-vnni,avx512-dot"), Ok(Added { features: 0, more: AVX_VNNI | AVX512_BF16 }));
        assert_eq!(Added::of("avx-vnni,amx").map(|added| added.more), Ok(AVX_VNNI | AVX512_BF16));
        assert_eq!(Added::of("amx,sse"), Err("sse"));
        assert_eq!(Added::of(""), Err(""));
    }
}
