//! The instructions: a product of 32 × 32, what lies between two of them, and transposing.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use super::super::super::tiles::machine::power;
use super::{CHUNK, PAIRS, SQUARE};
use crate::lanes::bf16::{round_interleaved, round_two};
use crate::lanes::{Avx512, LANES, Lanes};
use crate::lowp::apart;

/// 32 rows of A times 32 columns of B, added to C or put there. All distances are in units of `f32`.
pub(super) struct Square {
    /// Lines of sixteen pairs; sixteen lines, then those of the second half.
    pub a: *const f32,
    /// From a line to the next, and from a step to the next.
    pub a_line: usize,
    pub a_step: usize,
    /// Tiles, one behind the other for each step; `b_panel` pairs on, those of the second half.
    pub b: *const f32,
    pub b_panel: usize,
    pub steps: usize,
    pub c: *mut f32,
    pub c_line: usize,
    pub overwrite: bool,
}

impl Square {
    /// # Safety
    /// The registers are whole tiles; A and B are valid for reads, C for writes; there is one step at least.
    pub unsafe fn multiply(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.multiply_apart(LANES * self.a_line) };
    }

    /// Where the second half of A begins `apart` pairs behind the first.
    ///
    /// # Safety
    /// As for [`Square::multiply`].
    pub unsafe fn multiply_apart(&self, apart: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            apart!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {overwrite:l}, {overwrite:l}\n jnz 2f",
                "tileloadd tmm0, [{c0} + {c_line}]",
                "tileloadd tmm1, [{c0} + {c_line} + 64]",
                "tileloadd tmm2, [{c1} + {c_line}]",
                "tileloadd tmm3, [{c1} + {c_line} + 64]",
                "2:\n tileloadd tmm4, [{a0} + {a_line}]",
                "tileloadd tmm6, [{b0} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b1} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{a1} + {a_line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a0}, {a_step}\n add {a1}, {a_step}\n add {b0}, 1024\n add {b1}, 1024\n dec {steps}\n jnz 2b",
                "tilestored [{c0} + {c_line}], tmm0",
                "tilestored [{c0} + {c_line} + 64], tmm1",
                "tilestored [{c1} + {c_line}], tmm2",
                "tilestored [{c1} + {c_line} + 64], tmm3";
                overwrite = in(reg) usize::from(self.overwrite),
                c0 = in(reg) self.c,
                c1 = in(reg) self.c.wrapping_add(LANES * self.c_line),
                c_line = in(reg) self.c_line * 4,
                a0 = inout(reg) self.a => _,
                a1 = inout(reg) self.a.wrapping_add(apart) => _,
                a_line = in(reg) self.a_line * 4,
                a_step = in(reg) self.a_step * 4,
                b0 = inout(reg) self.b => _,
                b1 = inout(reg) self.b.wrapping_add(self.b_panel) => _,
                line = in(reg) 64_usize,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

/// What lies between two products of a square.
#[derive(Clone, Copy)]
pub(super) struct SquareSoftmax<'a> {
    /// S and dP, `[32 keys, 32 queries]`.
    pub s: *const f32,
    pub dp: *const f32,
    /// The logarithms of the queries, to base two, and their means.
    pub logs: &'a [f32; SQUARE],
    pub means: &'a [f32; SQUARE],
    /// For each key, a bit for each query that sees it.
    pub masks: &'a [[u16; 2]; SQUARE],
    /// Where P and dS go in pairs, by rows.
    pub p: *mut f32,
    pub ds: *mut f32,
    /// Where dS goes by pairs of keys.
    pub ds_pairs: *mut f32,
}

/// From S and dP of a square to P and dS.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; all are valid for a square.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn softmax_grad(square: SquareSoftmax<'_>) {
    let SquareSoftmax { s, dp, logs, means, masks, p, ds, ds_pairs } = square;
    // SAFETY: the caller's promise.
    unsafe {
        let of = |numbers: &[f32; SQUARE], half: usize| _mm512_loadu_ps(numbers.as_ptr().add(half * LANES));
        let (logs, means) = ([of(logs, 0), of(logs, 1)], [of(means, 0), of(means, 1)]);
        let mut two = [[_mm512_set1_ps(0.0); 2]; 2];
        for key in 0..SQUARE {
            let mut probabilities = [_mm512_set1_ps(0.0); 2];
            let gradients: &mut [__m512; 2] = &mut two[key % 2];
            for half in 0..2 {
                let at = key * SQUARE + half * LANES;
                let score = _mm512_loadu_ps(s.add(at));
                let t = _mm512_fmsub_ps(score, _mm512_set1_ps(LOG2_E), logs[half]);
                let mask = masks[key][half];
                let probability = _mm512_maskz_mov_ps(mask, power(t));
                let gradient = _mm512_sub_ps(_mm512_loadu_ps(dp.add(at)), means[half]);
                probabilities[half] = probability;
                gradients[half] = _mm512_maskz_mul_ps(mask, probability, gradient);
            }
            _mm512_storeu_si512(p.add(key * PAIRS).cast(), round_two(probabilities));
            _mm512_storeu_si512(ds.add(key * PAIRS).cast(), round_two(*gradients));
            if key % 2 == 1 {
                for (half, (&first, &second)) in two[0].iter().zip(&two[1]).enumerate() {
                    let to = ds_pairs.add((half * PAIRS + key / 2) * LANES);
                    _mm512_storeu_si512(to.cast(), round_interleaved([first, second]));
                }
            }
        }
    }
}

/// Transposes sixteen lines of sixteen pairs, `stride` apart.
///
/// # Safety
/// The machine has AVX-512; both are valid.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
pub(super) unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { Avx512::transpose(from, stride as isize, 0..LANES, LANES, to) };
}

/// Adds sixteen lines of a chunk's queries, transposed and times `scale`, to `rows` rows of `some` numbers, `stride` apart.
///
/// # Safety
/// The machine has AVX-512; the rows are valid for writes.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
pub(super) unsafe fn add_transposed(
    from: *const f32,
    scale: f32,
    out: *mut f32,
    stride: usize,
    rows: usize,
    some: usize,
) {
    let mut transposed = [0.0; LANES * LANES];
    // SAFETY: the caller's promise; no more numbers of a row are touched than there are.
    unsafe {
        Avx512::transpose(from, CHUNK as isize, 0..LANES, LANES, transposed.as_mut_ptr());
        for row in 0..rows {
            let to = out.add(row * stride);
            let sum = Avx512::load(transposed.as_ptr().add(row * LANES))
                .fma(Avx512::splat(scale), Avx512::load_first(to, some));
            sum.store_first(to, some);
        }
    }
}
