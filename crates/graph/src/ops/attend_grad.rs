//! The gradient of attention.

use super::{Attend, Gradient, Keys, NoGradient, Operation, Relative, Site, arity};
use crate::{Array, At, Builder, Case, Error, Limits, Shape, Tally, World};

/// With p the probabilities and `ds[j] = p[j] (dy · v[j] − dy · y)`: `dv[j] = p[j] dy`, `dq = scale Σⱼ ds[j] k[j]`,
/// `dk[j] = scale ds[j] q`, and ds itself flows into what [`Relative`] added.
///
/// Inputs: those of the attention, then y, the logarithm of the sum, and dy. Outputs: dq, dk, dv, and the gradients of
/// what [`Relative`] needs. p is recomputed from the logarithm of the sum, so nothing of size queries × keys is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttendGrad {
    /// The attention.
    pub attend: Attend,
}

impl Operation for AttendGrad {
    const OUTPUTS: &'static [&'static str] = &["query", "key", "value", "relative", "u", "v"];

    fn shape(&self, inputs: &[Shape]) -> Result<Vec<Shape>, String> {
        let Some(count) = inputs.len().checked_sub(3) else {
            return arity(inputs, 6).map(|()| Vec::new());
        };
        let outputs = self.attend.shape(&inputs[..count])?;
        if let Keys::Pages(..) = self.attend.keys {
            return Err("stored keys have no gradient".into());
        }
        super::same("y", inputs[count], outputs[0])?;
        super::same("logsum", inputs[count + 1], outputs[1])?;
        super::same("dy", inputs[count + 2], outputs[0])?;
        Ok(inputs[..count].to_vec())
    }

    fn gradient(&self, _: &Site<'_>, _: &mut Builder) -> Result<Gradient, Error> {
        Ok(Gradient::None(NoGradient::IsGradient))
    }

    fn reference(&self, inputs: &[&Array], world: &mut World<'_>) -> Vec<Array> {
        let Self { attend } = self;
        let count = inputs.len() - 3;
        let (given, dy) = (&inputs[..count], inputs[count + 2]);
        let mut grads: Vec<Array> = given.iter().map(|x| Array::zeros(x.rows, x.width)).collect();
        let size = attend.size;
        attend.for_each_query(given, world, |query| {
            let columns = query.head * size..(query.head + 1) * size;
            let key_columns = query.key_head * size..(query.key_head + 1) * size;
            let q = &given[0].row(query.row)[columns.clone()];
            let dy = &dy.row(query.row)[columns.clone()];
            let p = query.probabilities();
            let value = |j| attend.key_or_value(given, world, &query.keys, (j, query.key_head, 1));
            let dp: Vec<f64> =
                query.seen.iter().map(|&j| dy.iter().zip(value(j)).map(|(a, b)| a * b).sum()).collect();
            let mean: f64 = p.iter().zip(&dp).map(|(p, dp)| p * dp).sum();
            for ((&j, p), dp) in query.seen.iter().zip(&p).zip(dp) {
                let ds = p * (dp - mean);
                let scaled = ds * f64::from(attend.scale);
                let k = attend.key_or_value(given, world, &query.keys, (j, query.key_head, 0));
                let row = query.keys.place + j;
                let add = |into: &mut [f64], factor: f64, from: &[f64]| {
                    into.iter_mut().zip(from).for_each(|(sum, x)| *sum += factor * x);
                };
                add(&mut grads[2].row_mut(row)[key_columns.clone()], *p, dy);
                add(&mut grads[0].row_mut(query.row)[columns.clone()], scaled, &k);
                add(&mut grads[1].row_mut(row)[key_columns.clone()], scaled, q);
                match attend.relative {
                    Relative::None | Relative::Alibi => {}
                    Relative::Buckets { max_distance } => {
                        let bucket = attend.bucket(query.at, j, given[3].rows, max_distance);
                        grads[3].row_mut(bucket)[query.head] += ds;
                    }
                    Relative::TransformerXl => {
                        let (r, u, v) = (&given[3].row(query.at - j), given[4].row(0), given[5].row(0));
                        add(&mut grads[0].row_mut(query.row)[columns.clone()], scaled, &r[columns.clone()]);
                        add(&mut grads[1].row_mut(row)[key_columns.clone()], scaled, &u[columns.clone()]);
                        let qv: Vec<f64> = q.iter().zip(&v[columns.clone()]).map(|(q, v)| q + v).collect();
                        add(&mut grads[3].row_mut(query.at - j)[columns.clone()], scaled, &qv);
                        add(&mut grads[4].row_mut(0)[columns.clone()], scaled, &k);
                        add(&mut grads[5].row_mut(0)[columns.clone()], scaled, &r[columns.clone()]);
                    }
                }
            }
        });
        grads
    }

    /// None by itself, since y and the logarithm must be the attention's own: the gradient of every case of
    /// [`Attend`] runs it.
    fn limits(&self, at: &At<'_>, limits: &mut Limits) {
        self.attend.limits(at, limits);
    }

    fn work(&self, _: &At<'_>, _: &mut Tally<'_>) {}

    fn cases() -> Vec<Case> {
        Vec::new()
    }
}
