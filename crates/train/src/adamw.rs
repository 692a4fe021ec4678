//! AdamW (Loshchilov and Hutter 2017): Adam with the weight decay applied to the weight itself.

/// How fast, and how much of the past counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// How much of the first moment is kept.
    pub beta1: f32,
    /// How much of the second moment is kept.
    pub beta2: f32,
    /// What keeps the division from zero.
    pub epsilon: f32,
    /// How much of each weight is taken off at every step, times the learning rate.
    pub decay: f32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 }
    }
}

/// The moments of every parameter.
#[derive(Clone, Debug)]
pub struct AdamW {
    rates: Rates,
    step: i32,
    moments: Vec<(Vec<f32>, Vec<f32>)>,
}

impl AdamW {
    /// For parameters of these sizes.
    pub fn new(rates: Rates, sizes: impl IntoIterator<Item = usize>) -> Self {
        let zeros = |size| (vec![0.0; size], vec![0.0; size]);
        Self { rates, step: 0, moments: sizes.into_iter().map(zeros).collect() }
    }

    /// Begins the next step: bias correction counts it.
    pub fn begin(&mut self) {
        self.step += 1;
    }

    /// Moves parameter number `index` against `gradient`, each number of which is multiplied by `clip` first.
    ///
    /// `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`, `w ← w(1 − rate·decay) − rate/(1−β₁ᵗ) · m/(√(v/(1−β₂ᵗ)) + ε)`.
    pub fn update(&mut self, index: usize, weights: &mut [f32], gradient: &[f32], (rate, clip): (f32, f32)) {
        let Rates { beta1, beta2, epsilon, decay } = self.rates;
        let size = rate / (1.0 - beta1.powi(self.step));
        let root = (1.0 - beta2.powi(self.step)).sqrt();
        let shrink = 1.0 - rate * decay;
        let (first, second) = &mut self.moments[index];
        for (((w, &g), m), v) in weights.iter_mut().zip(gradient).zip(first).zip(second) {
            let g = g * clip;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *w = *w * shrink - size * *m / (v.sqrt() / root + epsilon);
        }
    }
}
