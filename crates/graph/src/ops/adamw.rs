//! A step of AdamW (Loshchilov and Hutter 2017): Adam with the weight decay applied to the weight itself.

use super::{Gradient, NoGradient, Operation, Site, same};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`, `w ← w(1 − η·decay) − η/c₁ · m/(√v/c₂ + ε)`, where η is the learning rate times the
/// parameter's own, c₁ = 1 − β₁ᵗ, c₂ = √(1 − β₂ᵗ), and g the gradient, scaled down where all gradients together are longer than
/// the clip. Where their length is not finite, nothing changes.
///
/// Inputs: w, g, m, v, all alike; the step `[1, 4]`: η, c₁, c₂ and how much of the average is kept; the square of the length of all
/// gradients `[1, 1]`; with an average a also that: `a ← kept·a + (1 − kept)·w`. Outputs: w, m, v, and a where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// β₁: how much of the first moment is kept.
    pub beta1: f32,
    /// β₂: how much of the second moment is kept.
    pub beta2: f32,
    /// ε: what keeps the division from zero.
    pub epsilon: f32,
    /// The parameter's own part of the learning rate.
    pub rate: f32,
    /// How much of the weight is taken off at each step, times the rate.
    pub decay: f32,
    /// The longest that all gradients together may be.
    pub clip: Option<f32>,
}

/// The columns of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// η: the learning rate.
    pub rate: f32,
    /// c₁: what makes up for first moments that began at zero.
    pub first: f32,
    /// c₂: the same for the root of the second.
    pub second: f32,
    /// How much of an average is kept.
    pub kept: f32,
}

impl Step {
    /// As an input of the operation.
    pub fn columns(self) -> [f32; 4] {
        [self.rate, self.first, self.second, self.kept]
    }

    /// From an input of the operation.
    pub fn of(columns: &[f32]) -> Self {
        Self { rate: columns[0], first: columns[1], second: columns[2], kept: columns[3] }
    }
}

impl AdamW {
    /// What gradients are multiplied by, where the square of their length is this; nothing where they are not finite.
    pub fn factor(&self, square: f32) -> Option<f32> {
        let length = square.sqrt();
        if !length.is_finite() {
            return None;
        }
        Some(self.clip.filter(|&most| length > most).map_or(1.0, |most| most / length))
    }
}

impl Operation for AdamW {
    const OUTPUTS: &'static [&'static str] = &["weight", "first", "second", "average"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        if !(6..=7).contains(&inputs.len()) {
            return Err(format!("takes six inputs, or seven with an average, not {}", inputs.len()));
        }
        for (what, k) in [("the gradient", 1), ("the first moment", 2), ("the second moment", 3)] {
            same(what, inputs[k], inputs[0])?;
        }
        same("the step", inputs[4], Shape::fixed(1, 4))?;
        same("the length", inputs[5], Shape::fixed(1, 1))?;
        if let Some(&average) = inputs.get(6) {
            same("the average", average, inputs[0])?;
        }
        Ok(vec![inputs[0]; inputs.len() - 3])
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::Optimises))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let [w, g, m, v] = [inputs[0], inputs[1], inputs[2], inputs[3]];
        let column = |k: usize| inputs[4].at(0, k);
        let [beta1, beta2, epsilon] = [self.beta1, self.beta2, self.epsilon].map(f64::from);
        let average = inputs.get(6).copied();
        let Some(factor) = self.factor(inputs[5].at(0, 0) as f32).map(f64::from) else {
            return [w, m, v].into_iter().chain(average).cloned().collect();
        };
        let rate = column(0) * f64::from(self.rate);
        let shrink = 1.0 - rate * f64::from(self.decay);
        let m = m.zip(g, |m, g| beta1 * m + (1.0 - beta1) * g * factor);
        let v = v.zip(g, |v, g| beta2 * v + (1.0 - beta2) * (g * factor) * (g * factor));
        let moved = m.zip(&v, |m, v| rate / column(1) * m / (v.sqrt() / column(2) + epsilon));
        let w = w.zip(&moved, |w, moved| w * shrink - moved);
        let average = average.map(|a| a.zip(&w, |a, w| column(3) * a + (1.0 - column(3)) * w));
        [w, m, v].into_iter().chain(average).collect()
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let plain = Self { beta1: 0.9, beta2: 0.99, epsilon: 1e-6, rate: 1.0, decay: 0.1, clip: None };
        let x = Shape::fixed(9, 37);
        let inputs = [x, x, x, x, Shape::fixed(1, 4), Shape::fixed(1, 1), x];
        let cases = [
            (plain, 6),
            (Self { clip: Some(0.3), rate: 0.5, ..plain }, 6),
            (Self { clip: Some(0.3), ..plain }, 7),
            (plain, 7),
        ];
        // Second moments and what makes up for zeros are above zero.
        cases.into_iter().map(|(op, count)| Case::new(op, &inputs[..count]).between(0.1, 0.9)).collect()
    }
}
