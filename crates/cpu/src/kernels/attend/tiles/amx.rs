//! The instructions. One configuration serves both products: a tile of queries or of keys has sixteen lines of 64 bytes; a
//! tile of probabilities has sixteen of 32, for the sixteen values of a page, which are eight lines of 64, or twice that for two
//! pages. A single query is a column: sixteen lines of 4 bytes, as are its scores.

use std::arch::asm;
use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _CMP_GT_OQ, _CMP_LT_OQ, _CMP_NLT_UQ, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm512_add_ps, _mm512_castsi256_si512, _mm512_cmp_ps_mask, _mm512_cvtne2ps_pbh, _mm512_fmadd_ps,
    _mm512_fmsub_ps, _mm512_inserti64x4, _mm512_loadu_ps, _mm512_mask_storeu_epi16, _mm512_maskz_loadu_ps,
    _mm512_maskz_scalef_ps, _mm512_max_ps, _mm512_mul_ps, _mm512_permutexvar_epi16, _mm512_reduce_max_ps,
    _mm512_roundscale_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps, _mm512_storeu_si512,
    _mm512_sub_ps,
};
use std::f32::consts::LOG2_E;
use std::ops::Range;

use super::super::machine::Machine;
use super::super::soften::{LEAST, SLACK};
use super::{BLOCK, DEPTH, Gathered, Met, PAGE, PANEL, Queries, TERMS, TILE, TILES, VECTORS};
use crate::lanes::{Avx512, LANES, Lanes, exp};
use crate::narrow::Tiles;

/// The tile registers of this thread, configured for attention.
pub(super) struct Registers(#[allow(dead_code)] Tiles);

impl Registers {
    /// # Safety
    /// The machine has AMX.
    pub unsafe fn take(shape: Queries) -> Self {
        let (lines, bytes) = match shape {
            Queries::Blocks => ([16, 16, 16, 16, 16, 16, 16, 8], [64, 64, 64, 64, 64, 64, 32, 64]),
            Queries::Deep => ([16; 8], [64; 8]),
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

/// Terms, and the values that they belong to.
pub(super) struct Terms<'a> {
    /// Rows of `TERMS` words, of which these are some.
    pub first: *const f32,
    /// Pages of values, of sixteen terms each.
    pub values: &'a [*const f32],
    /// How many pages are one.
    pub pages: usize,
}

impl Terms<'_> {
    /// The bytes from a panel to the next.
    fn panel(&self) -> usize {
        self.pages * PANEL * 4
    }
}

/// Adds one row of terms times values to one mixture of `panels` panels, or begins it.
///
/// # Safety
/// The registers are [taken](Registers::take) for a single query. Terms and pages are valid for reads, the mixture for
/// writes.
pub(super) unsafe fn mix_of_one(from: &Terms<'_>, (mixed, fresh): (*mut f32, bool), panels: usize) {
    for panel in 0..panels {
        // SAFETY: the caller's promise.
        unsafe { mix_one(from, panel, ((mixed.add(panel * LANES), LANES), fresh)) };
    }
}

/// Adds sixteen rows of terms times values to sixteen rows of mixtures, `panels` panels of sixteen columns, or begins them
/// where they are fresh.
///
/// # Safety
/// The registers are [taken](Registers::take). Terms and pages are valid for reads, the mixtures for writes; there is one page
/// at least.
pub(super) unsafe fn mix(
    from: &Terms<'_>,
    ((mixed, stride), fresh): ((*mut f32, usize), bool),
    panels: usize,
) {
    let mut panel = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while panel + 4 <= panels {
            mix_four(from, panel, ((mixed.add(panel * LANES), stride), fresh));
            panel += 4;
        }
        if panel + 2 <= panels {
            mix_two(from, panel, ((mixed.add(panel * LANES), stride), fresh));
            panel += 2;
        }
        if panel < panels {
            mix_one(from, panel, ((mixed.add(panel * LANES), stride), fresh));
        }
    }
}

/// Some panels, from this one on: what they hold, or zero, has terms times values added, and is stored.
macro_rules! mix_panels {
    ($name:ident: $($zero:literal),+; $($load:literal),+; $($step:literal),+; $($store:literal),+) => {
        /// # Safety
        /// As for [`mix`].
        unsafe fn $name(from: &Terms<'_>, panel: usize, ((mixed, stride), fresh): ((*mut f32, usize), bool)) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    $($zero,)+
                    "test {fresh:l}, {fresh:l}",
                    "jnz 2f",
                    $($load,)+
                    "2:",
                    "mov {page}, [{pages}]",
                    "add {page}, {offset}",
                    "tileloadd tmm6, [{terms} + {terms_stride}]",
                    $($step,)+
                    "lea {terms}, [{terms} + 4 * {deep}]",
                    "add {pages}, {deep}",
                    "dec {count}",
                    "jnz 2b",
                    $($store,)+
                    mixed = in(reg) mixed,
                    stride = in(reg) stride * 4,
                    fresh = in(reg) usize::from(fresh),
                    pages = inout(reg) from.values.as_ptr() => _,
                    page = out(reg) _,
                    offset = in(reg) panel * from.panel(),
                    panel = in(reg) from.panel(),
                    terms = inout(reg) from.first => _,
                    terms_stride = in(reg) TERMS * 4,
                    line = in(reg) 64_usize,
                    deep = in(reg) from.pages * 8,
                    count = inout(reg) from.values.len().div_ceil(from.pages) => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

mix_panels!(mix_one:
    "tilezero tmm0";
    "tileloadd tmm0, [{mixed} + {stride}]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "add {page}, {panel}";
    "tilestored [{mixed} + {stride}], tmm0");

mix_panels!(mix_two:
    "tilezero tmm0",
    "tilezero tmm1";
    "tileloadd tmm0, [{mixed} + {stride}]",
    "tileloadd tmm1, [{mixed} + {stride} + 64]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "add {page}, {panel}",
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm1, tmm6, tmm7";
    "tilestored [{mixed} + {stride}], tmm0",
    "tilestored [{mixed} + {stride} + 64], tmm1");

mix_panels!(mix_four:
    "tilezero tmm0",
    "tilezero tmm1",
    "tilezero tmm2",
    "tilezero tmm3";
    "tileloadd tmm0, [{mixed} + {stride}]",
    "tileloadd tmm1, [{mixed} + {stride} + 64]",
    "tileloadd tmm2, [{mixed} + {stride} + 128]",
    "tileloadd tmm3, [{mixed} + {stride} + 192]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "add {page}, {panel}",
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm1, tmm6, tmm7",
    "add {page}, {panel}",
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm2, tmm6, tmm7",
    "add {page}, {panel}",
    "tileloadd tmm7, [{page} + {line}]",
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

/// Sixteen numbers of a row of `size` from `d` on, zeros behind its end.
///
/// # Safety
/// The row is valid for reads.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn some(row: *const f32, (d, size): (usize, usize)) -> __m512 {
    // SAFETY: the caller's promise; lanes beyond the row are not read.
    unsafe {
        if d + LANES <= size {
            _mm512_loadu_ps(row.add(d))
        } else {
            _mm512_maskz_loadu_ps(first(size - d.min(size)), row.wrapping_add(d))
        }
    }
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
        // SAFETY: the caller's promise; lanes beyond the row are not read.
        unsafe {
            let [low, high] = [d, d + LANES].map(|d| some(from, (d, size)));
            let (low, high) = (_mm512_mul_ps(low, scale), _mm512_mul_ps(high, scale));
            _mm512_storeu_si512(to.add(step * LANES).cast(), together([low, high]));
        }
    }
}

/// So many rows of `size` numbers, `stride` apart, times `scale`, in words, with zeros behind their ends.
///
/// # Safety
/// As for [`narrow_row`], for each.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn narrow_rows(
    (from, stride): (*const f32, usize),
    (rows, size): (usize, usize),
    scale: f32,
    (to, words): (*mut f32, usize),
) {
    for row in 0..rows {
        // SAFETY: the caller's promise.
        unsafe { narrow_row((from.add(row * stride), size), scale, (to.add(row * words), words)) };
    }
}

/// Up to sixteen keys of `size` numbers, `stride` apart, times `scale`, as a page, turned.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the keys are valid for reads, the page for writes.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
pub(crate) unsafe fn pack_keys(
    (from, stride, count): (*const f32, usize, usize),
    size: usize,
    scale: f32,
    to: *mut f32,
) {
    let mut narrowed = [0.0; PAGE * LANES];
    for (step, d) in (0..size).step_by(DEPTH).enumerate() {
        let some = (size - d).min(DEPTH);
        // SAFETY: the caller's promise; a tile of keys is sixteen lines of sixteen words.
        unsafe {
            let (words, lines) = (narrowed.as_mut_ptr(), to.add(step * PAGE * LANES));
            narrow_rows((from.add(d), stride), (count, some), scale, (words, LANES));
            Avx512::turn(words, LANES as isize, 0..count, LANES, lines);
        }
    }
}

/// From scores to terms of the softmax, exp(score − level), in words; zero where a row sees nothing. Terms are added to the sums, lane
/// by lane.
///
/// A level keeps terms from being too large for a float, or all of them too small, and need not be near the largest score. So rows
/// begin at level 0, which costs nothing, and are looked through for another one only where their sums ask for it.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; there are scores of all rows and vectors that are seen, and words to write for them.
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn soften(met: &Met<'_>, gathered: &mut Gathered<'_>, terms: *mut f32) {
    for row in 0..met.rows.len() {
        // SAFETY: the caller's promise.
        unsafe {
            let scores = met.scores.as_ptr().add(row * TILE);
            let to = terms.add(row * TERMS);
            let sums = gathered.sums[row * LANES..][..LANES].as_mut_ptr();
            let before = if gathered.fresh { _mm512_setzero_ps() } else { _mm512_loadu_ps(sums) };
            let level = gathered.levels[row];
            if level == 0.0 || level == f32::NEG_INFINITY {
                let sum = terms_of_row(scores, &met.seen, (to, before), |score| at_level_zero(score));
                if is_sound(sum) {
                    gathered.levels[row] = 0.0;
                    _mm512_storeu_ps(sums, sum);
                    continue;
                }
            }
            _mm512_storeu_ps(sums, before);
            let largest = largest(scores, &met.seen);
            if largest - (level + SLACK) > 0.0 {
                raise(gathered, row, largest);
            }
            // Where a row sees nothing, zeros are written already.
            let level = gathered.levels[row];
            if level != f32::NEG_INFINITY {
                let before = _mm512_loadu_ps(sums);
                let sum = terms_of_row(scores, &met.seen, (to, before), |score| exponential(score, level));
                _mm512_storeu_ps(sums, sum);
            }
        }
    }
}

/// Writes the terms of a row, in words, and adds them to the sum.
///
/// # Safety
/// As for [`soften`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn terms_of_row(
    scores: *const f32,
    seen: &Range<usize>,
    (to, mut sum): (*mut f32, __m512),
    term: impl Fn(__m512) -> __m512,
) -> __m512 {
    let mut v = seen.start & !1;
    while v < seen.end {
        // SAFETY: the caller's promise. Two neighbours stand side by side.
        unsafe {
            let from = scores.add(place(v));
            let mut pair = [_mm512_setzero_ps(); 2];
            for (half, pair) in pair.iter_mut().enumerate() {
                if seen.contains(&(v + half)) {
                    *pair = term(_mm512_loadu_ps(from.add(half * LANES)));
                    sum = _mm512_add_ps(sum, *pair);
                }
            }
            _mm512_storeu_si512(to.add(v * LANES / 2).cast(), together(pair));
        }
        v += 2;
    }
    sum
}

/// Whether no term was too large for a float, and they are not all too small.
#[inline]
#[target_feature(enable = "avx512f")]
fn is_sound(sum: __m512) -> bool {
    const MOST: f32 = 1e30;
    _mm512_cmp_ps_mask::<_CMP_LT_OQ>(sum, _mm512_set1_ps(MOST)) == 0xffff
        && _mm512_cmp_ps_mask::<_CMP_GT_OQ>(sum, _mm512_set1_ps(1.0 / MOST)) != 0
}

/// The largest score of a row. What is no number is passed over.
///
/// # Safety
/// As for [`soften`].
#[target_feature(enable = "avx512f")]
unsafe fn largest(scores: *const f32, seen: &Range<usize>) -> f32 {
    let mut largest = _mm512_set1_ps(f32::NEG_INFINITY);
    for v in seen.clone() {
        // SAFETY: the caller's promise.
        largest = unsafe { _mm512_max_ps(_mm512_loadu_ps(scores.add(place(v))), largest) };
    }
    _mm512_reduce_max_ps(largest)
}

/// Where vector `v` of a stretch stands, after the first of its row.
#[inline(always)]
#[allow(clippy::inline_always)] // so that it has the instructions of its caller
fn place(v: usize) -> usize {
    debug_assert!(v < TILES * VECTORS);
    v / VECTORS * (BLOCK * TILE) + v % VECTORS * LANES
}

/// exp(score − level), as a term.
#[inline]
#[target_feature(enable = "avx512f")]
fn exponential(score: __m512, level: f32) -> __m512 {
    power(_mm512_fmadd_ps(score, _mm512_set1_ps(LOG2_E), _mm512_set1_ps(-level * LOG2_E)))
}

/// exp(score), as a term. To a number so large that there is nothing behind the point an integer is added, and taken off again.
#[inline]
#[target_feature(enable = "avx512f")]
fn at_level_zero(score: __m512) -> __m512 {
    const POINT: f32 = 12_582_912.0; // 1.5 · 2²³
    let (unit, point) = (_mm512_set1_ps(LOG2_E), _mm512_set1_ps(POINT));
    let n = _mm512_sub_ps(_mm512_fmadd_ps(score, unit, point), point);
    let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(score, _mm512_set1_ps(LEAST));
    scaled(_mm512_fmsub_ps(score, unit, n), n, there)
}

/// 2ᵗ, as a term: as for a softmax in `f32`, what is below e^−80 is zero, and exactly so.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn power(t: __m512) -> __m512 {
    let n = _mm512_roundscale_ps::<8>(t);
    // Not below: what is no number stays none.
    let there = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(t, _mm512_set1_ps(LEAST * LOG2_E));
    scaled(_mm512_sub_ps(t, n), n, there)
}

/// 2ᶠ · 2ⁿ, |f| ≤ ½, or zero: 2ᶠ is a polynomial within 8e-5, since terms are rounded to eight bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn scaled(f: __m512, n: __m512, there: u16) -> __m512 {
    const P: [f32; 4] = [0.999_928_06, 0.693_260_97, 0.242_611_14, 0.055_171_67];
    let [p0, p1, p2, p3] = P.map(|p| _mm512_set1_ps(p));
    let p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(p3, f, p2), f, p1), f, p0);
    _mm512_maskz_scalef_ps(there, p, n)
}

/// Raises the level of a row, and shrinks what was gathered below it.
///
/// # Safety
/// The machine has AVX-512.
#[inline(never)]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn raise(gathered: &mut Gathered<'_>, row: usize, largest: f32) {
    let level = std::mem::replace(&mut gathered.levels[row], largest);
    if gathered.fresh || level == f32::NEG_INFINITY {
        return;
    }
    let sums = gathered.sums[row * LANES..][..LANES].chunks_exact_mut(LANES);
    let mixed = gathered.mixed[row * gathered.stride..][..gathered.stride].chunks_exact_mut(LANES);
    // SAFETY: the caller's promise; all are whole vectors.
    unsafe {
        let factor = exp(Avx512::splat(level - largest));
        for vector in sums.chain(mixed) {
            (Avx512::load(vector.as_ptr()) * factor).store(vector.as_mut_ptr());
        }
    }
}

/// Values of `size` numbers, `stride` apart, times `scale`, as so many pages in one, with zeros behind the last.
///
/// # Safety
/// The machine has AVX-512 BW and BF16; the values are valid for reads, `to` for writes.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn pack_values(
    (from, stride, count): (*const f32, usize, usize),
    (size, pages): (usize, usize),
    scale: f32,
    to: *mut f32,
) {
    let scale = _mm512_set1_ps(scale);
    for pair in 0..pages * PAGE / 2 {
        for panel in 0..size.div_ceil(LANES) {
            // SAFETY: the caller's promise; rows that are not there are not read.
            unsafe {
                let mut rows = [_mm512_setzero_ps(); 2];
                for (half, row) in rows.iter_mut().enumerate() {
                    if 2 * pair + half < count {
                        let row_at = from.add((2 * pair + half) * stride);
                        *row = _mm512_mul_ps(some(row_at, (panel * LANES, size)), scale);
                    }
                }
                let to = to.add(panel * pages * PANEL + pair * LANES);
                _mm512_storeu_si512(to.cast(), self::pair(rows));
            }
        }
    }
}

/// The same of values that are narrow, `stride` words apart, and whole panels.
///
/// # Safety
/// As for [`pack_values`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pair_values(
    (from, stride, count): (*const f32, usize, usize),
    (size, pages): (usize, usize),
    to: *mut f32,
) {
    // SAFETY: any bits will do.
    let turns = unsafe { std::mem::transmute::<[u16; 2 * LANES], __m512i>(TURNS) };
    for pair in 0..pages * PAGE / 2 {
        for panel in 0..size / LANES {
            // SAFETY: the caller's promise; rows that are not there are not read.
            unsafe {
                let row = |row: usize| {
                    let at = from.wrapping_add(row * stride + panel * LANES / 2);
                    if row < count { _mm256_loadu_si256(at.cast()) } else { _mm256_setzero_si256() }
                };
                let low = _mm512_castsi256_si512(row(2 * pair));
                let both = _mm512_inserti64x4::<1>(low, row(2 * pair + 1));
                let to = to.add(panel * pages * PANEL + pair * LANES);
                _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi16(turns, both));
            }
        }
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
        _mm512_mask_storeu_epi16(line.cast(), halves, pair([numbers, numbers]));
    }
}

/// Numbers and those that follow them, in words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) fn together([low, high]: [__m512; 2]) -> __m512i {
    bits(_mm512_cvtne2ps_pbh(high, low))
}

/// Numbers of two rows in turns: those of the first are the lower halves of words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) fn pair(rows: [__m512; 2]) -> __m512i {
    // SAFETY: any bits will do.
    let turns = unsafe { std::mem::transmute::<[u16; 2 * LANES], __m512i>(TURNS) };
    _mm512_permutexvar_epi16(turns, together(rows))
}

/// The same bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn bits(numbers: __m512bh) -> __m512i {
    // SAFETY: both are 512 bits, and any bits will do.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(numbers) }
}
