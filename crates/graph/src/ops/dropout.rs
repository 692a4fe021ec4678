//! Numbers left out at random while training (Srivastava et al. 2014).

use glassformer_tensor::Random;

use super::{Gradient, Operation, Site, arity};
use crate::{Array, At, Batch, Builder, Case, Error, Limits, Rows, Shape, Side, Tally, World};

/// `y = x / (1 − rate)` where the draw of that row and column is kept, 0 elsewhere.
///
/// The draw depends on the batch's seed, this site, the row and the column alone, so it is the same on any number of
/// threads, and the gradient is the same operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// How many of a hundred are left out, over a hundred.
    pub rate: f32,
    /// Different for every place in the graph.
    pub site: u64,
}

impl Dropout {
    /// The key of this run's draws.
    pub fn key(&self, batch: &Batch<'_>) -> u64 {
        batch.seed ^ self.site.wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    /// What the number at `index` (row · width + column) is multiplied by.
    #[inline]
    pub fn factor(&self, key: u64, index: usize) -> f32 {
        if Random::at(key, index as u64) < self.rate { 0.0 } else { 1.0 / (1.0 - self.rate) }
    }
}

impl Operation for Dropout {
    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        arity(inputs, 1)?;
        if !(0.0..1.0).contains(&self.rate) {
            return Err(format!("the rate {} is not in [0, 1)", self.rate));
        }
        Ok(vec![inputs[0]])
    }

    fn gradient(&self, at: &Site<'_>, build: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::Inputs(vec![Some(build.add("input", *self, &[at.dy()])?)]))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let (x, key) = (inputs[0], self.key(world.batch));
        vec![Array::tabulate(x.rows, x.width, |i, j| {
            x.at(i, j) * f64::from(self.factor(key, i * x.width + j))
        })]
    }

    fn limits(&self, _: &At<'_>, _: &mut Limits) {}

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        let x = Shape::new(Rows::Tokens(Side::Source), 19);
        vec![Case::new(Self { rate: 0.25, site: 7 }, &[x]), Case::new(Self { rate: 0.0, site: 1 }, &[x])]
    }
}
