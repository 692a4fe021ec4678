//! Rows times a matrix: every projection of the Transformer ("dense", "fully connected").

use super::{Gradient, LinearInputGrad, LinearWeightGrad, Operation, Site, SumRows};
use crate::{Array, At, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = x Wᵀ (+ b)`. Inputs: x `[rows, in]`, W `[out, in]`, and b `[1, out]` where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear;

impl Operation for Linear {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        let (x, w, bias) = match *inputs {
            [x, w] => (x, w, None),
            [x, w, b] => (x, w, Some(b)),
            _ => return Err(format!("takes x, W and perhaps b, not {} inputs", inputs.len())),
        };
        let Rows::Fixed(out) = w.rows else {
            return Err(format!("W has a fixed number of rows, not {w}"));
        };
        if w.width != x.width {
            return Err(format!("x {x} does not fit W {w}"));
        }
        if let Some(b) = bias.filter(|&b| b != Shape::fixed(1, out)) {
            return Err(format!("b is {b} where [1, {out}] is needed"));
        }
        Ok(vec![x.with_width(out)])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        let (x, w) = (at.inputs[0], at.inputs[1]);
        let mut grads = vec![
            Some(build.add("input", LinearInputGrad, &[at.dy(), w])?),
            Some(build.add("weight", LinearWeightGrad, &[at.dy(), x])?),
        ];
        if at.inputs.len() == 3 {
            grads.push(Some(build.add("bias", SumRows, &[at.dy()])?));
        }
        Ok(Gradient::Inputs(grads))
    }

    fn reference(&self, inputs: &[&Array], _: &mut World<'_>) -> Vec<Array> {
        let (x, w) = (inputs[0], inputs[1]);
        vec![Array::tabulate(x.rows, w.rows, |i, j| {
            let product: f64 = x.row(i).iter().zip(w.row(j)).map(|(a, b)| a * b).sum();
            product + inputs.get(2).map_or(0.0, |b| b.at(0, j))
        })]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, at: &At<'_>, tally: &mut Tally<'_>) {
        let (x, y) = (at.shape(0), at.output());
        tally.work.products += 2.0 * tally.batch.count(y.rows) as f64 * x.width as f64 * y.width as f64;
    }

    fn cases() -> Vec<Case> {
        let x = |width| Shape::new(Rows::Tokens(Side::Source), width);
        vec![
            Case::new(Self, &[x(5), Shape::fixed(3, 5), Shape::fixed(1, 3)]),
            Case::new(Self, &[x(17), Shape::fixed(33, 17)]),
            Case::new(Self, &[Shape::fixed(1, 4), Shape::fixed(2, 4)]),
        ]
    }
}
