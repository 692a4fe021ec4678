//! The gradient of a norm.

use super::{Gradient, NoGradient, Norm, NormKind, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// With `n = (x − μ)·r`, `h = γ ⊙ dy` and means over the row: `dx = r (h − mean(h) − n mean(h ⊙ n))`, where RMS leaves
/// out mean(h); `dγ = Σ dy ⊙ n`; `dβ = Σ dy`. Inputs: x, γ, dy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormGrad {
    /// The norm.
    pub norm: Norm,
}

impl Operation for NormGrad {
    const OUTPUTS: &'static [&'static str] = &["input", "gain", "bias"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 3)?;
        self.norm.fits(&inputs[..2].iter().chain(&inputs[1..2]).copied().collect::<Vec<_>>())?;
        same("dy", inputs[2], inputs[0])?;
        let mut outputs = vec![inputs[0], inputs[1]];
        if self.norm.kind == NormKind::Layer {
            outputs.push(inputs[1]);
        }
        Ok(outputs)
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (x, gamma, dy) = (inputs[0], inputs[1], inputs[2]);
        let size = gamma.width;
        let mut dx = Array::zeros(x.rows, x.width);
        let (mut dgamma, mut dbeta) = (Array::zeros(1, size), Array::zeros(1, size));
        for ((part, dy), dx) in x.data.chunks(size).zip(dy.data.chunks(size)).zip(dx.data.chunks_mut(size)) {
            let (mean, r) = self.norm.moments(part);
            let n: Vec<f64> = part.iter().map(|x| (x - mean) * r).collect();
            let h: Vec<f64> = dy.iter().enumerate().map(|(j, d)| gamma.at(0, j) * d).collect();
            let centre = match self.norm.kind {
                NormKind::Layer | NormKind::LayerWithoutBias => h.iter().sum::<f64>() / size as f64,
                NormKind::Rms => 0.0,
            };
            let along = h.iter().zip(&n).map(|(h, n)| h * n).sum::<f64>() / size as f64;
            for j in 0..size {
                dx[j] = r * (h[j] - centre - n[j] * along);
                dgamma.data[j] += dy[j] * n[j];
                dbeta.data[j] += dy[j];
            }
        }
        vec![dx, dgamma, dbeta]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let sample = |norm: &Norm| {
            let inputs = norm.sample_inputs();
            Case::new(Self { norm: *norm }, &[inputs[0], inputs[1], inputs[0]])
        };
        Norm::SAMPLES.iter().map(sample).collect()
    }
}
