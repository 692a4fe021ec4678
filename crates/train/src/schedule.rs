//! How fast to learn at each step.

use crate::config::{Decay, Schedule};

impl Schedule {
    /// The rate of step `step`, counted from 1.
    ///
    /// Up to `warmup` it rises in a straight line; then it is `rate·√(warmup/step)`, `rate·(last + (1 − last)(1 + cos πt)/2)`,
    /// `rate·(1 − t(1 − last))` or `rate`, with t from 0 at the end of the warm-up to 1 at the last step.
    pub fn at(&self, step: usize) -> f32 {
        let (step, warmup) = (step as f64, self.warmup as f64);
        let (rate, last) = (f64::from(self.rate), f64::from(self.last));
        if step < warmup {
            return (rate * step / warmup) as f32;
        }
        let t = ((step - warmup) / (self.steps as f64 - warmup).max(1.0)).clamp(0.0, 1.0);
        let factor = match self.decay {
            Decay::InverseSquareRoot => (warmup.max(1.0) / step).sqrt(),
            Decay::Cosine => last + (1.0 - last) * f64::midpoint(1.0, (std::f64::consts::PI * t).cos()),
            Decay::Linear => 1.0 - t * (1.0 - last),
            Decay::Constant => 1.0,
        };
        (rate * factor) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(decay: Decay, last: f32) -> Schedule {
        Schedule { steps: 110, rate: 2.0, warmup: 10, decay, last }
    }

    #[test]
    fn rates_rise_and_fall_as_they_should() {
        for decay in [Decay::InverseSquareRoot, Decay::Cosine, Decay::Linear, Decay::Constant] {
            assert_eq!(schedule(decay, 0.0).at(5), 1.0);
            assert_eq!(schedule(decay, 0.0).at(10), 2.0);
        }
        assert_eq!(schedule(Decay::InverseSquareRoot, 0.0).at(40), 1.0);
        assert_eq!(schedule(Decay::Cosine, 0.0).at(60), 1.0);
        assert!((schedule(Decay::Cosine, 0.1).at(110) - 0.2).abs() < 1e-6);
        assert_eq!(schedule(Decay::Linear, 0.5).at(60), 1.5);
        assert_eq!(schedule(Decay::Constant, 0.0).at(100), 2.0);
    }
}
