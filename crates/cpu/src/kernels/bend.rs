//! The bends between two projections, alone and as gates, with their slopes.
#![allow(clippy::inline_always)] // see the rules in `lanes`

use std::marker::PhantomData;

use glassformer_graph::ops::Activation;

use super::Call;
use super::map::{One, Two, map_one, map_two};
use super::row::{load, store};
use super::split::over_numbers;
use crate::dispatch;
use crate::lanes::{LANES, Lanes, erf, exp, sigmoid, tanh};

/// A bend and its slope.
trait Bend {
    /// f(x).
    fn value<L: Lanes>(x: L) -> L;
    /// f′(x).
    fn slope<L: Lanes>(x: L) -> L;
}

struct Relu;
struct Gelu;
struct GeluTanh;
struct Silu;
struct Tanh;
struct Sigmoid;

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

/// f(x).
struct Value<B>(PhantomData<B>);
/// f(g) · u.
struct Gated<B>(PhantomData<B>);
/// f′(x) · dy.
struct Back<B>(PhantomData<B>);

macro_rules! copy {
    ($($name:ident),*) => {$(
        impl<B> Clone for $name<B> { fn clone(&self) -> Self { *self } }
        impl<B> Copy for $name<B> {}
    )*};
}
copy!(Value, Gated, Back);

impl<B: Bend> One for Value<B> {
    #[inline(always)]
    fn at<L: Lanes>(self, x: L) -> L {
        B::value(x)
    }
}

impl<B: Bend> Two for Gated<B> {
    #[inline(always)]
    fn at<L: Lanes>(self, g: L, u: L) -> L {
        B::value(g) * u
    }
}

impl<B: Bend> Two for Back<B> {
    #[inline(always)]
    fn at<L: Lanes>(self, x: L, dy: L) -> L {
        B::slope(x) * dy
    }
}

/// `$body` with `$bend` the type of the activation.
macro_rules! with_bend {
    ($act:expr, |$bend:ident| $body:expr) => {
        match $act {
            Activation::Relu => {
                type $bend = Relu;
                $body
            }
            Activation::Gelu => {
                type $bend = Gelu;
                $body
            }
            Activation::GeluTanh => {
                type $bend = GeluTanh;
                $body
            }
            Activation::Silu => {
                type $bend = Silu;
                $body
            }
            Activation::Tanh => {
                type $bend = Tanh;
                $body
            }
            Activation::Sigmoid => {
                type $bend = Sigmoid;
                $body
            }
        }
    };
}

/// `y = f(x)`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn activate(act: Activation, call: Call<'_>) {
    // SAFETY: the caller's promise.
    with_bend!(act, |B| unsafe { map_one(call, Value::<B>(PhantomData)) });
}

/// `dx = f′(x) ⊙ dy`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn activate_grad(act: Activation, call: Call<'_>) {
    // SAFETY: the caller's promise.
    with_bend!(act, |B| unsafe { map_two(call, Back::<B>(PhantomData)) });
}

/// `y = f(g) ⊙ u`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn gate(act: Activation, call: Call<'_>) {
    // SAFETY: the caller's promise.
    with_bend!(act, |B| unsafe { map_two(call, Gated::<B>(PhantomData)) });
}

/// `dg = f′(g) ⊙ u ⊙ dy`, `du = f(g) ⊙ dy`.
///
/// # Safety
/// As [`Call`] says.
pub(super) unsafe fn gate_grad(act: Activation, call: Call<'_>) {
    let y = call.outputs[0];
    over_numbers(call.worker, y.rows * y.width, |part| {
        // SAFETY: `isa` is this machine's; the part lies within all blocks, and nobody else writes it.
        unsafe {
            let from = [0, 1, 2].map(|k: usize| call.inputs[k].data.add(part.start).cast_const());
            let to = [0, 1].map(|k: usize| call.outputs[k].data.add(part.start));
            with_bend!(act, |B| dispatch!(call.run.isa, |L| gate_back::<L, B>(from, to, part.len())));
        }
    });
}

/// # Safety
/// The machine has `L`'s instructions; all pointers are valid for `n` numbers.
#[inline(always)]
unsafe fn gate_back<L: Lanes, B: Bend>([g, u, dy]: [*const f32; 3], [dg, du]: [*mut f32; 2], n: usize) {
    let mut i = 0;
    while i < n {
        let some = LANES.min(n - i);
        // SAFETY: `i + some ≤ n`.
        unsafe {
            let (gate, up) = (load::<L>(g.add(i), some), load::<L>(u.add(i), some));
            let back = load::<L>(dy.add(i), some);
            store(B::slope(gate) * up * back, dg.add(i), some);
            store(B::value(gate) * back, du.add(i), some);
        }
        i += LANES;
    }
}
