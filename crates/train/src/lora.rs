//! Low-rank adaptation: which matrices get one, how it begins, and what it adds up to.

use glassformer_model::Parameter;
use glassformer_tensor::{Random, Tensor};

use crate::Error;
use crate::passes::adapt::Adapter;

/// Low-rank adaptation of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LowRank {
    /// The rank of B A.
    pub rank: usize,
    /// What B A is multiplied by.
    pub factor: f32,
    /// Matrices whose names contain one of these are adapted.
    pub names: Vec<String>,
    /// What A is drawn from.
    pub seed: u64,
    /// Parameters that learn as a whole: those that are new to the model, such as its head for other labels.
    pub whole: Vec<String>,
}

impl LowRank {
    /// Whether the parameter `name` is adapted.
    pub fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|part| name.contains(part.as_str()))
    }

    /// Refuses a rank that no product of these matrices can have.
    pub(crate) fn fits(&self, adapters: &[Adapter]) -> Result<(), Error> {
        match adapters.iter().find(|adapter| self.rank > adapter.width.min(adapter.out)) {
            None => Ok(()),
            Some(Adapter { of, width, out }) => Err(Error::config(
                format!("model.lora.rank is {}, and {of} is {out} × {width}", self.rank),
                "a rank above the smaller of the two adds nothing; 8 is usual",
            )),
        }
    }

    /// How adapters begin: A is drawn within `±1/√in`, B is nought, so that at first nothing changes.
    pub(crate) fn begin(&self, adapters: &[Adapter]) -> Vec<(Parameter, Tensor)> {
        let mut random = Random::new(self.seed ^ 0x10FA);
        let mut all = Vec::new();
        for adapter in adapters {
            let mut down = Tensor::zeros(&[self.rank, adapter.width]);
            let bound = 1.0 / (adapter.width as f32).sqrt();
            down.data_mut().iter_mut().for_each(|x| *x = bound * (2.0 * random.uniform() - 1.0));
            let up = Tensor::zeros(&[adapter.out, self.rank]);
            for (name, tensor) in [(adapter.down(), down), (adapter.up(), up)] {
                all.push((Parameter { name, shape: tensor.shape().to_vec() }, tensor));
            }
        }
        all
    }

    /// `W + factor · B A`: the adapted matrix alone. `−factor` takes it out again, up to rounding.
    pub fn merge(weight: &[f32], down: &[f32], up: &[f32], (rank, factor): (usize, f32)) -> Vec<f32> {
        let width = down.len() / rank;
        let mut merged = weight.to_vec();
        for (row, up) in merged.chunks_exact_mut(width).zip(up.chunks_exact(rank)) {
            for (&u, down) in up.iter().zip(down.chunks_exact(width)) {
                row.iter_mut().zip(down).for_each(|(w, d)| *w += factor * u * d);
            }
        }
        merged
    }
}
