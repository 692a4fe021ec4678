//! The activation function between two projections.

use super::{ActivateGrad, Gradient, Operation, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// Which activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// x Φ(x), with Φ the normal distribution function.
    Gelu,
    /// x Φ(x), with Φ approximated by tanh (`gelu_new`).
    GeluTanh,
    /// x σ(x), also swish.
    Silu,
    /// tanh x.
    Tanh,
    /// σ(x) = 1/(1 + e⁻ˣ).
    Sigmoid,
}

/// √(2/π) and the cubic's factor of the tanh approximation (Hendrycks and Gimpel 2016).
const ROOT: f64 = 0.797_884_560_802_865_4;
const CUBIC: f64 = 0.044_715;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Activation {
    /// Every one.
    pub const ALL: [Self; 6] =
        [Self::Relu, Self::Gelu, Self::GeluTanh, Self::Silu, Self::Tanh, Self::Sigmoid];

    /// f(x).
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::Gelu => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Self::GeluTanh => 0.5 * x * (1.0 + (ROOT * (x + CUBIC * x * x * x)).tanh()),
            Self::Silu => x * sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => sigmoid(x),
        }
    }

    /// f′(x).
    pub fn slope(self, x: f64) -> f64 {
        match self {
            Self::Relu => f64::from(x > 0.0),
            Self::Gelu => {
                let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
                0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)) + x * density
            }
            Self::GeluTanh => {
                let t = (ROOT * (x + CUBIC * x * x * x)).tanh();
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * ROOT * (1.0 + 3.0 * CUBIC * x * x)
            }
            Self::Silu => sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))),
            Self::Tanh => 1.0 - x.tanh() * x.tanh(),
            Self::Sigmoid => sigmoid(x) * (1.0 - sigmoid(x)),
        }
    }
}

/// `y = f(x)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activate {
    /// f.
    pub act: Activation,
}

impl Operation for Activate {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let dx = build.add("input", ActivateGrad { act: self.act }, &[at.inputs[0], at.dy()])?;
        Ok(Gradient::Inputs(vec![Some(dx)]))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        vec![inputs[0].map(|x| self.act.value(x))]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        let ordinary = Activation::ALL.map(|act| Case::new(Self { act }, &[x]));
        let far = Activation::ALL.map(|act| Case::new(Self { act }, &[x]).between(-90.0, 90.0));
        ordinary.into_iter().chain(far).collect()
    }
}
