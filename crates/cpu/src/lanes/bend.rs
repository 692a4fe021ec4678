//! The bends between two projections, lane by lane, with their slopes.

use super::{Lanes, erf, exp, sigmoid, tanh};

/// A bend and its slope.
pub(crate) trait Bend {
    /// f(x).
    fn value<L: Lanes>(x: L) -> L;
    /// f′(x).
    fn slope<L: Lanes>(x: L) -> L;
}

pub(crate) struct Relu;
pub(crate) struct Gelu;
pub(crate) struct GeluTanh;
pub(crate) struct Silu;
pub(crate) struct Tanh;
pub(crate) struct Sigmoid;

impl Bend for Relu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions. In this order a NaN goes through.
        unsafe { L::zero() }.max(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions.
        unsafe { L::select(L::zero().less_than(x), L::splat(1.0), L::zero()) }
    }
}

/// Φ(x), the normal distribution function.
#[inline(always)]
fn normal<L: Lanes>(x: L) -> L {
    // SAFETY: `x` proves the instructions.
    unsafe {
        let half = L::splat(0.5);
        half.fma(erf(x * L::splat(std::f32::consts::FRAC_1_SQRT_2)), half)
    }
}

impl Bend for Gelu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        x * normal(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        const INVERSE_ROOT_TAU: f32 = 0.398_942_3;
        // SAFETY: `x` proves the instructions.
        let density = unsafe { exp(x * x * L::splat(-0.5)) * L::splat(INVERSE_ROOT_TAU) };
        x.fma(density, normal(x))
    }
}

/// √(2/π), and the cubic's factor.
const ROOT: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

/// tanh(√(2/π)(x + 0.044715 x³)).
#[inline(always)]
fn cubic_tanh<L: Lanes>(x: L) -> L {
    // SAFETY: `x` proves the instructions.
    unsafe { tanh((x * x * L::splat(CUBIC)).fma(x, x) * L::splat(ROOT)) }
}

impl Bend for GeluTanh {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions.
        let half = unsafe { L::splat(0.5) };
        x * half.fma(cubic_tanh(x), half)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions.
        unsafe {
            let (half, one, t) = (L::splat(0.5), L::splat(1.0), cubic_tanh(x));
            // (1 − t)(1 + t) keeps more of what is left near ±1 than 1 − t².
            let steep = (one - t) * (one + t) * (x * x).fma(L::splat(3.0 * CUBIC), one);
            (x * half).fma(steep * L::splat(ROOT), half.fma(t, half))
        }
    }
}

impl Bend for Silu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        x * sigmoid(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions.
        let one = unsafe { L::splat(1.0) };
        // 1 − σ(x) is σ(−x), which loses nothing where σ(x) is near 1.
        sigmoid(x) * x.fma(sigmoid(-x), one)
    }
}

impl Bend for Tanh {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        tanh(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        // SAFETY: `x` proves the instructions.
        let (one, t) = (unsafe { L::splat(1.0) }, tanh(x));
        (one - t) * (one + t)
    }
}

impl Bend for Sigmoid {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        sigmoid(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        sigmoid(x) * sigmoid(-x)
    }
}

/// `$body` with `$bend` the type of the activation.
macro_rules! with_bend {
    ($act:expr, |$bend:ident| $body:expr) => {
        match $act {
            glassformer_graph::ops::Activation::Relu => {
                type $bend = $crate::lanes::bend::Relu;
                $body
            }
            glassformer_graph::ops::Activation::Gelu => {
                type $bend = $crate::lanes::bend::Gelu;
                $body
            }
            glassformer_graph::ops::Activation::GeluTanh => {
                type $bend = $crate::lanes::bend::GeluTanh;
                $body
            }
            glassformer_graph::ops::Activation::Silu => {
                type $bend = $crate::lanes::bend::Silu;
                $body
            }
            glassformer_graph::ops::Activation::Tanh => {
                type $bend = $crate::lanes::bend::Tanh;
                $body
            }
            glassformer_graph::ops::Activation::Sigmoid => {
                type $bend = $crate::lanes::bend::Sigmoid;
                $body
            }
        }
    };
}
pub(crate) use with_bend;
