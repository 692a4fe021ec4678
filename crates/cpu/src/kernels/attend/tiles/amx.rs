//! The instructions of both products, and what lies before (`pack`) and between them (`terms`). One configuration serves both: a tile
//! of queries or of keys has sixteen lines of 64 bytes; a tile of probabilities has sixteen of 32, for the sixteen values of a page, which
//! are eight lines of 64, or twice that for two pages. A single query is a column: sixteen lines of 4 bytes, as are its scores.

use super::{
    BLOCK, DEPTH, Gathered, HeadRows, Mixtures, PAGE, PANEL, Queries, ScoredBlock, TERMS, TILE, TILES,
    VECTORS,
};
use crate::lanes::LANES;
use crate::lowp::{Tiles, apart};

mod pack;
mod terms;

pub(super) use pack::{merge, pair_values, quantize_row, quantize_rows};
pub(crate) use pack::{pack_keys, pack_values};
pub(super) use terms::online_softmax;
pub(crate) use terms::power;

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

    /// Sixteen queries, `stride` pairs apart, times the keys of four pages, `steps` tiles deep, to `[16, 64]` scores.
    ///
    /// # Safety
    /// Queries and pages are valid for reads at these sizes, `out` for writes.
    #[allow(clippy::unused_self)] // proof that the registers are configured
    pub unsafe fn dots(
        &self,
        queries: *const f32,
        stride: usize,
        keys: [*const f32; VECTORS],
        steps: usize,
        out: *mut f32,
    ) {
        // SAFETY: the caller's promise; there is one step at least.
        unsafe {
            apart!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:\n tileloadd tmm4, [{q} + {q_stride}]",
                "tileloadd tmm5, [{k0} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm5",
                "tileloadd tmm5, [{k1} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm5",
                "tileloadd tmm5, [{k2} + {line}]",
                "tdpbf16ps tmm2, tmm4, tmm5",
                "tileloadd tmm5, [{k3} + {line}]",
                "tdpbf16ps tmm3, tmm4, tmm5",
                "add {q}, 64\n add {k0}, 1024\n add {k1}, 1024\n add {k2}, 1024\n add {k3}, 1024\n dec {steps}\n jnz 2b",
                "tilestored [{out} + {out_stride}], tmm0",
                "tilestored [{out} + {out_stride} + 64], tmm1",
                "tilestored [{out} + {out_stride} + 128], tmm2",
                "tilestored [{out} + {out_stride} + 192], tmm3";
                q = inout(reg) queries => _,
                q_stride = in(reg) stride * 4,
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
                apart!(
                    "tilezero tmm2",
                    "2:\n tileloadd tmm4, [{k} + {k_stride}]",
                    "tileloadd tmm5, [{q} + {line}]",
                    "tdpbf16ps tmm2, tmm4, tmm5",
                    "add {k}, 64\n add {q}, 64\n dec {steps}\n jnz 2b",
                    "tilestored [{out} + {line}], tmm2";
                    k = inout(reg) page => _,
                    k_stride = in(reg) steps * 64,
                    q = inout(reg) query => _,
                    line = in(reg) 4_usize,
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
    /// Rows of `TERMS` pairs, of which these are some.
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
pub(super) unsafe fn mix_of_one(from: &Terms<'_>, mixed: Mixtures, panels: usize) {
    for panel in 0..panels {
        // SAFETY: the caller's promise.
        unsafe {
            let start = mixed.start.add(panel * LANES);
            mix_one(from, panel, Mixtures { start, stride: LANES, ..mixed });
        }
    }
}

/// Adds sixteen rows of terms times values to sixteen rows of mixtures, `panels` panels of sixteen columns, or begins them
/// where they are overwritten.
///
/// # Safety
/// The registers are [taken](Registers::take). Terms and pages are valid for reads, the mixtures for writes; there is one page
/// at least.
pub(super) unsafe fn mix(from: &Terms<'_>, mixed: Mixtures, panels: usize) {
    let mut panel = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let from_panel = |panel: usize| Mixtures { start: mixed.start.add(panel * LANES), ..mixed };
        while panel + 4 <= panels {
            mix_four(from, panel, from_panel(panel));
            panel += 4;
        }
        if panel + 2 <= panels {
            mix_two(from, panel, from_panel(panel));
            panel += 2;
        }
        if panel < panels {
            mix_one(from, panel, from_panel(panel));
        }
    }
}

/// Some panels, from this one on: what they hold, or zero, has terms times values added, and is stored.
macro_rules! mix_panels {
    ($name:ident: $($zero:literal),+; $($load:literal),+; $($step:literal),+; $($store:literal),+) => {
        /// # Safety
        /// As for [`mix`].
        unsafe fn $name(from: &Terms<'_>, panel: usize, mixed: Mixtures) {
            // SAFETY: the caller's promise.
            unsafe {
                apart!(
                    $($zero,)+
                    "test {overwrite:l}, {overwrite:l}\n jnz 2f",
                    $($load,)+
                    "2:\n mov {page}, [{pages}]\n add {page}, {offset}\n tileloadd tmm6, [{terms} + {terms_stride}]",
                    $($step,)+
                    "lea {terms}, [{terms} + 4 * {deep}]\n add {pages}, {deep}\n dec {count}\n jnz 2b",
                    $($store),+;
                    mixed = in(reg) mixed.start,
                    stride = in(reg) mixed.stride * 4,
                    overwrite = in(reg) usize::from(mixed.overwrite),
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
    "tdpbf16ps tmm0, tmm6, tmm7\n add {page}, {panel}";
    "tilestored [{mixed} + {stride}], tmm0");

mix_panels!(mix_two:
    "tilezero tmm0",
    "tilezero tmm1";
    "tileloadd tmm0, [{mixed} + {stride}]",
    "tileloadd tmm1, [{mixed} + {stride} + 64]";
    "tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm0, tmm6, tmm7",
    "add {page}, {panel}\n tileloadd tmm7, [{page} + {line}]",
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
    "add {page}, {panel}\n tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm1, tmm6, tmm7",
    "add {page}, {panel}\n tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm2, tmm6, tmm7",
    "add {page}, {panel}\n tileloadd tmm7, [{page} + {line}]",
    "tdpbf16ps tmm3, tmm6, tmm7";
    "tilestored [{mixed} + {stride}], tmm0",
    "tilestored [{mixed} + {stride} + 64], tmm1",
    "tilestored [{mixed} + {stride} + 128], tmm2",
    "tilestored [{mixed} + {stride} + 192], tmm3");
