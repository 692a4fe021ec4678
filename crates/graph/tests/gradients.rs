//! Every gradient against central differences of the reference, input by input and number by number.
//!
//! The loss is Σ out ⊙ probe with a random probe, so every output takes part. Differences are taken in `f64` over steps
//! that are exact in `f32`, away from points where an operation has no derivative.

use std::collections::HashMap;
use std::sync::Arc;

use glassformer_graph::ops::{Add, DotColumns, SumRows};
use glassformer_graph::{Batch, Builder, Case, Error, Graph, Op, Reference, Value, grad};
use glassformer_tensor::{Random, Tensor};

const STEP: f32 = 1e-3;
/// Of the number, and of the largest one: what the third derivative leaves of a step of 1e-3.
const BOUND: f64 = 1e-4;

/// The case's operation with a loss `loss` over all its outputs.
fn with_loss(case: &Case) -> Result<(Graph, String), Error> {
    let mut build = Builder::new();
    let mut inputs: Vec<Value> = Vec::new();
    for (k, &shape) in case.inputs.iter().enumerate() {
        inputs.push(build.input(&format!("in.{k}"), shape)?);
    }
    let mut outputs = build.add_all("out", case.op.clone(), &inputs)?;
    if let Op::Attend(_) = case.op {
        outputs.truncate(1); // the logarithm is for the gradient alone
    }
    let mut loss: Option<Value> = None;
    for (k, out) in outputs.into_iter().enumerate() {
        let probe = build.input(&format!("probe.{k}"), build.shape(out))?;
        let rows = build.add("rows", DotColumns, &[out, probe])?;
        let sum = build.add("sum", SumRows, &[rows])?;
        loss = Some(match loss {
            None => sum,
            Some(loss) => build.add("both", Add, &[loss, sum])?,
        });
    }
    let loss = loss.map_or(String::new(), |loss| build.graph().info(loss).name.clone());
    Ok((build.finish(), loss))
}

/// Moves numbers away from where an operation bends sharply: `Relu` at zero, halting at its threshold and at one.
fn smooth(op: &Op, inputs: &mut [Vec<f32>]) {
    let room = 4.0 * STEP;
    for number in inputs.iter_mut().flatten().filter(|number| number.abs() < room) {
        *number = room.copysign(*number);
    }
    if let Op::Halt(halt) = op {
        let [p, h, ..] = inputs else { return };
        for (p, h) in p.iter_mut().zip(h) {
            if (*h - 1.0).abs() < room {
                *h = 1.0 + 2.0 * room;
            }
            if (*h + *p - halt.threshold).abs() < room {
                *p += 2.0 * room;
            }
        }
    }
}

/// The loss, and the gradients after it.
fn evaluate(graph: &Arc<Graph>, batch: &Batch<'static>, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let weights: HashMap<String, Tensor> = HashMap::new();
    let batch = Batch { inputs: inputs.iter().map(Vec::as_slice).collect(), ..batch.clone() };
    let outputs = Reference::evaluate(graph, &weights, &batch).expect("the case runs");
    outputs.into_iter().map(|array| array.data).collect()
}

fn check(case: &Case, seed: u64) -> bool {
    let (mut plain, loss) = with_loss(case).expect("the case fits its operation");
    let names: Vec<String> = (0..case.inputs.len()).map(|k| format!("in.{k}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() || loss.is_empty() {
        return false;
    }
    let back = match grad::grad(&plain, &loss, &names) {
        Ok(graph) => Arc::new(graph),
        Err(Error::NoGradient { .. }) => return false,
        Err(error) => panic!("{:?}: {error}", case.op),
    };
    let value = plain.value(&loss).expect("it was just built");
    let mut build = Builder::extend(std::mem::take(&mut plain));
    build.output("loss", value);
    let plain = Arc::new(build.finish());

    let (batch, mut inputs) = case.draw(&plain, &mut Random::new(seed));
    smooth(&case.op, &mut inputs);
    let found = evaluate(&back, &batch, &inputs);
    for (k, found) in found.iter().enumerate() {
        if matches!(case.op, Op::Recall(_)) && k == 0 {
            assert!(found.iter().all(|&x| x == 0.0), "no gradient flows into the memory");
            continue;
        }
        let most = found.iter().fold(1.0_f64, |most, x| most.max(x.abs()));
        for (index, &found) in found.iter().enumerate() {
            let here = inputs[k][index];
            let mut at = |number: f32| {
                inputs[k][index] = number;
                evaluate(&plain, &batch, &inputs)[0][0]
            };
            let (up, down) = (here + STEP, here - STEP);
            let expected = (at(up) - at(down)) / (f64::from(up) - f64::from(down));
            inputs[k][index] = here;
            assert!(
                (found - expected).abs() <= BOUND * (most + expected.abs()),
                "{:?}, input {k} at {index}: the gradient is {found}, the difference {expected}",
                case.op
            );
        }
    }
    true
}

#[test]
fn gradients_agree_with_finite_differences() {
    let checked = [1, 2].map(|seed| Op::cases().iter().filter(|case| check(case, seed)).count());
    assert!(checked.iter().all(|&count| count > 50), "only {checked:?} cases have a gradient");
}
