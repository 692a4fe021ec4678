//! exp, ln, tanh, sigmoid and erf, sixteen at a time.
//!
//! The coefficients are weighted least-squares fits driven to equal ripples (Lawson 1961), computed with forty digits
//! for the ranges given below and then rounded; `tests.rs` measures what remains against `f64`, over the whole range of
//! `f32`. A NaN gives a NaN everywhere.

use super::Lanes;

/// Σ coefficients[i] · xⁱ, by Horner.
#[inline(always)]
pub(crate) fn polynomial<L: Lanes, const N: usize>(x: L, coefficients: [f32; N]) -> L {
    let mut sum = x.constant(coefficients[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.fma(x, x.constant(coefficients[i]));
    }
    sum
}

/// ln 2 in two parts: the first has nine bits, so that its product with an exponent is exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// eˣ, within 1 ulp for every `x`: 0 below −104, infinity above 88.73, subnormal numbers between.
///
/// x = n·ln 2 + r with |r| ≤ ½ ln 2, then eˣ = 2ⁿ · (1 + r + r²·P(r)).
#[inline(always)]
pub fn exp<L: Lanes>(x: L) -> L {
    const P: [f32; 5] = [0.499_999_94, 0.166_665_2, 0.041_668_404, 0.008_368_857, 0.001_381_425_5];
    // Beyond these bounds the result is 0 or infinity anyway, and the exponent stays in range.
    let x = x.constant(89.0).min(x.constant(-104.0).max(x));
    let n = (x * x.constant(std::f32::consts::LOG2_E)).round();
    let r = n.fma(x.constant(-LN_2_LOW), n.fma(x.constant(-LN_2_HIGH), x));
    let y = polynomial(r, P).fma(r * r, r) + x.constant(1.0);
    y.scale_by_power(n)
}

/// ln x, within 1 ulp: −∞ at zero, NaN below it.
///
/// x = 2ᵉ·(1 + f) with 1 + f between √½ and √2, then ln x = e·ln 2 + f − f²/2 + f³·P(f).
#[inline(always)]
pub fn ln<L: Lanes>(x: L) -> L {
    const P: [f32; 9] = [
        0.333_333_1,
        -0.250_000_1,
        0.200_021_68,
        -0.166_680_92,
        0.142_185_36,
        -0.124_030_62,
        0.118_936_13,
        -0.116_944_73,
        0.067_575_105,
    ];
    let (zero, one) = (x.constant(0.0), x.constant(1.0));
    // A subnormal number has no leading one to count from: shift it up.
    let tiny = x.less_than(x.constant(f32::MIN_POSITIVE));
    let shift = L::select(tiny, x.constant(-24.0), zero);
    let (m, e) = L::select(tiny, x * x.constant(16_777_216.0), x).split();
    let upper = x.constant(std::f32::consts::SQRT_2).less_than(m);
    let m = L::select(upper, m * x.constant(0.5), m);
    let e = e + shift + L::select(upper, one, zero);
    let f = m - one;
    let square = f * f;
    let y = e.fma(x.constant(LN_2_LOW), polynomial(f, P) * (square * f));
    let y = square.fma(x.constant(-0.5), y) + f;
    let y = e.fma(x.constant(LN_2_HIGH), y);
    let y = L::select(x.less_than(x.constant(f32::INFINITY)), y, x);
    // Not above zero: negative, zero, or NaN.
    let invalid = L::select(x.less_than(zero), x.constant(f32::NAN), x + x.constant(f32::NEG_INFINITY));
    L::select(zero.less_than(x), y, invalid)
}

/// tanh x, within 2 ulp and never beyond ±1.
///
/// 1 − 2/(1 + e^2|x|) with the sign of x; below 0.625, where that cancels, x + x³·P(x²). A ratio of two polynomials for
/// the whole range is a third cheaper, but was 5 ulp off near ±1.
#[inline(always)]
pub fn tanh<L: Lanes>(x: L) -> L {
    const P: [f32; 6] =
        [-0.333_333_3, 0.133_331_91, -0.053_944_88, 0.021_690_123, -0.008_150_631, 0.002_117_962_8];
    let (one, size) = (x.constant(1.0), x.abs());
    let far = one - x.constant(2.0) / (exp(size + size) + one);
    let square = x * x;
    let near = (polynomial(square, P) * square).fma(x, x);
    L::select(size.less_than(x.constant(0.625)), near, with_sign_of(x, far))
}

/// erf x = 2/√π ∫₀ˣ e^(−t²) dt, within 2 ulp and never beyond ±1.
///
/// 1 − exp(R(|x|)) with the sign of x, where R is fitted to ln(1 − erf) from 0.92 to 4, beyond which erf is ±1 to the
/// last bit of an `f32`; below, x + x·P(x²). A ratio of two polynomials was 5 ulp off near ±1, which exact GELU sees:
/// it multiplies 1 + erf by large negative numbers. Its division also costs as much as the exponential here.
#[inline(always)]
pub fn erf<L: Lanes>(x: L) -> L {
    const P: [f32; 7] = [
        0.128_379_17,
        -0.376_126_32,
        0.112_836_845,
        -0.026_858_782,
        0.005_199_517_6,
        -8.125_675_4e-4,
        8.298_767e-5,
    ];
    const R: [f32; 7] = [
        -2.069_665_4e-4,
        -1.127_627_6,
        -0.637_265_44,
        -0.103_856_675,
        0.022_189_932,
        -0.003_033_733_7,
        1.949_512_2e-4,
    ];
    let size = x.constant(4.0).min(x.abs());
    let far = x.constant(1.0) - exp(polynomial(size, R));
    let near = polynomial(x * x, P).fma(x, x);
    L::select(size.less_than(x.constant(0.925)), near, with_sign_of(x, far))
}

/// `size` where `x` is not negative, `−size` where it is.
#[inline(always)]
fn with_sign_of<L: Lanes>(x: L, size: L) -> L {
    L::select(x.less_than(x.constant(0.0)), -size, size)
}

/// 1/(1 + e⁻ˣ), within 3 ulp, also far below zero where the usual form has lost everything.
///
/// With e = exp(−|x|) ≤ 1 it is 1/(1 + e) above zero and e/(1 + e) below.
#[inline(always)]
pub fn sigmoid<L: Lanes>(x: L) -> L {
    let one = x.constant(1.0);
    let e = exp(-x.abs());
    L::select(x.less_than(x.constant(0.0)), e, one) / (one + e)
}
