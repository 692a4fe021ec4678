//! Numbers of sixteen bits: IEEE 754 halves, and matrices as files hold them.

use std::borrow::Cow;

/// The two ways to write a number in sixteen bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// IEEE 754: five bits of exponent.
    F16,
    /// The upper half of an `f32`.
    Bf16,
}

/// A matrix of such numbers, where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halves<'a> {
    /// How they are written.
    pub half: Half,
    /// The numbers, row-major and little-endian.
    pub bytes: Cow<'a, [u8]>,
}

impl Halves<'_> {
    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.bytes.len() / 2
    }

    /// Widens the numbers from `first` on into all of `to`, exactly.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn widen(&self, first: usize, to: &mut [f32]) {
        let bytes = &self.bytes[2 * first..2 * (first + to.len())];
        for (number, &bytes) in to.iter_mut().zip(bytes.as_chunks::<2>().0) {
            let bits = u16::from_le_bytes(bytes);
            *number = match self.half {
                Half::F16 => widen(bits),
                Half::Bf16 => f32::from_bits(u32::from(bits) << 16),
            };
        }
    }
}

/// A half as `f32`, exactly. Subnormal halves are multiples of 2⁻²⁴ and normal in `f32`, so that a thread which flushes
/// subnormals reads the same number.
#[inline]
pub fn widen(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    let magnitude = match exponent {
        0 => (fraction as f32 / 16_777_216.0).to_bits(),
        0x1f => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest half, the even one of two. What is too large becomes infinite; NaN stays NaN.
pub fn round(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = x.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude < 6.103_515_6e-5 {
        // Subnormal: a whole number of 2⁻²⁴. The largest of them rounds up to the smallest normal half, as it should.
        return sign | (magnitude * 16_777_216.0).round_ties_even() as u16;
    }
    let bits = magnitude.to_bits();
    let rounded = bits + 0xfff + (bits >> 13 & 1);
    if rounded >= 0x4780_0000 {
        return sign | 0x7c00; // from 65520 on
    }
    sign | ((rounded - (112 << 23)) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_kinds_widen() {
        let bytes = Cow::Borrowed(&[0, 0x3c, 0x80, 0x3f, 0, 0xc0][..]);
        let mut two = [0.0; 2];
        Halves { half: Half::F16, bytes: bytes.clone() }.widen(0, &mut two);
        assert_eq!(two[0], 1.0);
        let halves = Halves { half: Half::Bf16, bytes };
        halves.widen(1, &mut two);
        assert_eq!((two, halves.count()), ([1.0, -2.0], 3));
    }

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            let number = widen(bits);
            if number.is_nan() {
                assert!(widen(round(number)).is_nan());
            } else {
                assert_eq!(round(number), bits, "{number}");
            }
        }
    }

    #[test]
    fn what_lies_between_goes_to_the_nearer_one() {
        for bits in 0..0x7bff_u16 {
            let (low, high) = (f64::from(widen(bits)), f64::from(widen(bits + 1)));
            let middle = low.midpoint(high) as f32;
            assert_eq!(round(middle), bits + bits % 2, "{middle}");
            assert_eq!(round(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(round(f32::from_bits(middle.to_bits() + 1)), bits + 1);
        }
        assert_eq!([round(65519.0), round(65520.0), round(-1e9)], [0x7bff, 0x7c00, 0xfc00]);
    }
}
