//! The checks.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use glassformer_graph::ops::Which;
use glassformer_graph::{
    Backend, Batch, Capacity, Case, Error, Graph, Op, PAGE, Pages, Reference, Span, State,
};
use glassformer_model::{Model, Purpose, page_layout};
use glassformer_tensor::{Random, Tolerance, compare};

use crate::samples::{Sampled, bits, close, gradients, sampled};
use crate::{LONGEST, alone, batch, bind, formula, model};

/// What `f32` may differ from `f64` by in one operation.
const OPERATION: f32 = 2e-5;

/// The same for a whole formula.
const FORMULA: f32 = 2e-4;

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many comparisons were made.
    pub checked: usize,
    /// Operations that the backend says it does not have.
    pub unsupported: BTreeSet<&'static str>,
}

impl Report {
    /// Counts what `run` gives, unless it is something that the backend does not have.
    fn take<T>(&mut self, run: Result<T, Error>) -> Result<Option<T>, String> {
        match run {
            Ok(found) => {
                self.checked += 1;
                Ok(Some(found))
            }
            Err(Error::Unsupported { op, .. }) => {
                self.unsupported.insert(op);
                Ok(None)
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.checked += other.checked;
        self.unsupported.extend(other.unsupported);
        self
    }
}

/// All checks, with `seeds` random formulas.
///
/// # Errors
/// The first thing that is not as it must be.
pub fn check(backend: &dyn Backend, seeds: u64) -> Result<Report, String> {
    let report = operations_agree(backend)?;
    let report = report.and(formulas_agree(backend, seeds)?);
    let report = report.and(each_alone(backend, seeds)?);
    Ok(report.and(cached_is_whole(backend, seeds)?))
}

/// Every case of every operation, and its gradient, against the reference.
///
/// # Errors
/// The first that differs.
pub fn operations_agree(backend: &dyn Backend) -> Result<Report, String> {
    let mut report = Report::default();
    let mut random = Random::new(1);
    let agree = |sample: &Sampled, report: &mut Report| {
        let Some(found) = report.take(sample.try_run(backend))? else { return Ok(()) };
        let expected = sample.run(&Reference);
        close(&found, &expected, OPERATION).map_err(|difference| format!("{}: {difference}", sample.name))
    };
    for case in Op::cases() {
        agree(&sampled(&case, &mut random), &mut report)?;
        let with_gradient = |case: &Case, random: &mut Random| gradients(case, random);
        if let Some(sample) = with_gradient(&case, &mut random) {
            agree(&sample, &mut report)?;
        }
    }
    Ok(report)
}

/// Random formulas against the reference.
///
/// # Errors
/// The first that differs.
pub fn formulas_agree(backend: &dyn Backend, seeds: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for_random(seeds, 3, |seed, model, _, given, patches| {
        let graph = model.graph(Purpose::Whole).map_err(|error| error.to_string())?;
        let (mut given, patches) = (given.clone(), patches.concat());
        bind(&mut given, &graph, &patches);
        let Some(found) = report.take(outputs(model, backend, &graph, &given))? else { return Ok(()) };
        let expected = outputs(model, &Reference, &graph, &given).map_err(|error| error.to_string())?;
        for (index, (name, _)) in graph.outputs().iter().enumerate() {
            // Without norms numbers grow, and so does what rounding leaves of their differences.
            let largest = expected[index].iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            let bound = Tolerance { absolute: FORMULA * largest, relative: FORMULA };
            compare(&found[index], &expected[index], bound)
                .map_err(|difference| format!("seed {seed}, {name}: {difference}\n{:#?}", model.formula()))?;
        }
        Ok(())
    })?;
    Ok(report)
}

/// Each sequence of a batch against itself alone: the same bits.
///
/// # Errors
/// The first that has others.
pub fn each_alone(backend: &dyn Backend, seeds: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for_random(seeds, 4, |seed, model, _, given, patches| {
        let graph = model.graph(Purpose::Whole).map_err(|error| error.to_string())?;
        let (mut whole, all) = (given.clone(), patches.concat());
        bind(&mut whole, &graph, &all);
        let Some(found) = report.take(outputs(model, backend, &graph, &whole))? else { return Ok(()) };
        let found = bits(&found);
        let mut start = vec![0; found.len()];
        for (index, patches) in patches.iter().enumerate() {
            let mut one = alone(given, index);
            bind(&mut one, &graph, patches);
            let one = outputs(model, backend, &graph, &one).map_err(|error| error.to_string())?;
            for (output, alone) in bits(&one).into_iter().enumerate() {
                let part = &found[output][start[output]..start[output] + alone.len()];
                if part != alone {
                    return Err(format!(
                        "seed {seed}, sequence {index}, output {output}: other bits than alone"
                    ));
                }
                start[output] += alone.len();
            }
        }
        Ok(())
    })?;
    Ok(report)
}

/// Targets read step by step, with keys and values in pages, against the whole at once: the same bits.
///
/// # Errors
/// The first that has others.
pub fn cached_is_whole(backend: &dyn Backend, seeds: u64) -> Result<Report, String> {
    let mut report = Report::default();
    for_random(seeds, 1, |seed, model, random, given, patches| {
        if model.formula().target.is_none() {
            return Ok(());
        }
        let graph = model.graph(Purpose::Whole).map_err(|error| error.to_string())?;
        let (mut whole, patches) = (given.clone(), patches.concat());
        bind(&mut whole, &graph, &patches);
        let rows = given.target.rows();
        let prompt = 1 + random.below(rows);
        let steps: Vec<usize> = iter::once(prompt).chain(iter::repeat_n(1, rows - prompt)).collect();
        let Some(found) = report.take(stepped(model, backend, given, &patches, &steps))? else {
            return Ok(());
        };
        let hidden = graph.output("hidden").ok_or("a whole graph has hidden rows")?;
        let expected = outputs(model, backend, &graph, &whole).map_err(|error| error.to_string())?;
        if bits(&[found]) == bits(&expected[hidden..=hidden]) {
            Ok(())
        } else {
            Err(format!("seed {seed}: other bits in steps {steps:?} than at once\n{:#?}", model.formula()))
        }
    })?;
    Ok(report)
}

/// Calls `check` with random models and batches of `count` sequences.
fn for_random(
    seeds: u64,
    count: usize,
    mut check: impl FnMut(u64, &Model, &mut Random, &Batch<'_>, &[Vec<f32>]) -> Result<(), String>,
) -> Result<(), String> {
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let formula = formula(&mut random);
        let model = model(&formula, &mut random);
        let (given, patches) = batch(&mut random, &formula, count);
        check(seed, &model, &mut random, &given, &patches)?;
    }
    Ok(())
}

/// All outputs of `graph`.
fn outputs(
    model: &Model,
    backend: &dyn Backend,
    graph: &Arc<Graph>,
    batch: &Batch<'_>,
) -> Result<Vec<Vec<f32>>, Error> {
    let runner = backend.prepare(graph, model, &Capacity::of(batch))?;
    crate::run(&*runner, &mut State::default(), batch)
}

/// The hidden rows of the target of one sequence, read in steps of these lengths after its source was encoded.
///
/// # Errors
/// If the backend cannot run them.
///
/// # Panics
/// If the model cannot be lowered.
pub fn stepped(
    model: &Model,
    backend: &dyn Backend,
    batch: &Batch<'_>,
    patches: &[f32],
    steps: &[usize],
) -> Result<Vec<f32>, Error> {
    let graph = model.graph(Purpose::Step).expect("it lowers");
    let pages = 2 + LONGEST.div_ceil(PAGE);
    let mut state = State::new(Pages::new(page_layout(&graph, Which::Cache), pages), Pages::default());
    let mut source = 0;
    if model.formula().source.is_some() {
        let encode = model.graph(Purpose::Encode).expect("it lowers");
        state.crossing = Pages::new(page_layout(&encode, Which::Crossing), pages);
        source = state.crossing.open();
        let mut given = Batch { source: batch.source.clone(), ..Batch::default() };
        given.source.spans[0].table = source;
        state.crossing.reserve(source, given.source.rows())?;
        bind(&mut given, &encode, patches);
        backend.prepare(&encode, model, &Capacity::of(&given))?.run(&mut state, &given)?;
        state.crossing.set_len(source, given.source.rows());
    }
    let table = state.cache.open();
    let hidden = graph.output("hidden").expect("an output");
    let (mut past, mut rows) = (0, Vec::new());
    for &len in steps {
        let mut step = Batch::default();
        let span = Span { table, past, source, ..Span::default() };
        step.target.push(&batch.target.tokens[past..past + len], span);
        step.target.pick_all();
        state.cache.reserve(table, past + len)?;
        let mut capacity = Capacity::of(&step);
        capacity.target.keys = LONGEST;
        let runner = backend.prepare(&graph, model, &capacity)?;
        runner.run(&mut state, &step)?;
        rows.extend_from_slice(&runner.output(&state, hidden)?);
        past += len;
    }
    Ok(rows)
}
