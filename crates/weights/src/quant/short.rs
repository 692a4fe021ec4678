//! Blocks of 32 numbers: one scale, perhaps a minimum, and the numbers' bits.
//!
//! In the 4- and 5-bit types, byte i holds number i in its low four bits and number i + 16 in its high four; fifth bits lie
//! together in a word, number i's at bit i.

use super::Parts;
use crate::dtype::half;

/// Bytes: 16 × two 4-bit q, two 4-bit steps s. Number: s · (q − 8).
pub(super) fn int4(block: &[u8; 17], parts: &mut Parts) {
    let (codes, steps) = int4_block(block);
    parts.scale = 1.0;
    parts.scale_steps[..2].copy_from_slice(&steps);
    parts.codes[..32].copy_from_slice(&codes);
}

/// The codes of such a block, and its steps.
#[inline]
pub(super) fn int4_block(block: &[u8; 17]) -> ([u8; 32], [i8; 2]) {
    let [nibbles @ .., steps] = block;
    (codes(nibbles, 0), [steps & 15, steps >> 4].map(u8::cast_signed))
}

/// Bytes: scale d (F16), 16 × two 4-bit q. Number: d · (q − 8).
pub(super) fn q4_0(block: &[u8; 18], parts: &mut Parts) {
    let [_, _, nibbles @ ..] = block;
    parts.one_scale(float(block, 0));
    parts.codes[..32].copy_from_slice(&codes(nibbles, 0));
}

/// Bytes: scale d, minimum m (F16), 16 × two 4-bit q. Number: d · q + m.
pub(super) fn q4_1(block: &[u8; 20], parts: &mut Parts) {
    let [_, _, _, _, nibbles @ ..] = block;
    parts.one_scale(float(block, 0));
    parts.one_minimum(-float(block, 2));
    parts.codes[..32].copy_from_slice(&codes(nibbles, 0));
}

/// Bytes: scale d (F16), fifth bits (32), 16 × two 4-bit q. Number: d · (q − 16).
pub(super) fn q5_0(block: &[u8; 22], parts: &mut Parts) {
    let [_, _, _, _, _, _, nibbles @ ..] = block;
    parts.one_scale(float(block, 0));
    parts.codes[..32].copy_from_slice(&codes(nibbles, word(block, 2)));
}

/// Bytes: scale d, minimum m (F16), fifth bits (32), 16 × two 4-bit q. Number: d · q + m.
pub(super) fn q5_1(block: &[u8; 24], parts: &mut Parts) {
    let [_, _, _, _, _, _, _, _, nibbles @ ..] = block;
    parts.one_scale(float(block, 0));
    parts.one_minimum(-float(block, 2));
    parts.codes[..32].copy_from_slice(&codes(nibbles, word(block, 4)));
}

/// Bytes: scale d (F16), 32 × q (I8). Number: q · d.
pub(super) fn q8_0(block: &[u8; 34], parts: &mut Parts) {
    parts.one_scale(float(block, 0));
    for (code, &q) in parts.codes.iter_mut().zip(&block[2..]) {
        *code = q ^ 128;
    }
}

/// Codes from their low four bits, two a byte, and their fifth bits, one a bit of `fifth`.
#[inline]
fn codes(nibbles: &[u8; 16], fifth: u32) -> [u8; 32] {
    const LOW: u128 = u128::from_ne_bytes([15; 16]);
    let both = u128::from_le_bytes(*nibbles);
    let mut codes = [0; 32];
    codes[..16].copy_from_slice(&(both & LOW).to_le_bytes());
    codes[16..].copy_from_slice(&(both >> 4 & LOW).to_le_bytes());
    for (at, code) in codes.iter_mut().enumerate() {
        *code |= ((fifth >> at) as u8 & 1) << 4;
    }
    codes
}

/// The F16 at byte `at`.
pub(super) fn float(block: &[u8], at: usize) -> f32 {
    half(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// The 32 bits at byte `at`.
pub(super) fn word(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}
