//! Numbers as these instructions have them: in `bf16`, and without those that are too small to be written with all their bits.

/// Two `bf16`. What is too small to be written with all its bits counts as zero, here and in sums.
pub fn pair(word: [u8; 4]) -> [f32; 2] {
    let whole = u32::from_le_bytes(word);
    [flushed(f32::from_bits(whole << 16)), flushed(f32::from_bits(whole & 0xffff_0000))]
}

/// Zero instead of a number that is too small to be written with all its bits.
pub fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

/// The nearest `bf16`, of two the even one.
pub fn rounded(x: f32) -> u16 {
    let bits = flushed(x).to_bits();
    let even = bits >> 16 & 1;
    let all = if x.is_nan() { bits | 1 << 22 } else { bits + 0x7fff + even };
    (all >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_half() {
        let cases = [
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80), // in the middle: the even one below
            (f32::from_bits(0x3f81_8000), 0x3f82), // and above
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::MAX, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (f32::from_bits(0x7f80_0001), 0x7fc0), // a number that is none stays so
            (-f32::MIN_POSITIVE / 2.0, 0x8000),
        ];
        for (x, expected) in cases {
            assert_eq!(rounded(x), expected, "{x:e}");
        }
    }
}
