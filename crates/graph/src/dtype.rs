//! Types of numbers, as a backend holds them.

use std::fmt;

/// The type of a value's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 32 bits.
    #[default]
    F32,
    /// The upper 16 bits of that: 8 of the mantissa.
    Bf16,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        })
    }
}
