//! Blocks of 256 numbers ("K-quants"): groups of 16 or 32 with small scales of their own, themselves scaled by the block's.
//!
//! Bits are spread so that a whole vector of bytes can be shifted and masked at once: within a half (128 numbers) or a
//! quarter, byte l holds bits of the numbers l, l + 32, l + 64, … . Below, c counts runs of 32 numbers: 0..8, and l counts
//! inside a run.

use super::Parts;
use super::short::float;

/// Bytes: 16 × (scale s in the low four bits, minimum m in the high), 64 × four 2-bit q, d, e (F16).
/// Number: (d · s) · q − (e · m).
pub(super) fn q2_k(block: &[u8; 84], parts: &mut Parts) {
    (parts.scale, parts.minimum) = (float(block, 80), float(block, 82));
    for (group, codes) in parts.codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        parts.scale_steps[group] = (block[group] & 15).cast_signed();
        parts.minimum_steps[group] = (block[group] >> 4).cast_signed();
        let (c, start) = (group / 2, group % 2 * 16);
        let bits = &block[16 + c / 4 * 32 + start..];
        for (code, byte) in codes.iter_mut().zip(bits) {
            *code = byte >> (c % 4 * 2) & 3;
        }
    }
}

/// Bytes: 32 × eight third bits h, 64 × four 2-bit q, 12 bytes of sixteen 6-bit s, d (F16).
/// Number: (d · (s − 32)) · (q + 4h − 4).
pub(super) fn q3_k(block: &[u8; 110], parts: &mut Parts) {
    parts.scale = float(block, 108);
    let packed = &block[96..108];
    for (group, codes) in parts.codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        // Four low bits in the first eight bytes, two high bits in the last four.
        let low = packed[group % 8] >> (group / 8 * 4) & 15;
        let high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
        parts.scale_steps[group] = (low | high << 4).cast_signed() - 32;
        let (c, start) = (group / 2, group % 2 * 16);
        let (third, bits) = (&block[start..], &block[32 + c / 4 * 32 + start..]);
        for (l, code) in codes.iter_mut().enumerate() {
            *code = bits[l] >> (c % 4 * 2) & 3 | (third[l] >> c & 1) << 2;
        }
    }
}

/// Bytes: d, e (F16), 12 bytes of eight 6-bit s and eight 6-bit m, 128 × two 4-bit q. Number: (d · s) · q − (e · m).
pub(super) fn q4_k(block: &[u8; 144], parts: &mut Parts) {
    scales_and_minima(block, parts);
    for (c, codes) in parts.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let bits = &block[16 + c / 2 * 32..];
        for (code, byte) in codes.iter_mut().zip(bits) {
            *code = byte >> (c % 2 * 4) & 15;
        }
    }
}

/// Bytes: as in `q4_k`, with 32 × eight fifth bits before the 4-bit q. Number: (d · s) · q − (e · m).
pub(super) fn q5_k(block: &[u8; 176], parts: &mut Parts) {
    scales_and_minima(block, parts);
    for (c, codes) in parts.codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (fifth, bits) = (&block[16..48], &block[48 + c / 2 * 32..]);
        for (l, code) in codes.iter_mut().enumerate() {
            *code = bits[l] >> (c % 2 * 4) & 15 | (fifth[l] >> c & 1) << 4;
        }
    }
}

/// Bytes: 128 × two 4-bit q, 64 × four 2-bit h, 16 × s (I8), d (F16). Number: (d · s) · (q + 16h − 32).
pub(super) fn q6_k(block: &[u8; 210], parts: &mut Parts) {
    parts.scale = float(block, 208);
    for (group, codes) in parts.codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        parts.scale_steps[group] = block[192 + group].cast_signed();
        let (c, start) = (group / 2, group % 2 * 16);
        let (half, run) = (c / 4, c % 4);
        let low = &block[half * 64 + run % 2 * 32 + start..];
        let high = &block[128 + half * 32 + start..];
        for (l, code) in codes.iter_mut().enumerate() {
            *code = low[l] >> (run / 2 * 4) & 15 | (high[l] >> (run * 2) & 3) << 4;
        }
    }
}

/// The scales and the minima of a block that begins with d, e and twelve packed bytes. The first four runs have theirs whole
/// in the low six bits of bytes 0..4 and 4..8; the others have four bits in bytes 8..12 and two on top of the first eight.
fn scales_and_minima(block: &[u8], parts: &mut Parts) {
    (parts.scale, parts.minimum) = (float(block, 0), float(block, 2));
    let packed = &block[4..16];
    for c in 0..8_usize {
        let (scale, minimum) = match c.checked_sub(4) {
            None => (packed[c] & 63, packed[c + 4] & 63),
            Some(k) => {
                let both = packed[k + 8];
                (both & 15 | packed[k] >> 6 << 4, both >> 4 | packed[k + 4] >> 6 << 4)
            }
        };
        parts.scale_steps[c] = scale.cast_signed();
        parts.minimum_steps[c] = minimum.cast_signed();
    }
}
