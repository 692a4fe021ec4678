//! The instructions. One configuration serves both products: a tile of queries or of keys has sixteen lines of 64 bytes; a
//! tile of probabilities has sixteen of 32, for the sixteen values of a page, which are eight lines of 64. A single query is
//! a column: sixteen lines of 4 bytes, as are its scores.

use std::arch::asm;
use std::arch::x86_64::{
    __m512bh, __m512i, _CMP_NLT_UQ, _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtne2ps_pbh, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mask_storeu_epi16, _mm512_maskz_loadu_ps, _mm512_maskz_scalef_ps, _mm512_mul_ps,
    _mm512_permutexvar_epi16, _mm512_roundscale_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    _mm512_storeu_si512, _mm512_sub_ps,
};
use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::{DEPTH, PANEL, Queries, TILE, VECTORS};
use crate::lanes::LANES;
use crate::narrow::Tiles;

/// The tile registers of this thread, configured for attention.
pub(super) struct Registers(#[allow(dead_code)] Tiles);

/// Bytes of a page of one panel of values.
const PANEL_BYTES: usize = PANEL * 4;

impl Registers {
    /// # Safety
    /// The machine has AMX.
    pub unsafe fn take(shape: Queries) -> Self {
        let (lines, bytes) = match shape {
            Queries::Blocks => ([16, 16, 16, 16, 16, 16, 16, 8], [64, 64, 64, 64, 64, 64, 32, 64]),
            // Two panels of a mixture, two pages of scores, sixteen keys, a query, terms, values.
            Queries::Single => ([1, 1, 16, 16, 16, 16, 1, 8], [64, 64, 4, 4, 64, 4, 32, 64]),
        };
        // SAFETY: the caller's promise.
        Self(unsafe { Tiles::shaped(lines, bytes) })
    }

    /// Sixteen queries, `words` words apart, times the keys of four pages, `steps` tiles deep, to `[16, 64]` scores.
    ///
    /// # Safety
    /// Queries and pages are valid for reads at these sizes, `out` for writes.
    #[allow(clippy::unused_self)] // proof that the registers are configured
    pub unsafe fn dots(
        &self,
        (queries, words): (*const f32, usize),
        keys: [*const f32; VECTORS],
        steps: usize,
        out: *mut f32,
    ) {
        // SAFETY: the caller's promise; there is one step at least.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{q} + {q_stride}]",
                "tileloadd tmm5, [{k0} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm5",
                "tileloadd tmm5, [{k1} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm5",
                "tileloadd tmm5, [{k2} + {line}]",
                "tdpbf16ps tmm2, tmm4, tmm5",
                "tileloadd tmm5, [{k3} + {line}]",
                "tdpbf16ps tmm3, tmm4, tmm5",
                "add {q}, 64",
                "add {k0}, 1024",
                "add {k1}, 1024",
                "add {k2}, 1024",
                "add {k3}, 1024",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{out} + {out_stride}], tmm0",
                "tilestored [{out} + {out_stride} + 64], tmm1",
                "tilestored [{out} + {out_stride} + 128], tmm2",
                "tilestored [{out} + {out_stride} + 192], tmm3",
                q = inout(reg) queries => _,
                q_stride = in(reg) words * 4,
                k0 = inout(reg) keys[0] => _,
                k1 = inout(reg) keys[1] => _,
                k2 = inout(reg) keys[2] => _,
                k3 = inout(reg) keys[3] => _,
                line = in(reg) 64_usize,
                steps = inout(reg) steps => _,
                out = in(reg) out,
                out_stride = in(reg) TILE * 4,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm4") _, out("tmm5") _,
                options(nostack),
            );
        }
    }
}

impl Registers {
    /// The keys of `pages` times one query, `steps` tiles deep, to sixteen scores for each page.
    ///
    /// # Safety
    /// These registers are for a single query. It and the pages are valid for reads, `out` for writes.
    #[allow(clippy::unused_self)] // proof that the registers are configured
    pub unsafe fn dots_of_one(&self, query: *const f32, pages: &[*const f32], steps: usize, out: *mut f32) {
        for (v, &page) in pages.iter().enumerate() {
            // SAFETY: the caller's promise; there is one step at least.
            unsafe {
                asm!(
                    "tilezero tmm2",
                    "2:",
                    "tileloadd tmm4, [{k} + {k_stride}]",
                    "tileloadd tmm5, [{q} + {word}]",
                    "tdpbf16ps tmm2, tmm4, tmm5",
                    "add {k}, 64",
                    "add {q}, 64",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{out} + {word}], tmm2",
                    k = inout(reg) page => _,
                    k_stride = in(reg) steps * 64,
                    q = inout(reg) query => _,
                    word = in(reg) 4_usize,
                    steps = inout(reg) steps => _,
                    out = in(reg) out.add(v * LANES),
                    out("tmm2") _, out("tmm4") _, out("tmm5") _,
                    options(nostack),
                );
            }
        }
    }
}

/// Adds one row of terms times the values of `pages` to one mixture of `panels` panels.
///
/// # Safety
/// The registers are [taken](Registers::take) for a single query. Terms and pages are valid for reads, the mixture for
/// writes.
pub(super) unsafe fn mix_of_one(terms: *const f32, pages: &[*const f32], mixed: *mut f32, panels: usize) {
    for panel in 0..panels {
        // SAFETY: the caller's promise.
        unsafe { mix_one(terms, pages, panel * PANEL_BYTES, (mixed.add(panel * LANES), LANES)) };
    }
}

/// Adds sixteen rows of terms times the values of `pages` to sixteen rows of mixtures, `panels` panels of sixteen columns.
///
/// # Safety
/// The registers are [taken](Registers::take). Terms, `[16, 64]` in `bf16`, and pages are valid for reads, the mixtures for
/// writes; there is one page at least.
pub(super) unsafe fn mix(
    terms: *const f32,
    pages: &[*const f32],
    (mixed, stride): (*mut f32, usize),
    panels: usize,
) {
    let mut panel = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while panel + 4 <= panels {
            mix_four(terms, pages, panel * PANEL_BYTES, (mixed.add(panel * 16), stride));
            panel += 4;
        }
        if panel + 2 <= panels {
            mix_two(terms, pages, panel * PANEL_BYTES, (mixed.add(panel * 16), stride));
            panel += 2;
        }
        if panel < panels {
            mix_one(terms, pages, panel * PANEL_BYTES, (mixed.add(panel * 16), stride));
        }
    }
}

/// Some panels, `offset` bytes from the beginning of a page: what they hold is loaded, has the terms of each page times its
/// values added, and is stored.
macro_rules! mix_panels {
    ($name:ident: $($load:literal),+; $($step:literal),+; $($store:literal),+) => {
        /// # Safety
        /// As for [`mix`].
        unsafe fn $name(
            terms: *const f32,
            pages: &[*const f32],
            offset: usize,
            (mixed, stride): (*mut f32, usize),
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    $($load,)+
                    "2:",
                    "mov {page}, [{pages}]",
                    "add {page}, {offset}",
                    "tileloadd tmm6, [{terms} + {terms_stride}]",
                    $($step,)+
                    "add {terms}, 32",
                    "add {pages}, 8",
                    "dec {count}",
                    "jnz 2b",
                    $($store,)+
                    mixed = in(reg) mixed,
                    stride = in(reg) stride * 4,
                    pages = inout(reg) pages.as_ptr() => _,
                    page = out(reg) _,
                    offset = in(reg) offset,
                    terms = inout(reg) terms => _,
                    terms_stride = in(reg) TILE * 2,
                    line = in(reg) 64_usize,
                    count = inout(reg) pages.len() => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

mix_panels!(mix_one:
    "tileloadd tmm0, [{mixed} + {stride}]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7";
    "tilestored [{mixed} + {stride}], tmm0");

mix_panels!(mix_two:
    "tileloadd tmm0, [{mixed} + {stride}]",
    "tileloadd tmm1, [{mixed} + {stride} + 64]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "tileloadd tmm7, [{page} + {line} + 512]",
    "tdpbf16ps tmm1, tmm6, tmm7";
    "tilestored [{mixed} + {stride}], tmm0",
    "tilestored [{mixed} + {stride} + 64], tmm1");

mix_panels!(mix_four:
    "tileloadd tmm0, [{mixed} + {stride}]",
    "tileloadd tmm1, [{mixed} + {stride} + 64]",
    "tileloadd tmm2, [{mixed} + {stride} + 128]",
    "tileloadd tmm3, [{mixed} + {stride} + 192]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "tileloadd tmm7, [{page} + {line} + 512]",
    "tdpbf16ps tmm1, tmm6, tmm7",
    "tileloadd tmm7, [{page} + {line} + 1024]",
    "tdpbf16ps tmm2, tmm6, tmm7",
    "tileloadd tmm7, [{page} + {line} + 1536]",
    "tdpbf16ps tmm3, tmm6, tmm7";
    "tilestored [{mixed} + {stride}], tmm0",
    "tilestored [{mixed} + {stride} + 64], tmm1",
    "tilestored [{mixed} + {stride} + 128], tmm2",
    "tilestored [{mixed} + {stride} + 192], tmm3");

/// The places of sixteen numbers and sixteen others, taken in turns.
const TURNS: [u16; 2 * LANES] = {
    let mut turns = [0; 2 * LANES];
    let mut i = 0;
    while i < LANES {
        turns[2 * i] = i as u16;
        turns[2 * i + 1] = (LANES + i) as u16;
        i += 1;
    }
    turns
};

/// The first `some` lanes, at most sixteen.
fn first(some: usize) -> u16 {
    ((1_u32 << some.min(LANES)) - 1) as u16
}

/// A row of `size` numbers times `scale`, in words, with zeros behind its end.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the row is valid for reads, `to` for writes of a multiple of sixteen words.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn narrow_row(
    (from, size): (*const f32, usize),
    scale: f32,
    (to, words): (*mut f32, usize),
) {
    let scale = _mm512_set1_ps(scale);
    for step in 0..words / LANES {
        let d = step * DEPTH;
        let (low, high) = (first(size - d.min(size)), first(size - (d + LANES).min(size)));
        // SAFETY: the caller's promise; lanes beyond the row are not read.
        unsafe {
            let low = _mm512_mul_ps(_mm512_maskz_loadu_ps(low, from.wrapping_add(d)), scale);
            let high = _mm512_mul_ps(_mm512_maskz_loadu_ps(high, from.wrapping_add(d + LANES)), scale);
            _mm512_storeu_si512(to.add(step * LANES).cast(), bits(_mm512_cvtne2ps_pbh(high, low)));
        }
    }
}

/// exp(score − level) of those vectors of sixty-four scores, in words, with zeros in the others; what they are is added to the
/// sums, lane by lane.
///
/// With 2ᵗ for eˣ, t = n + f and |f| ≤ ½, 2ᶠ is a polynomial within 8e-5: the terms are rounded to eight bits.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; there are so many scores to read, sixteen sums, and words to write.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn soften(
    from: *const f32,
    (vectors, level): (Range<usize>, f32),
    sums: *mut f32,
    to: *mut f32,
) {
    /// As for a softmax in `f32`, what is below e^−80 is zero, and exactly so.
    const LEAST: f32 = -80.0 * LOG2_E;
    const P: [f32; 4] = [0.999_928_06, 0.693_260_97, 0.242_611_14, 0.055_171_67];
    let (power, start) = (_mm512_set1_ps(LOG2_E), _mm512_set1_ps(-level * LOG2_E));
    let [p0, p1, p2, p3] = P.map(|p| _mm512_set1_ps(p));
    // SAFETY: the caller's promise; lanes that are not wanted are not read.
    unsafe {
        let mut sum = _mm512_loadu_ps(sums);
        for half in 0..VECTORS / 2 {
            let mut terms = [_mm512_setzero_ps(); 2];
            for (v, term) in terms.iter_mut().enumerate() {
                if !vectors.contains(&(2 * half + v)) {
                    continue;
                }
                let score = _mm512_loadu_ps(from.add((2 * half + v) * LANES));
                let t = _mm512_fmadd_ps(score, power, start);
                let n = _mm512_roundscale_ps::<8>(t);
                let f = _mm512_sub_ps(t, n);
                let p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(p3, f, p2), f, p1), f, p0);
                // Not below: what is no number stays none.
                let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(t, _mm512_set1_ps(LEAST));
                *term = _mm512_maskz_scalef_ps(there, p, n);
                sum = _mm512_add_ps(sum, *term);
            }
            _mm512_storeu_si512(to.add(half * LANES).cast(), bits(_mm512_cvtne2ps_pbh(terms[1], terms[0])));
        }
        _mm512_storeu_ps(sums, sum);
    }
}

/// `some` numbers from `d` on of two rows, those of the first below, and zeros for a row that is null.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the rows are valid for reads, `to` for writes of sixteen words.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn narrow_pair(rows: [*const f32; 2], (d, some): (usize, usize), to: *mut f32) {
    // SAFETY: the caller's promise; lanes that are not wanted are not read.
    unsafe {
        let [low, high] = rows.map(|row| {
            if row.is_null() {
                _mm512_setzero_ps()
            } else {
                _mm512_maskz_loadu_ps(first(some), row.wrapping_add(d))
            }
        });
        let turns = std::mem::transmute::<[u16; 2 * LANES], __m512i>(TURNS);
        let words = _mm512_permutexvar_epi16(turns, bits(_mm512_cvtne2ps_pbh(high, low)));
        _mm512_storeu_si512(to.cast(), words);
    }
}

/// Writes `some` numbers into the lower (0) or the upper (1) halves of the words of a line.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the numbers are valid for reads, the line for writes.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn merge(from: *const f32, some: usize, half: usize, line: *mut f32) {
    let halves = 0x5555_5555_u32 << half;
    // SAFETY: the caller's promise; lanes that are not wanted are neither read nor written.
    unsafe {
        let numbers = _mm512_maskz_loadu_ps(first(some), from);
        let turns = std::mem::transmute::<[u16; 2 * LANES], __m512i>(TURNS);
        let words = _mm512_permutexvar_epi16(turns, bits(_mm512_cvtne2ps_pbh(numbers, numbers)));
        _mm512_mask_storeu_epi16(line.cast(), halves, words);
    }
}

/// The same bits.
#[target_feature(enable = "avx512f")]
fn bits(numbers: __m512bh) -> __m512i {
    // SAFETY: both are 512 bits, and any bits will do.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(numbers) }
}
