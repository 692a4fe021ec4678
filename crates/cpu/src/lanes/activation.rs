//! The activations between two projections, lane by lane, with their derivatives.

use glassformer_graph::ops::Activation;

use super::maths::polynomial;
use super::{Lanes, erf, exp, sigmoid, tanh};

/// An activation and its derivative.
pub(crate) trait ActivationFn: Copy {
    /// f(x).
    fn value<L: Lanes>(x: L) -> L;
    /// f′(x).
    fn slope<L: Lanes>(x: L) -> L;
}

#[derive(Clone, Copy)]
pub(crate) struct Relu;
#[derive(Clone, Copy)]
pub(crate) struct Gelu;
#[derive(Clone, Copy)]
pub(crate) struct GeluTanh;
#[derive(Clone, Copy)]
pub(crate) struct Silu;
#[derive(Clone, Copy)]
pub(crate) struct Tanh;
#[derive(Clone, Copy)]
pub(crate) struct Sigmoid;

impl ActivationFn for Relu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        // In this order a NaN goes through.
        x.constant(0.0).max(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        L::select(x.constant(0.0).less_than(x), x.constant(1.0), x.constant(0.0))
    }
}

/// Φ(x), the normal distribution function.
#[inline(always)]
fn normal<L: Lanes>(x: L) -> L {
    let half = x.constant(0.5);
    half.fma(erf(x * x.constant(std::f32::consts::FRAC_1_SQRT_2)), half)
}

impl ActivationFn for Gelu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        x * normal(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        const INVERSE_ROOT_TAU: f32 = 0.398_942_3;
        let density = exp(x * x * x.constant(-0.5)) * x.constant(INVERSE_ROOT_TAU);
        x.fma(density, normal(x))
    }
}

/// √(2/π), and the cubic's factor.
const ROOT: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;

/// tanh(√(2/π)(x + 0.044715 x³)).
#[inline(always)]
fn cubic_tanh<L: Lanes>(x: L) -> L {
    tanh((x * x * x.constant(CUBIC)).fma(x, x) * x.constant(ROOT))
}

impl ActivationFn for GeluTanh {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        let half = x.constant(0.5);
        x * half.fma(cubic_tanh(x), half)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        let (half, one, t) = (x.constant(0.5), x.constant(1.0), cubic_tanh(x));
        // (1 − t)(1 + t) keeps more of what is left near ±1 than 1 − t².
        let steep = (one - t) * (one + t) * (x * x).fma(x.constant(3.0 * CUBIC), one);
        (x * half).fma(steep * x.constant(ROOT), half.fma(t, half))
    }
}

impl ActivationFn for Silu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        x * sigmoid(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        let one = x.constant(1.0);
        // 1 − σ(x) is σ(−x), which loses nothing where σ(x) is near 1.
        sigmoid(x) * x.fma(sigmoid(-x), one)
    }
}

impl ActivationFn for Tanh {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        tanh(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        let (one, t) = (x.constant(1.0), tanh(x));
        (one - t) * (one + t)
    }
}

impl ActivationFn for Sigmoid {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        sigmoid(x)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        sigmoid(x) * sigmoid(-x)
    }
}

/// An activation, as exact as it has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationKind {
    Relu,
    Gelu,
    GeluTanh,
    /// Within 2e-4, and slopes of the first two within 4e-4, for a quarter of the work: what is rounded to eight bits next does not see the
    /// difference.
    ApproximateGelu,
    ApproximateGeluTanh,
    ApproximateSilu,
    Silu,
    Tanh,
    Sigmoid,
}

impl ActivationKind {
    /// The function that is exact to 24 bits.
    pub fn exact(act: Activation) -> Self {
        match act {
            Activation::Relu => Self::Relu,
            Activation::Gelu => Self::Gelu,
            Activation::GeluTanh => Self::GeluTanh,
            Activation::Silu => Self::Silu,
            Activation::Tanh => Self::Tanh,
            Activation::Sigmoid => Self::Sigmoid,
        }
    }

    /// The function that is exact to eight bits.
    pub fn approximate(act: Activation) -> Self {
        match act {
            Activation::Gelu => Self::ApproximateGelu,
            Activation::GeluTanh => Self::ApproximateGeluTanh,
            Activation::Silu => Self::ApproximateSilu,
            Activation::Relu | Activation::Tanh | Activation::Sigmoid => Self::exact(act),
        }
    }
}

#[derive(Clone, Copy)]
pub struct ApproximateGelu;
#[derive(Clone, Copy)]
pub struct ApproximateGeluTanh;
#[derive(Clone, Copy)]
pub struct ApproximateSilu;

/// max(x, 0) + t Q(t), where t is |x| up to `end`: there Q is 0, so that nothing is taken from large numbers.
#[inline(always)]
fn approximate<L: Lanes, const N: usize>(x: L, end: f32, q: [f32; N]) -> L {
    // In this order a NaN goes through.
    let t = x.constant(end).min(x.abs());
    polynomial(t, q).fma(t, x.constant(0.0).max(x))
}

/// ½ + z P(z²), where z is x within ±4.5: a slope within 4e-4, and within 1e-4 of 0 or 1 beyond.
#[inline(always)]
fn approximate_slope<L: Lanes, const N: usize>(x: L, p: [f32; N]) -> L {
    let z = x.constant(4.5).min(x.constant(-4.5).max(x));
    let square = z * z;
    polynomial(square, p).fma(z, x.constant(0.5))
}

impl ActivationFn for ApproximateGelu {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        const Q: [f32; 7] =
            [-0.5, 0.388_419_8, 0.046_818_81, -0.143_095_85, 0.058_805_8, -0.010_164_154, 6.614_407e-4];
        approximate(x, 3.95, Q)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        const P: [f32; 9] = [
            0.796_849_97,
            -0.262_523_06,
            0.056_451_42,
            -0.007_941_768_5,
            7.498_603e-4,
            -4.689_437e-5,
            1.852_412_8e-6,
            -4.165_523e-8,
            4.049_829_4e-10,
        ];
        approximate_slope(x, P)
    }
}

impl ActivationFn for ApproximateGeluTanh {
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        const Q: [f32; 7] =
            [-0.5, 0.389_171_42, 0.044_293_65, -0.140_711_6, 0.057_867_225, -0.009_999_72, 6.508_924e-4];
        approximate(x, 3.9, Q)
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        const P: [f32; 9] = [
            0.796_622_34,
            -0.263_110_1,
            0.057_177_68,
            -0.008_191_174,
            7.904_269e-4,
            -5.051_249e-5,
            2.034_633e-6,
            -4.652_762_4e-8,
            4.588_342_5e-10,
        ];
        approximate_slope(x, P)
    }
}

impl ActivationFn for ApproximateSilu {
    /// As [`approximate`], with a polynomial in 2t / 11 − 1: with one in t, which goes to 11, roundings would be seen.
    #[inline(always)]
    fn value<L: Lanes>(x: L) -> L {
        const END: f32 = 11.0;
        const Q: [f32; 11] = [
            -0.004_064_353_6,
            0.022_679_713,
            -0.061_597_68,
            0.102_239_5,
            -0.132_624_52,
            0.183_924_21,
            -0.185_691_28,
            0.025_054_963,
            0.120_686_16,
            -0.083_898_38,
            0.013_291_686,
        ];
        // In this order a NaN goes through.
        let t = x.constant(END).min(x.abs());
        let u = t.fma(x.constant(2.0 / END), x.constant(-1.0));
        polynomial(u, Q).fma(t, x.constant(0.0).max(x))
    }

    #[inline(always)]
    fn slope<L: Lanes>(x: L) -> L {
        Silu::slope(x)
    }
}

/// `$body` with `$function` the type of the activation.
macro_rules! with_activation {
    ($act:expr, |$function:ident| $body:expr) => {
        $crate::lanes::activation::with_activation!(
            $act, $function, $body;
            Relu Gelu GeluTanh ApproximateGelu ApproximateGeluTanh ApproximateSilu Silu Tanh Sigmoid
        )
    };
    ($act:expr, $function:ident, $body:expr; $($name:ident)+) => {
        match $act {
            $($crate::lanes::activation::ActivationKind::$name => {
                type $function = $crate::lanes::activation::$name;
                $body
            })+
        }
    };
}
pub(crate) use with_activation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch;
    use crate::isa::Isa;
    use crate::lanes::LANES;

    #[test]
    fn approximations_are_close_and_take_nothing_from_large_numbers() {
        for isa in Isa::available() {
            for i in -2000_i32..=2000 {
                let x = i as f32 / 100.0;
                // SAFETY: `isa` is available.
                let pairs = [Activation::Gelu, Activation::GeluTanh, Activation::Silu].map(|act| unsafe {
                    let value = |act: ActivationKind| {
                        dispatch!(isa, |L| with_activation!(act, |B| B::value(<L as Lanes>::splat(x))
                            .to_array()[LANES - 1]))
                    };
                    (value(ActivationKind::exact(act)), value(ActivationKind::approximate(act)))
                });
                // SAFETY: as above.
                let slopes = [Activation::Gelu, Activation::GeluTanh].map(|act| unsafe {
                    let slope = |act: ActivationKind| {
                        dispatch!(isa, |L| with_activation!(act, |B| B::slope(<L as Lanes>::splat(x))
                            .to_array()[LANES - 1]))
                    };
                    (slope(ActivationKind::exact(act)), slope(ActivationKind::approximate(act)))
                });
                for (exact, approximate) in slopes {
                    let bound = if x.abs() < 5.0 { 4e-4 } else { 1e-4 };
                    assert!(
                        (exact - approximate).abs() < bound,
                        "{isa}, the slope at {x}: {exact}, {approximate}"
                    );
                }
                for ((exact, approximate), end) in pairs.into_iter().zip([4.2, 4.2, 11.0]) {
                    assert!((exact - approximate).abs() < 2e-4, "{isa}, {x}: {exact}, {approximate}");
                    assert!(
                        x.abs() < end || (approximate - x.max(0.0)).abs() <= 1e-5 * x.abs(),
                        "{isa}, {x}: {approximate}"
                    );
                }
            }
            for act in [
                ActivationKind::ApproximateGelu,
                ActivationKind::ApproximateGeluTanh,
                ActivationKind::ApproximateSilu,
            ] {
                // SAFETY: `isa` is available.
                let nan = unsafe {
                    dispatch!(isa, |L| with_activation!(act, |B| B::value(<L as Lanes>::splat(f32::NAN))
                        .to_array()[0]))
                };
                assert!(nan.is_nan(), "{isa}, {act:?}");
            }
        }
    }
}
