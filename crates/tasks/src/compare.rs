//! Two models side by side: how far the logits of one are from those of the other on the same texts.

use glassformer_engine::Sequence;
use glassformer_formula::Head;

use crate::{Error, TextEncoder};

/// How near two models are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Rows of logits that were compared.
    pub rows: usize,
    /// Rows whose largest logit is the same one in both.
    pub same: usize,
    /// The mean over rows of the cosine of the angle between both.
    pub cosine: f64,
    /// The smallest of them.
    pub least: f64,
    /// The largest difference of two logits.
    pub largest: f32,
    /// The largest logit of the first model, without its sign.
    pub size: f32,
}

impl Comparison {
    /// One more row.
    fn add(&mut self, a: &[f32], b: &[f32]) {
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
        };
        let best = |x: &[f32]| (0..x.len()).max_by(|&i, &j| x[i].total_cmp(&x[j]).then(j.cmp(&i)));
        let lengths = (dot(a, a) * dot(b, b)).sqrt();
        let cosine = if lengths > 0.0 { dot(a, b) / lengths } else { 1.0 };
        self.least = if self.rows == 0 { cosine } else { self.least.min(cosine) };
        self.cosine = (self.cosine * self.rows as f64 + cosine) / (self.rows + 1) as f64;
        self.rows += 1;
        self.same += usize::from(best(a) == best(b));
        self.size = a.iter().fold(self.size, |most, x| most.max(x.abs()));
        self.largest = a.iter().zip(b).fold(self.largest, |most, (x, y)| most.max((x - y).abs()));
    }
}

impl TextEncoder {
    /// How near `other`, which is the same model in other numbers, is to this one on `samples`.
    ///
    /// # Errors
    /// If a model cannot run one of them.
    pub fn compare(&self, other: &Self, samples: &[Sequence]) -> Result<Comparison, Error> {
        let output = match self.checkpoint().model.formula().head {
            Head::Rows => "hidden",
            Head::Words { .. }
            | Head::Adaptive { .. }
            | Head::Classes { .. }
            | Head::Tags { .. }
            | Head::Spans => "logits",
        };
        let mut found = Comparison::default();
        for sequence in samples {
            let mut both = [Vec::new(), Vec::new()];
            for (encoder, numbers) in [self, other].into_iter().zip(&mut both) {
                encoder.run_sequences(std::slice::from_ref(sequence), output, |_, rows| {
                    numbers.extend_from_slice(rows);
                })?;
            }
            let rows = match output {
                _ if sequence.target.is_empty() => sequence.source.len(),
                _ => sequence.target.len(),
            };
            let width = self.width(&both[0], rows);
            for (a, b) in both[0].chunks_exact(width).zip(both[1].chunks_exact(width)) {
                found.add(a, b);
            }
        }
        Ok(found)
    }

    /// The numbers of one row, of which there are `rows`, or one for the whole text.
    fn width(&self, numbers: &[f32], rows: usize) -> usize {
        let whole = matches!(self.checkpoint().model.formula().head, Head::Classes { .. });
        (numbers.len() / if whole { 1 } else { rows.max(1) }).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_equal_and_others_are_told_apart() {
        let mut found = Comparison::default();
        found.add(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]);
        assert_eq!((found.rows, found.same, found.largest, found.size), (1, 1, 0.0, 3.0));
        assert!((found.cosine - 1.0).abs() < 1e-12);
        found.add(&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]);
        assert_eq!((found.rows, found.same, found.largest, found.least), (2, 1, 1.0, 0.0));
        assert!((found.cosine - 0.5).abs() < 1e-12);
    }
}
