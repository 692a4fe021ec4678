//! The gradient of an adaptive softmax.

use super::{Gradient, NoGradient, Operation, Site, arity, same};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// With Sᵢ the sum of dy over cluster i: `d first = dy₀ − p Σ dy`, `d clusters = Sᵢ − p Σ dy`, `d wordsᵢ = dyᵢ − q Sᵢ`, where p are
/// the probabilities of the first softmax and q those within the cluster.
/// Inputs: those of the forward operation, its result y, and dy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdaptiveGrad {
    /// The widths of the forward operation's inputs.
    pub widths: Vec<usize>,
}

impl Operation for AdaptiveGrad {
    const OUTPUTS: &'static [&'static str] =
        &["first", "clusters", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, self.widths.len() + 2)?;
        if self.widths.len() > Self::OUTPUTS.len() {
            return Err(format!("at most {} clusters can be trained", Self::OUTPUTS.len() - 1));
        }
        let of = &inputs[..self.widths.len()];
        let made = super::Adaptive.shape(of)?;
        same("y", inputs[of.len()], made[0])?;
        same("dy", inputs[of.len() + 1], made[0])?;
        Ok(of.to_vec())
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let count = self.widths.len();
        let (y, dy) = (inputs[count], inputs[count + 1]);
        let mut grads: Vec<Array> = inputs[..count].iter().map(|x| Array::zeros(x.rows, x.width)).collect();
        for row in 0..y.rows {
            let total: f64 = dy.row(row).iter().sum();
            let first = self.widths[0];
            for j in 0..first {
                grads[0].row_mut(row)[j] = dy.at(row, j) - y.at(row, j).exp() * total;
            }
            let mut start = first;
            for cluster in 2..count {
                let words = start..start + self.widths[cluster];
                let sum: f64 = dy.row(row)[words.clone()].iter().sum();
                let share: f64 = y.row(row)[words.clone()].iter().map(|y| y.exp()).sum(); // p(cluster)
                grads[1].row_mut(row)[cluster - 2] = sum - share * total;
                for (j, word) in words.clone().enumerate() {
                    grads[cluster].row_mut(row)[j] = dy.at(row, word) - y.at(row, word).exp() / share * sum;
                }
                start = words.end;
            }
        }
        grads
    }

    /// None by itself, since y must be the softmax's own: the gradient of every case of [`super::Adaptive`] runs it.
    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        Vec::new()
    }
}
