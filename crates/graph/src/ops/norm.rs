//! Rows brought to one scale (LN; Ba et al. 2016, Zhang and Sennrich 2019).

use super::{Gradient, NormGrad, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// `γ ⊙ (x − μ)/√(σ² + ε) + β`; inputs x, γ, β.
    Layer,
    /// The same without β; inputs x, γ.
    LayerWithoutBias,
    /// `γ ⊙ x/√(mean(x²) + ε)`; inputs x, γ.
    Rms,
}

/// A norm of each row or, cut into `parts`, of each head. γ and β are `[1, width / parts]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Which one.
    pub kind: NormKind,
    /// ε.
    pub epsilon: f32,
    /// How many equal parts of a row are normed by themselves.
    pub parts: usize,
}

impl Norm {
    pub(super) fn inputs(&self) -> usize {
        match self.kind {
            NormKind::Layer => 3,
            NormKind::LayerWithoutBias | NormKind::Rms => 2,
        }
    }

    /// The mean that is subtracted, and one over the deviation.
    pub(super) fn moments(&self, part: &[f64]) -> (f64, f64) {
        let n = part.len() as f64;
        let mean = match self.kind {
            NormKind::Layer | NormKind::LayerWithoutBias => part.iter().sum::<f64>() / n,
            NormKind::Rms => 0.0,
        };
        let variance = part.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        (mean, 1.0 / (variance + f64::from(self.epsilon)).sqrt())
    }

    pub(super) fn fits(&self, inputs: &[Shape]) -> Result<(), String> {
        let x = inputs[0];
        if self.parts == 0 || !x.width.is_multiple_of(self.parts) {
            return Err(format!("{} parts do not divide the width {}", self.parts, x.width));
        }
        for &weight in &inputs[1..self.inputs()] {
            same("γ or β", weight, Shape::fixed(1, x.width / self.parts))?;
        }
        Ok(())
    }

    pub(super) const SAMPLES: [Self; 4] = [
        Self { kind: NormKind::Layer, epsilon: 1e-5, parts: 1 },
        Self { kind: NormKind::LayerWithoutBias, epsilon: 1e-3, parts: 1 },
        Self { kind: NormKind::Rms, epsilon: 1e-6, parts: 1 },
        Self { kind: NormKind::Rms, epsilon: 1e-6, parts: 3 },
    ];

    pub(super) fn sample_inputs(&self) -> Vec<Shape> {
        let x = Shape::new(Rows::Tokens(Side::Source), 21);
        let mut inputs = vec![x];
        inputs.resize(self.inputs(), Shape::fixed(1, 21 / self.parts));
        inputs
    }
}

impl Operation for Norm {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, self.inputs())?;
        self.fits(inputs)?;
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let inputs = [at.inputs[0], at.inputs[1], at.dy()];
        let mut grads = build.add_all("norm", NormGrad { norm: *self }, &inputs)?;
        grads.truncate(self.inputs());
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (x, gamma) = (inputs[0], inputs[1]);
        let size = x.width / self.parts;
        let mut y = x.clone();
        for part in y.data.chunks_mut(size) {
            let (mean, inverse) = self.moments(part);
            for (j, value) in part.iter_mut().enumerate() {
                *value =
                    gamma.at(0, j) * (*value - mean) * inverse + inputs.get(2).map_or(0.0, |b| b.at(0, j));
            }
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        Self::SAMPLES.iter().map(|op| Case::new(*op, &op.sample_inputs())).collect()
    }
}
