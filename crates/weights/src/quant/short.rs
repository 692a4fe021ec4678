//! Blocks of 32 numbers: one scale, perhaps a minimum, and the numbers' bits.
//!
//! In the 4- and 5-bit types, byte i holds number i in its low four bits and number i + 16 in its high four; fifth bits lie
//! together in a word, number i's at bit i.

use super::Parts;
use crate::dtype::half;

/// Bytes: 16 × two 4-bit q, two 4-bit steps s. Number: s · (q − 8).
pub(super) fn int4(block: &[u8; 17], parts: &mut Parts) {
    parts.scale = 1.0;
    parts.scale_steps[..2].copy_from_slice(&[block[16] & 15, block[16] >> 4].map(u8::cast_signed));
    fill(&block[..16], 0, parts);
}

/// Bytes: scale d (F16), 16 × two 4-bit q. Number: d · (q − 8).
pub(super) fn q4_0(block: &[u8; 18], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    fill(&block[2..], 0, parts);
}

/// Bytes: scale d, minimum m (F16), 16 × two 4-bit q. Number: d · q + m.
pub(super) fn q4_1(block: &[u8; 20], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    parts.one_minimum(-float(block, 2));
    fill(&block[4..], 0, parts);
}

/// Bytes: scale d (F16), fifth bits (32), 16 × two 4-bit q. Number: d · (q − 16).
pub(super) fn q5_0(block: &[u8; 22], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    fill(&block[6..], word(block, 2), parts);
}

/// Bytes: scale d, minimum m (F16), fifth bits (32), 16 × two 4-bit q. Number: d · q + m.
pub(super) fn q5_1(block: &[u8; 24], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    parts.one_minimum(-float(block, 2));
    fill(&block[8..], word(block, 4), parts);
}

/// Bytes: scale d (F16), 32 × q (I8). Number: q · d.
pub(super) fn q8_0(block: &[u8; 34], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    for (code, &q) in parts.codes.iter_mut().zip(&block[2..]) {
        *code = q ^ 128;
    }
}

/// Codes from their low four bits, two a byte, and their fifth bits, one a bit of `fifth`.
fn fill(nibbles: &[u8], fifth: u32, parts: &mut Parts) {
    let (low, high) = parts.codes[..32].split_at_mut(16);
    for (i, &byte) in nibbles.iter().enumerate() {
        let bit = |at: usize| ((fifth >> at) as u8 & 1) << 4;
        low[i] = byte & 15 | bit(i);
        high[i] = byte >> 4 | bit(i + 16);
    }
}

/// The F16 at byte `at`.
pub(super) fn float(block: &[u8], at: usize) -> f32 {
    half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// The 32 bits at byte `at`.
pub(super) fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
