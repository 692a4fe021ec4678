//! Number by number: a map is a type, so that each becomes one loop without a branch.

use std::marker::PhantomData;

use super::activation::ActivationFn;
use super::{LANES, Lanes};

/// A map of one number.
pub(crate) trait One: Copy {
    /// Its value, lane by lane.
    fn at<L: Lanes>(self, x: L) -> L;
}

/// A map of two numbers.
pub(crate) trait Two: Copy {
    /// Its value, lane by lane.
    fn at<L: Lanes>(self, a: L, b: L) -> L;
}

/// `y = f(x)`, `n` numbers.
///
/// # Safety
/// The machine has `L`'s instructions; `x` is valid for `n` reads, `y` for `n` writes.
#[inline(always)]
pub(crate) unsafe fn one<L: Lanes>(f: impl One, x: *const f32, y: *mut f32, n: usize) {
    // SAFETY: the caller's promise; the loop stops before `n`, and the tail touches `n − i < LANES` numbers.
    unsafe {
        let mut i = 0;
        while i + LANES <= n {
            f.at(L::load(x.add(i))).store(y.add(i));
            i += LANES;
        }
        if i < n {
            f.at(L::load_first(x.add(i), n - i)).store_first(y.add(i), n - i);
        }
    }
}

/// `y = f(a, b)`, `n` numbers.
///
/// # Safety
/// The machine has `L`'s instructions; `a` and `b` are valid for `n` reads, `y` for `n` writes.
#[inline(always)]
pub(crate) unsafe fn two<L: Lanes>(f: impl Two, a: *const f32, b: *const f32, y: *mut f32, n: usize) {
    // SAFETY: as in `one`.
    unsafe {
        let mut i = 0;
        while i + LANES <= n {
            f.at(L::load(a.add(i)), L::load(b.add(i))).store(y.add(i));
            i += LANES;
        }
        if i < n {
            let (a, b) = (L::load_first(a.add(i), n - i), L::load_first(b.add(i), n - i));
            f.at(a, b).store_first(y.add(i), n - i);
        }
    }
}

/// x · factor.
#[derive(Clone, Copy)]
pub(crate) struct Times(pub f32);
/// f(x).
#[derive(Clone, Copy)]
pub(crate) struct Value<F>(pub PhantomData<F>);
/// a + b.
#[derive(Clone, Copy)]
pub(crate) struct Sum;
/// a · b.
#[derive(Clone, Copy)]
pub(crate) struct Multiply;
/// The larger of a and b.
#[derive(Clone, Copy)]
pub(crate) struct Larger;
/// a + b · factor.
#[derive(Clone, Copy)]
pub(crate) struct PlusTimes(pub f32);
/// f(a) · b: a is the gate of a gated layer, and b is what it lets through.
#[derive(Clone, Copy)]
pub(crate) struct Gated<F>(pub PhantomData<F>);
/// f′(a) · b: f was applied to a in the forward pass, and b is the gradient.
#[derive(Clone, Copy)]
pub(crate) struct Back<F>(pub PhantomData<F>);

/// `impl Trait for Map` by an expression.
macro_rules! map {
    ($trait:ident for $map:ty $(, $f:ident)?: |$self:ident, $($x:ident),+| $value:expr) => {
        impl$(<$f: ActivationFn>)? $trait for $map {
            #[inline(always)]
            fn at<L: Lanes>($self, $($x: L),+) -> L {
                $value
            }
        }
    };
}

map!(One for Times: |self, x| x * x.constant(self.0));
map!(One for Value<F>, F: |self, x| F::value(x));
map!(Two for Sum: |self, a, b| a + b);
map!(Two for Multiply: |self, a, b| a * b);
map!(Two for Larger: |self, a, b| a.max(b));
map!(Two for PlusTimes: |self, a, b| b.fma(a.constant(self.0), a));
map!(Two for Gated<F>, F: |self, a, b| F::value(a) * b);
map!(Two for Back<F>, F: |self, a, b| F::slope(a) * b);
