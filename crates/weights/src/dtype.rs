//! The types a number can have in a file, and how each becomes an `f32` or an integer.

use crate::Quant;

/// The type of a stored number. The names are those of the safetensors format, and of GGUF for blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Double precision.
    F64,
    /// Single precision: what the engine computes in.
    F32,
    /// Half precision: 5 bits of exponent, 10 of fraction.
    F16,
    /// The upper half of an `F32`: 8 bits of exponent, 7 of fraction.
    Bf16,
    /// Signed, 64 bits: positions and token ids.
    I64,
    /// Signed, 32 bits.
    I32,
    /// Signed, 16 bits.
    I16,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 8 bits.
    U8,
    /// One byte, zero or not: masks.
    Bool,
    /// A few bits, in blocks that share scales.
    Blocks(Quant),
}

impl Dtype {
    /// Every type that is stored number by number, the widest first.
    const PLAIN: [Self; 13] = [
        Self::F64,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::I32,
        Self::U32,
        Self::F16,
        Self::Bf16,
        Self::I16,
        Self::U16,
        Self::I8,
        Self::U8,
        Self::Bool,
    ];

    /// Its name in a safetensors header or, for blocks, in GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "F64",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::I64 => "I64",
            Self::I32 => "I32",
            Self::I16 => "I16",
            Self::I8 => "I8",
            Self::U64 => "U64",
            Self::U32 => "U32",
            Self::U16 => "U16",
            Self::U8 => "U8",
            Self::Bool => "BOOL",
            Self::Blocks(quant) => quant.name(),
        }
    }

    /// How many numbers are stored together: one, except in blocks.
    pub fn numbers(self) -> usize {
        if let Self::Blocks(quant) = self { quant.numbers() } else { 1 }
    }

    /// The bytes that they take together: those of one number, except in blocks.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::Blocks(quant) => quant.bytes(),
        }
    }

    /// The bytes of a tensor of `shape`; `None` if there are more than can be counted, or if its rows are not whole
    /// blocks.
    pub(crate) fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
        let whole = shape.last().unwrap_or(&1).is_multiple_of(self.numbers());
        if whole { (count / self.numbers()).checked_mul(self.bytes()) } else { None }
    }

    /// The type with this name in a safetensors header.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::PLAIN.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Little-endian numbers as the nearest `f32`; exact for `F32`, `F16`, `BF16` and up to 16 bits of integer. For
    /// blocks see [`Quant::widen`].
    pub(crate) fn widen(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F64 => decode(bytes, |b| f64::from_le_bytes(b) as f32),
            Self::F32 => decode(bytes, f32::from_le_bytes),
            Self::F16 => decode(bytes, |b| half(u16::from_le_bytes(b))),
            Self::Bf16 => decode(bytes, |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)),
            Self::I64 => decode(bytes, |b| i64::from_le_bytes(b) as f32),
            Self::I32 => decode(bytes, |b| i32::from_le_bytes(b) as f32),
            Self::I16 => decode(bytes, |b| f32::from(i16::from_le_bytes(b))),
            Self::I8 => decode(bytes, |b| f32::from(i8::from_le_bytes(b))),
            Self::U64 => decode(bytes, |b| u64::from_le_bytes(b) as f32),
            Self::U32 => decode(bytes, |b| u32::from_le_bytes(b) as f32),
            Self::U16 => decode(bytes, |b| f32::from(u16::from_le_bytes(b))),
            Self::U8 => decode(bytes, |[b]| f32::from(b)),
            Self::Bool => decode(bytes, |[b]| f32::from(b != 0)),
            Self::Blocks(quant) => quant.widen(bytes),
        }
    }

    /// Little-endian integers; `None` for floating point, or where one is too large for an `i64`.
    pub(crate) fn integers(self, bytes: &[u8]) -> Option<Vec<i64>> {
        match self {
            Self::F64 | Self::F32 | Self::F16 | Self::Bf16 | Self::Blocks(_) => None,
            Self::I64 => Some(decode(bytes, i64::from_le_bytes)),
            Self::I32 => Some(decode(bytes, |b| i32::from_le_bytes(b).into())),
            Self::I16 => Some(decode(bytes, |b| i16::from_le_bytes(b).into())),
            Self::I8 => Some(decode(bytes, |b| i8::from_le_bytes(b).into())),
            Self::U64 => decode(bytes, u64::from_le_bytes).into_iter().map(|n| n.try_into().ok()).collect(),
            Self::U32 => Some(decode(bytes, |b| u32::from_le_bytes(b).into())),
            Self::U16 => Some(decode(bytes, |b| u16::from_le_bytes(b).into())),
            Self::U8 => Some(decode(bytes, |[b]| b.into())),
            Self::Bool => Some(decode(bytes, |[b]| (b != 0).into())),
        }
    }
}

fn decode<const SIZE: usize, T>(bytes: &[u8], number: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|&chunk| number(chunk)).collect()
}

pub(crate) use glassformer_tensor::half::widen as half;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_becomes_the_number_that_its_bits_spell() {
        for bits in 0..=u16::MAX {
            let (exponent, fraction) = (i32::from(bits >> 10) & 0x1f, f64::from(bits & 0x3ff) / 1024.0);
            let magnitude = match (exponent, fraction) {
                (0, _) => fraction * 2_f64.powi(-14),
                (31, 0.0) => f64::INFINITY,
                (31, _) => f64::NAN,
                _ => (1.0 + fraction) * 2_f64.powi(exponent - 15),
            };
            let expected = if bits >> 15 == 1 { -magnitude } else { magnitude };
            let found = f64::from(half(bits));
            let equal = found == expected && found.is_sign_negative() == expected.is_sign_negative();
            assert!(equal || found.is_nan() && expected.is_nan(), "{bits:#06x}: {found} is not {expected}");
        }
    }

    #[test]
    fn numbers_of_every_type_widen() {
        let cases: [(Dtype, &[u8], &[f32]); 13] = [
            (Dtype::F64, &(-0.5_f64).to_le_bytes(), &[-0.5]),
            (Dtype::F32, &1.25_f32.to_le_bytes(), &[1.25]),
            (Dtype::F16, &[0x00, 0x3c, 0x00, 0xc0], &[1.0, -2.0]),
            (Dtype::Bf16, &[0x80, 0x3f, 0x00, 0xc0], &[1.0, -2.0]),
            (Dtype::I64, &(-3_i64).to_le_bytes(), &[-3.0]),
            (Dtype::I32, &(-3_i32).to_le_bytes(), &[-3.0]),
            (Dtype::I16, &(-3_i16).to_le_bytes(), &[-3.0]),
            (Dtype::I8, &[0xfd, 1], &[-3.0, 1.0]),
            (Dtype::U64, &3_u64.to_le_bytes(), &[3.0]),
            (Dtype::U32, &3_u32.to_le_bytes(), &[3.0]),
            (Dtype::U16, &[0xff, 0xff], &[65535.0]),
            (Dtype::U8, &[0, 255], &[0.0, 255.0]),
            (Dtype::Bool, &[0, 1, 2], &[0.0, 1.0, 1.0]),
        ];
        for (dtype, bytes, numbers) in cases {
            assert_eq!(dtype.widen(bytes), numbers, "{dtype:?}");
            assert_eq!(dtype.bytes_of(&[numbers.len()]), Some(bytes.len()), "{dtype:?}");
            assert_eq!(Dtype::named(dtype.name()), Some(dtype));
            let integers = dtype.integers(bytes);
            let floating = matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16);
            assert_eq!(
                integers,
                (!floating).then(|| numbers.iter().map(|&n| n as i64).collect()),
                "{dtype:?}"
            );
        }
        assert_eq!(Dtype::U64.integers(&u64::MAX.to_le_bytes()), None);
    }
}
