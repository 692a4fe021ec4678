//! What this machine can do at most, measured: what measurements are compared with.
//!
//! A machine may be shared with others, and its clock follows its load: measure a ceiling in the same round as what is
//! held against it.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::dispatch;
use crate::isa::Isa;
use crate::lanes::{LANES, Lanes};
use crate::lowp::{Dot, Format, alone};
use crate::team::Team;

/// Multiply-adds of `f32` in a second, on registers alone.
///
/// # Panics
/// If this machine does not have `isa`.
pub fn multiply_adds(isa: Isa, team: &Team) -> f64 {
    const STEPS: usize = 1_500_000;
    assert!(isa.is_available(), "this machine does not have {isa}");
    // As many chains as fit into the registers.
    let chains = if isa == Isa::Avx512 { 16 } else { 5 };
    let seconds = timed(|| {
        team.run(&|_| {
            // SAFETY: `isa` is available.
            black_box(unsafe {
                match chains {
                    16 => dispatch!(isa, |L| multiply_add::<L, 16>(STEPS)),
                    _ => dispatch!(isa, |L| multiply_add::<L, 5>(STEPS)),
                }
            });
        });
    });
    (STEPS * chains * LANES * team.size()) as f64 / seconds
}

/// # Safety
/// The machine has `L`'s instructions.
#[inline(always)]
unsafe fn multiply_add<L: Lanes, const CHAINS: usize>(steps: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let (x, y) = (L::splat(black_box(0.999)), L::splat(black_box(0.001)));
        let mut sums = [L::zero(); CHAINS];
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = L::splat(i as f32);
        }
        for _ in 0..steps {
            for sum in &mut sums {
                // Onto the sum: NEON has no other form, and would copy `y` first.
                *sum = x.fma(y, *sum);
            }
        }
        let mut total = L::zero();
        for sum in sums {
            total = total + sum;
        }
        total.sum()
    }
}

/// Numbers of `numbers` read in a second, `times` over, each worker reading its part in four places at once: in one place,
/// the machine's prefetching keeps up less well.
///
/// # Panics
/// If this machine does not have `isa`.
pub fn reading(isa: Isa, team: &Team, numbers: &[f32], times: usize) -> f64 {
    assert!(isa.is_available(), "this machine does not have {isa}");
    let part = numbers.len() / team.size();
    let seconds = timed(|| {
        team.run(&|worker| {
            let part = &numbers[worker.index * part..][..part];
            for _ in 0..times {
                // SAFETY: `isa` is available, and the part lies inside the numbers.
                black_box(unsafe { dispatch!(isa, add_up(part.as_ptr(), part.len())) });
            }
        });
    });
    (part * team.size() * times) as f64 / seconds
}

/// # Safety
/// The machine has `L`'s instructions; `from` is valid for `count` reads.
#[inline(always)]
unsafe fn add_up<L: Lanes>(from: *const f32, count: usize) -> f32 {
    let quarter = count / (4 * LANES) * LANES;
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [L::zero(); 4];
        for i in (0..quarter / LANES).map(|i| i * LANES) {
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = *sum + L::load(from.add(j * quarter + i));
            }
        }
        (sums[0] + sums[1] + sums[2] + sums[3]).sum()
    }
}

/// Operations in a second of the instruction that multiplies low-precision numbers, on registers alone, two for each multiply-add. None where
/// they are converted to `f32` first, or take several instructions: then multiply-adds of `f32` are as fast.
///
/// # Panics
/// If this machine does not have `dot`.
pub fn lowp(dot: Dot, format: Format, team: &Team) -> Option<f64> {
    const STEPS: usize = 1_500_000;
    assert!(dot.is_available(), "this machine does not have {dot}");
    #[cfg(target_arch = "x86_64")]
    if dot == Dot::Amx {
        // SAFETY: this machine has AMX.
        return Some(unsafe { tiles(format, team) });
    }
    let done = AtomicUsize::new(0);
    let seconds = timed(|| {
        team.run(&|_| {
            // SAFETY: this machine has the instructions.
            let some = unsafe { alone(dot, format, STEPS) };
            done.fetch_add(some.unwrap_or(0), Ordering::Relaxed);
        });
    });
    let done = done.into_inner();
    (done > 0).then(|| 2.0 * done as f64 / seconds)
}

/// The same by AMX.
///
/// # Safety
/// The machine has AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn tiles(format: Format, team: &Team) -> f64 {
    use crate::lowp::{Tiles, apart};
    const STEPS: usize = 20_000;
    macro_rules! multiply {
        ($name:literal) => {
            apart!(
                "tilezero tmm4", "tilezero tmm5", "tilezero tmm6", "tilezero tmm7",
                concat!("2:\n ", $name, " tmm0, tmm4, tmm6"),
                concat!($name, " tmm1, tmm4, tmm7"),
                concat!($name, " tmm2, tmm5, tmm6"),
                concat!($name, " tmm3, tmm5, tmm7"),
                "dec {}\n jnz 2b";
                inout(reg) STEPS => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            )
        };
    }
    let seconds = timed(|| {
        // SAFETY: the caller's promise; only registers change, which are whole tiles.
        team.run(&|_| unsafe {
            let _tiles = Tiles::shaped([16; 8], [64; 8]);
            match format {
                Format::Bf16 => multiply!("tdpbf16ps"),
                Format::Int8 | Format::Int4 => multiply!("tdpbssd"),
            }
        });
    });
    let each = match format {
        Format::Bf16 => 2 * 16 * 16 * 32,
        Format::Int8 | Format::Int4 => 2 * 16 * 16 * 64,
    };
    (STEPS * 4 * each * team.size()) as f64 / seconds
}

fn timed(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    #[test]
    fn ceilings_are_positive_and_those_of_low_precision_are_told_where_there_are_some() {
        let team = Team::new(NonZeroUsize::MIN);
        assert!(multiply_adds(Isa::best(), &team) > 0.0);
        assert!(reading(Isa::best(), &team, &vec![0.0; 4096], 2) > 0.0);
        for dot in Dot::available() {
            let [bf16, integers, codes] = Format::ALL.map(|format| lowp(dot, format, &team));
            assert_eq!(bf16.is_some(), matches!(dot, Dot::Avx512Dot | Dot::Amx), "{dot}");
            let no_integers = matches!(dot, Dot::Scalar | Dot::Neon | Dot::Avx2 | Dot::Avx512);
            assert_eq!(integers.is_none(), no_integers, "{dot}");
            assert_eq!(codes.is_none(), no_integers, "{dot}");
            assert!([bf16, integers, codes].into_iter().flatten().all(|rate| rate > 0.0), "{dot}");
        }
    }
}
