//! What an optimiser adds to a graph of gradients: their length, their sums over several batches, and a step of AdamW for each
//! parameter. All of it are operations of the graph, so that parameters and moments stay where the backend keeps them.

use glassformer_graph::ops::{Accumulate, AdamW, Add, Scale, Step, SumSquares};
use glassformer_graph::{Builder, Error, Shape, Value};

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

impl Rates {
    /// What step number `number`, counted from 1, is given.
    pub(crate) fn step(&self, number: i32, rate: f32, average: Option<f32>) -> Step {
        // An average that began with the first draws would remember them for long: it is short at first.
        let at = number as f32;
        let kept = average.map_or(0.0, |kept| kept.min((1.0 + at) / (10.0 + at)));
        let [first, second] = [self.beta1, self.beta2].map(|beta| 1.0 - beta.powi(number));
        Step { rate, first, second: second.sqrt(), kept }
    }
}

/// How one parameter differs from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Own {
    /// Its rate is this times the rate; 0 leaves it as it is.
    pub rate: f32,
    /// Its decay.
    pub decay: f32,
}

/// What is kept for a parameter besides itself, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    First,
    Second,
    Average,
    Sum,
}

impl Kept {
    pub fn of(self, parameter: &str) -> String {
        let kind = match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Average => "average",
            Self::Sum => "sum",
        };
        format!("{kind}.{parameter}")
    }
}

/// The name of the input that tells whether sums begin anew.
pub(crate) const BEGINS: &str = "begins";
/// The name of the input that is the [`Step`].
pub(crate) const STEP: &str = "step";
/// The name of the output that is the square of the length of all gradients.
pub(crate) const SQUARE: &str = "square";

/// Inputs of one sum of squares: as many as any backend takes.
const TOGETHER: usize = 24;

/// A parameter that learns.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    pub name: String,
    pub shape: Shape,
    pub own: Own,
}

/// Adds the gradients to their sums, which begin anew where the input [`BEGINS`] is 1.
pub(crate) fn gather(build: &mut Builder, gradients: &[(Learner, Value)]) -> Result<(), Error> {
    let begins = build.input(BEGINS, Shape::fixed(1, 1))?;
    for (learner, gradient) in gradients {
        let sum = build.kept(&Kept::Sum.of(&learner.name), learner.shape)?;
        let new = build.add(
            &format!("{}.new", Kept::Sum.of(&learner.name)),
            Accumulate,
            &[sum, *gradient, begins],
        )?;
        build.update(sum, new)?;
    }
    Ok(())
}

/// Moves every parameter against its gradient. Where the loss or a gradient is not finite, nothing moves.
pub(crate) fn update(
    build: &mut Builder,
    gradients: &[(Learner, Value)],
    loss: Option<Value>,
    rates: &Rates,
    clip: Option<f32>,
    average: bool,
) -> Result<(), Error> {
    let mut square = None;
    for part in gradients.chunks(TOGETHER) {
        let values: Vec<Value> = part.iter().map(|(_, gradient)| *gradient).collect();
        square = Some(both(build, square, "squares", |build| build.add("squares", SumSquares, &values))?);
    }
    if let Some(loss) = loss {
        // Nought times what is not finite is not finite either.
        square = Some(both(build, square, "guarded", |build| build.add("guard", Scale::all(0.0), &[loss]))?);
    }
    let Some(square) = square else { return Ok(()) };
    build.output(SQUARE, square);
    let step = build.input(STEP, Shape::fixed(1, 4))?;
    for (learner, gradient) in gradients {
        let Learner { name, shape, own } = learner;
        let weight = build.kept(name, *shape)?;
        let [first, second] = [Kept::First, Kept::Second].map(|kind| kind.of(name));
        let (first, second) = (build.kept(&first, *shape)?, build.kept(&second, *shape)?);
        let mut inputs = vec![weight, *gradient, first, second, step, square];
        let mut kept = vec![weight, first, second];
        if average {
            let average = build.kept(&Kept::Average.of(name), *shape)?;
            inputs.push(average);
            kept.push(average);
        }
        let Rates { beta1, beta2, epsilon, .. } = *rates;
        let op = AdamW { beta1, beta2, epsilon, rate: own.rate, decay: own.decay, clip };
        let made = build.add_all(&format!("{name}.moved"), op, &inputs)?;
        for (kept, new) in kept.into_iter().zip(made) {
            build.update(kept, new)?;
        }
    }
    Ok(())
}

/// What there is so far and one more, added.
fn both(
    build: &mut Builder,
    sum: Option<Value>,
    name: &str,
    more: impl FnOnce(&mut Builder) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let more = more(build)?;
    match sum {
        None => Ok(more),
        Some(sum) => build.add(name, Add, &[sum, more]),
    }
}
