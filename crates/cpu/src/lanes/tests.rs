//! Every implementation against plain Rust, the maths against `f64`.

use super::*;
use crate::dispatch;
use crate::isa::Isa;
use glassformer_tensor::Random;

/// Applies a function of lanes to every number, on each instruction set, and hands over (isa, results).
macro_rules! each_isa {
    ($numbers:expr, |$x:ident| $body:expr, $check:expr) => {
        for isa in Isa::available() {
            let mut results = $numbers.clone();
            // SAFETY: `isa` is available; the slice is cut into whole lanes.
            unsafe {
                dispatch!(isa, |L| apply::<L>(
                    &mut results,
                    #[inline(always)]
                    |$x| $body
                ))
            };
            $check(isa, results);
        }
    };
}

#[inline(always)]
unsafe fn apply<L: Lanes>(numbers: &mut [f32], f: impl Fn(L) -> L) {
    let (chunks, rest) = numbers.as_chunks_mut::<LANES>();
    assert!(rest.is_empty());
    for chunk in chunks {
        // SAFETY: a chunk has sixteen numbers; the caller promises the instructions.
        unsafe { f(L::load(chunk.as_ptr())).store(chunk.as_mut_ptr()) };
    }
}

/// Every 1013th `f32` there is: both signs, subnormal, infinite and NaN.
fn everywhere() -> Vec<f32> {
    let mut numbers: Vec<f32> = (0..=u32::MAX).step_by(1013).map(f32::from_bits).collect();
    numbers.extend([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1.0, -1.0]);
    numbers.resize(numbers.len().next_multiple_of(LANES), 1.0);
    numbers
}

/// Numbers from `low` to `high`, evenly spaced.
fn between(low: f32, high: f32) -> Vec<f32> {
    let count = 1 << 20;
    (0..count).map(|i| low + (high - low) * (i as f32 / count as f32)).collect()
}

/// How many units in the last place of the expected `f32` lie between the two.
fn ulps(found: f32, expected: f64) -> f64 {
    let nearest = expected as f32;
    if found == nearest || (found.is_nan() && nearest.is_nan()) {
        return 0.0;
    }
    if !found.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    let unit = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
    (f64::from(found) - expected).abs() / unit
}

/// The worst error of `results` must stay below `bound` ulp.
fn check_ulps(name: &str, numbers: &[f32], exact: fn(f64) -> f64, bound: f64) -> impl Fn(Isa, Vec<f32>) {
    let expected: Vec<f64> = numbers.iter().map(|&x| exact(f64::from(x))).collect();
    let (name, numbers) = (name.to_owned(), numbers.to_vec());
    move |isa, results| {
        let mut worst = (0.0, 0.0, 0.0, 0.0);
        for ((&x, &y), &e) in numbers.iter().zip(&results).zip(&expected) {
            let error = ulps(y, e);
            if error > worst.0 {
                worst = (error, x, y, e as f32);
            }
        }
        let (error, x, y, e) = worst;
        println!("{name} on {isa}: {error:.2} ulp at {x:e}");
        assert!(error <= bound, "{name}({x:e}) on {isa} is {y:e}, not {e:e}: {error} ulp");
    }
}

/// erf by its series near zero and by the continued fraction of erfc further out.
fn erf_exact(x: f64) -> f64 {
    let y = x.abs();
    if x.is_nan() {
        return x;
    }
    let value = if y < 2.5 {
        let (mut term, mut sum, mut n) = (y, y, 0.0);
        while term.abs() > sum.abs() * 1e-18 {
            n += 1.0;
            term *= -y * y / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else if y < 6.0 {
        let fraction = (1..=60).rev().fold(y, |f, k| y + f64::from(k) / 2.0 / f);
        1.0 - (-y * y).exp() * std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
    } else {
        1.0
    };
    value.copysign(x)
}

#[test]
fn exp_is_exact_to_one_ulp() {
    for numbers in [everywhere(), between(-105.0, 90.0), between(-1.0, 1.0)] {
        each_isa!(numbers, |x| exp(x), check_ulps("exp", &numbers, f64::exp, 1.0));
    }
}

#[test]
fn ln_is_exact_to_one_ulp() {
    for numbers in [everywhere(), between(0.5, 2.0)] {
        each_isa!(numbers, |x| ln(x), check_ulps("ln", &numbers, f64::ln, 1.0));
    }
}

#[test]
fn tanh_is_exact_to_two_ulps_and_within_one() {
    for numbers in [everywhere(), between(-10.0, 10.0)] {
        each_isa!(numbers, |x| tanh(x), |isa, results: Vec<f32>| {
            assert!(results.iter().all(|y| y.is_nan() || y.abs() <= 1.0));
            check_ulps("tanh", &numbers, f64::tanh, 2.0)(isa, results);
        });
    }
}

#[test]
fn erf_is_exact_to_two_ulps_and_within_one() {
    for numbers in [everywhere(), between(-5.0, 5.0)] {
        each_isa!(numbers, |x| erf(x), |isa, results: Vec<f32>| {
            assert!(results.iter().all(|y| y.is_nan() || y.abs() <= 1.0));
            check_ulps("erf", &numbers, erf_exact, 2.0)(isa, results);
        });
    }
}

#[test]
fn sigmoid_is_exact_to_three_ulps() {
    for numbers in [everywhere(), between(-110.0, 110.0)] {
        let exact = |x: f64| 1.0 / (1.0 + (-x).exp());
        each_isa!(numbers, |x| sigmoid(x), check_ulps("sigmoid", &numbers, exact, 3.0));
    }
}

#[test]
fn maths_has_the_same_bits_wherever_multiply_adds_are_fused() {
    let numbers = everywhere();
    // FNV-1a over the bits, all NaN being one. The numbers below were found with AVX2 and AVX-512.
    let print = |results: Vec<f32>| {
        results.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, y| {
            let bits = if y.is_nan() { f32::NAN.to_bits() } else { y.to_bits() };
            (hash ^ u64::from(bits)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    macro_rules! agree {
        ($f:ident, $expected:literal) => {
            each_isa!(numbers, |x| $f(x), |isa, results| {
                let found = print(results);
                assert!(isa == Isa::Scalar || found == $expected, "{} on {isa}: {found:#x}", stringify!($f));
            });
        };
    }
    agree!(exp, 0x34bf_b5f3_596a_88da);
    agree!(ln, 0x6dff_11af_d455_5d66);
    agree!(tanh, 0x9c4b_33f1_f5a6_66df);
    agree!(erf, 0x2fa3_c016_fdfb_1f3c);
    agree!(sigmoid, 0xdd9a_c069_16c8_45f2);
}

/// One operation on every implementation against its meaning for one number.
macro_rules! lane_by_lane {
    ($x:ident, $y:ident: $vector:expr, $scalar:expr) => {
        let mut random = Random::new(7);
        let special =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.5, 1.5, -2.5, f32::MIN_POSITIVE];
        let mut draw = || match random.below(4) {
            0 => *random.pick(&special),
            _ => random.normal() * 3.0,
        };
        let left: Vec<f32> = (0..1024).map(|_| draw()).collect();
        let right: Vec<f32> = (0..1024).map(|_| draw()).collect();
        for isa in Isa::available() {
            let mut found = vec![0.0_f32; 1024];
            for i in (0..1024).step_by(LANES) {
                // SAFETY: `isa` is available, and the three vectors have whole lanes.
                unsafe {
                    dispatch!(isa, |L| {
                        let ($x, $y) = (L::load(&raw const left[i]), L::load(&raw const right[i]));
                        <L as Lanes>::store($vector, &raw mut found[i]);
                    });
                }
            }
            for ((&$x, &$y), f) in left.iter().zip(&right).zip(found) {
                let expected: f32 = $scalar;
                let same = f.to_bits() == expected.to_bits() || (f.is_nan() && expected.is_nan());
                assert!(same, "{} of {}, {} on {isa}: {f}", stringify!($vector), $x, $y);
            }
        }
    };
}

#[test]
fn every_implementation_means_the_same() {
    lane_by_lane!(x, y: x + y, x + y);
    lane_by_lane!(x, y: x - y, x - y);
    lane_by_lane!(x, y: x * y, x * y);
    lane_by_lane!(x, y: x / y, x / y);
    lane_by_lane!(x, y: (-x).max(y), if -x > y { -x } else { y });
    lane_by_lane!(x, y: x.min(y), if x < y { x } else { y });
    lane_by_lane!(x, y: x.abs() - y, x.abs() - y);
    lane_by_lane!(x, y: x.round() + y, x.round_ties_even() + y);
    lane_by_lane!(x, y: Lanes::select(x.less_than(y), x, y + y), if x < y { x } else { y + y });
}

#[test]
fn pairs_of_bf16_are_taken_apart() {
    let numbers = everywhere();
    let nearest = |x: f32| bf16::from_bf16(bf16::to_bf16(x));
    let same = |isa: Isa, found: &[f32], expected: fn(f32) -> f32| {
        for (&found, &x) in found.iter().zip(&numbers) {
            let expected = nearest(expected(x));
            assert_eq!(found.to_bits(), expected.to_bits(), "{isa}: {x:e}");
        }
    };
    each_isa!(numbers, |x| bf16::pack_pairs(x, -x).unpack_bf16()[0], |isa, found: Vec<f32>| same(
        isa,
        &found,
        |x| x
    ));
    each_isa!(numbers, |x| bf16::pack_pairs(x, -x).unpack_bf16()[1], |isa, found: Vec<f32>| same(
        isa,
        &found,
        |x| { -x }
    ));
}

#[test]
fn fma_rounds_once_where_the_machine_can() {
    for isa in Isa::available() {
        let tiny = 2.0_f32.powi(-13);
        // (1 + t)² − 1 − 2t is t² when it is rounded once, and 0 when the product is rounded first.
        // SAFETY: `isa` is available.
        let found = unsafe {
            dispatch!(isa, |L| {
                let x = L::splat(1.0 + tiny);
                x.fma(x, L::splat(-1.0 - 2.0 * tiny)).to_array()[3]
            })
        };
        assert_eq!(found, if isa == Isa::Scalar { 0.0 } else { tiny * tiny });
    }
}

#[test]
fn tails_touch_nothing_beyond_their_end() {
    let source: Vec<f32> = (1..=16).map(|i| i as f32).collect();
    for isa in Isa::available() {
        for n in 0..=LANES {
            let exact = &source[..n];
            let mut target = vec![-1.0_f32; LANES];
            // SAFETY: `isa` is available; both vectors have at least `n` numbers.
            let loaded = unsafe {
                dispatch!(isa, |L| {
                    let x = L::load_first(exact.as_ptr(), n);
                    x.store_first(target.as_mut_ptr(), n);
                    x.to_array()
                })
            };
            for i in 0..LANES {
                assert_eq!(loaded[i], if i < n { source[i] } else { 0.0 }, "load, lane {i} of {n} on {isa}");
                assert_eq!(
                    target[i],
                    if i < n { source[i] } else { -1.0 },
                    "store, lane {i} of {n} on {isa}"
                );
            }
        }
    }
}

#[test]
fn sums_have_one_order_everywhere() {
    let mut random = Random::new(11);
    for _ in 0..1000 {
        let numbers: Vec<f32> =
            (0..LANES).map(|_| random.normal() * 10.0_f32.powi(random.below(8) as i32)).collect();
        // SAFETY: `isa` is available, and the vector has sixteen numbers.
        let results = Isa::available().into_iter().map(|isa| unsafe {
            dispatch!(isa, |L| {
                let x = L::load(numbers.as_ptr());
                (x.sum().to_bits(), x.largest().to_bits())
            })
        });
        let results: Vec<_> = results.collect();
        assert!(results.iter().all(|r| *r == results[0]), "{results:?}");
        let largest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(results[0].1, largest.to_bits());
    }
}

#[test]
fn eight_rows_are_transposed_into_pairs_of_columns() {
    let numbers: Vec<f32> = (0..8 * LANES).map(|i| i as f32).collect();
    for isa in Isa::available() {
        let mut transposed = vec![0.0; 8 * LANES];
        // SAFETY: `isa` is available; both vectors have eight rows.
        unsafe {
            dispatch!(isa, |L| {
                let mut rows = [L::zero(); 8];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = L::load(numbers.as_ptr().add(i * LANES));
                }
                for (i, pair) in L::transpose_eight(rows).into_iter().enumerate() {
                    pair.store(transposed.as_mut_ptr().add(i * LANES));
                }
            });
        }
        for (i, &found) in transposed.iter().enumerate() {
            assert_eq!(found, numbers[i % 8 * LANES + i / 8], "row {} of column {} on {isa}", i % 8, i / 8);
        }
    }
}

#[test]
fn powers_and_their_inverse() {
    for isa in Isa::available() {
        for n in -160..=140 {
            // SAFETY: `isa` is available.
            let (scaled, (m, e)) = unsafe {
                dispatch!(isa, |L| {
                    let x = L::splat(1.375);
                    let scaled = x.scale_by_power(L::splat(n as f32));
                    let (m, e) = scaled.split();
                    (scaled.to_array()[5], (m.to_array()[5], e.to_array()[5]))
                })
            };
            assert_eq!(scaled, (1.375 * 2.0_f64.powi(n)) as f32, "1.375 · 2^{n} on {isa}");
            if (-126..=127).contains(&n) {
                assert_eq!((m, e), (1.375, n as f32), "{isa}");
            }
        }
    }
}

#[test]
fn transposing_moves_every_number_and_reads_no_row_outside() {
    for isa in Isa::available() {
        for (size, stride) in [(1, 3), (5, 5), (8, 11), (16, 16), (24, 30), (35, 40), (64, 64)] {
            for lanes in [0..16, 0..8, 3..16, 0..1, 5..5] {
                let from: Vec<f32> = (0..stride * LANES).map(|x| x as f32 + 1.0).collect();
                let mut to = vec![f32::NAN; size * LANES];
                let (source, target) = (from.as_ptr(), to.as_mut_ptr());
                // SAFETY: sixteen rows of `stride ≥ size` numbers, and room for as many columns.
                unsafe {
                    dispatch!(isa, |L| L::transpose(source, stride as isize, lanes.clone(), size, target));
                };
                for (at, &x) in to.iter().enumerate() {
                    let (d, lane) = (at / LANES, at % LANES);
                    let expected = if lanes.contains(&lane) { from[lane * stride + d] } else { 0.0 };
                    assert_eq!(x, expected, "{isa}, size {size}, lanes {lanes:?}, d {d}, lane {lane}");
                }
            }
        }
    }
}
