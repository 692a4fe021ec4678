//! Adaptive softmax (Grave et al. 2016): frequent words and clusters of rare ones compete first, words of a cluster then.

use super::{AdaptiveGrad, Gradient, Operation, Site};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// The logarithms of all words' probabilities, cluster after cluster.
///
/// Inputs: the scores of the first cluster's words `[rows, n₀]`, of the other clusters themselves `[rows, clusters − 1]`, then
/// of the words of each other cluster `[rows, nᵢ]`. A single cluster has one input, and this is a plain log-softmax.
/// `y = log-softmax(first ‖ clusters)` for the first words, `y = log p(cluster i) + log-softmax(wordsᵢ)` for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive;

/// `ln Σ exp` of numbers.
fn log_sum(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
    most + numbers.map(|x| (x - most).exp()).sum::<f64>().ln()
}

impl Adaptive {
    pub(super) fn samples() -> [Vec<Shape>; 2] {
        let x = |width| Shape::new(Rows::Picked(Side::Target), width);
        [vec![x(5)], vec![x(7), x(2), x(18), x(3)]]
    }
}

impl Operation for Adaptive {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        let Some(first) = inputs.first() else { return Err("takes at least the first cluster".into()) };
        if inputs.len() > 1 && (inputs.len() == 2 || inputs[1].width != inputs.len() - 2) {
            return Err(format!("{} clusters of scores for {} others", inputs[1].width, inputs.len() - 2));
        }
        if inputs.iter().any(|input| input.rows != first.rows) {
            return Err("scores of different rows".into());
        }
        let others: usize = inputs.iter().skip(2).map(|input| input.width).sum();
        Ok(vec![first.with_width(first.width + others)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let widths = at.inputs.iter().map(|&input| build.shape(input).width).collect();
        let grads = build.add_all(
            "first",
            AdaptiveGrad { widths },
            &[at.inputs, &[at.outputs[0], at.dy()]].concat(),
        )?;
        Ok(Gradient::Inputs(grads.into_iter().map(Some).collect()))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let width = inputs[0].width + inputs.iter().skip(2).map(|input| input.width).sum::<usize>();
        let mut y = Array { rows: inputs[0].rows, width, data: Vec::new() };
        for row in 0..y.rows {
            let clusters = inputs.get(1).map_or(&[][..], |clusters| clusters.row(row));
            let all = log_sum(inputs[0].row(row).iter().chain(clusters).copied());
            y.data.extend(inputs[0].row(row).iter().map(|x| x - all));
            for (words, cluster) in inputs.iter().skip(2).zip(clusters) {
                let within = log_sum(words.row(row).iter().copied());
                y.data.extend(words.row(row).iter().map(|x| cluster - all + x - within));
            }
        }
        vec![y]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        Self::samples().iter().map(|inputs| Case::new(Self, inputs)).collect()
    }
}
