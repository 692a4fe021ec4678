//! Every line that is shown holds for the numbers that are shown: each formula is read as a person reads it and evaluated in `f64` from
//! the numbers that stand above it and from the weights, for every architecture of the fixtures and for variants that no checkpoint has.
//!
//! It went wrong once: `Q = X · W_Q` stood beside a Q that was RMS(X) · `W_Q`, and unrotated Q and K beside scores of rotated ones.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use glassformer_conformance as common;
use glassformer_cpu::Cpu;
use glassformer_engine::Sequence;
use glassformer_explain::replay::{Array, World, evaluate};
use glassformer_explain::{
    Detail, Ending, Layout, Likely, Operand, Shown, Tour, Trace, Walkthrough, worked_example,
};
use glassformer_families::{Checkpoint, open, open_for_embedding};
use glassformer_formula::{Head, Input};
use glassformer_graph::Side;
use glassformer_model::{Model, initialise};
use glassformer_tensor::{Random, Tensor};
use glassformer_weights::Weights;

/// How far a number may lie from what its line says, relative to the largest of its tensor: `f32` beside `f64`.
const BOUND: f64 = 1e-4;

/// A run whose lines are replayed.
struct Told {
    model: Model,
    sequence: Sequence,
    trace: Trace,
    walkthrough: Walkthrough,
}

impl Told {
    fn new(model: &Model, sequence: Sequence, detail: Detail) -> Result<Self, String> {
        let ending = match model.formula().head {
            Head::Words { .. } | Head::Adaptive { .. } if model.formula().target.is_some() => {
                let count = 2.min(sequence.target.len() - 1);
                Ending::Written { answer: "answer", count, beams: 1 }
            }
            Head::Words { .. } | Head::Adaptive { .. } => Ending::Blanks { places: vec![0] },
            Head::Classes { .. } => Ending::Classes { names: &[], likely: Likely::Softmax },
            Head::Tags { .. } => Ending::Tags { names: &[], likely: Likely::Sigmoid },
            Head::Spans => Ending::Span { best: Some((0, 0)) },
            Head::Rows => Ending::Rows,
        };
        let likely = match ending {
            Ending::Written { .. } | Ending::Blanks { .. } => Likely::Softmax,
            Ending::Classes { likely, .. } | Ending::Tags { likely, .. } => likely,
            Ending::Span { .. } | Ending::Rows => Likely::Scores,
        };
        let mut read = sequence.clone();
        if let Ending::Written { .. } = ending {
            read.target.pop();
        }
        let token = |id: u32| format!("t{id}");
        let tour = Tour { text: "text", sequence, ending, token: &token, detail };
        let cpu = Cpu::default();
        let walkthrough = tour.walk(model, &cpu).map_err(|error| error.to_string())?;
        let trace = Trace::likely(model, &cpu, &read, likely).map_err(|error| error.to_string())?;
        Ok(Self { model: model.clone(), sequence: read, trace, walkthrough })
    }

    /// All tensors in the order in which they are shown.
    fn shown(&self) -> impl Iterator<Item = &Shown> {
        self.walkthrough.steps.iter().flat_map(|step| &step.tensors)
    }

    /// How many lines hold; what is wrong with the first that does not.
    fn replay(&self) -> Result<usize, String> {
        let mut above: HashMap<&str, Array> = HashMap::new();
        // What is shown in part is known as a whole.
        let whole = |name: &str| -> Result<Array, String> {
            match self.trace.get(name) {
                Ok(traced) => Ok(array(&traced.tensor)),
                Err(error) => Err(error.to_string()),
            }
        };
        let mut replayed = 0;
        for shown in self.shown() {
            if shown.symbol.contains(" = ") {
                self.holds(shown, &shown.symbol, &above)
                    .map_err(|why| format!("{}, {:?}: {why}", shown.name, shown.symbol))?;
                replayed += 1;
            }
            let numbers = shown.numbers.iter().map(|&x| f64::from(x)).collect();
            let found = match (&shown.rows, &shown.columns) {
                (None, None) => Array::new(&shown.shape, numbers),
                (_, _) => whole(&shown.name)?,
            };
            above.insert(&shown.name, found);
        }
        Ok(replayed)
    }

    /// Whether `line` holds for the numbers of `shown`.
    fn holds(&self, shown: &Shown, line: &str, above: &HashMap<&str, Array>) -> Result<(), String> {
        let whole = self.trace.get(&shown.name).map_err(|error| error.to_string())?.tensor;
        let mut operands = HashMap::new();
        for operand in &shown.operands {
            let found = self.operand(&operand.tensor, above, whole.shape())?;
            let found = match operand.layout {
                Layout::AsHeld => found,
                Layout::Transposed => found.transposed()?,
            };
            if let Some(other) = operands.insert(operand.symbol.clone(), found.clone())
                && other != found
            {
                return Err(format!("{} stands for two things", operand.symbol));
            }
        }
        let side = if shown.name.starts_with("source") || self.sequence.target.is_empty() {
            Side::Source
        } else {
            Side::Target
        };
        let (ids, types, global) = match side {
            Side::Source => (&self.sequence.source, self.sequence.types.clone(), &self.sequence.global[..]),
            Side::Target => (&self.sequence.target, Vec::new(), &[][..]),
        };
        // Patches have no ids; how many there are is known.
        let rows = self.trace.values().iter().find(|value| value.name.starts_with(&side.to_string()));
        let rows = rows.and_then(|value| value.tensor.shape().first().copied()).unwrap_or(0);
        let ids = if ids.is_empty() { vec![0; rows] } else { ids.clone() };
        let global = (0..ids.len()).map(|row| global.contains(&row)).collect();
        let world = World { ids, types, global, operands, shape: whole.shape().to_vec() };
        let said = evaluate(line, &world)?;
        if said.shape != whole.shape() {
            return Err(format!("it gives {:?}, and {:?} is shown", said.shape, whole.shape()));
        }
        close(&part(&said, shown), &shown.numbers)
    }

    /// The numbers of `name`: what was shown above, or a weight. Scores of a whole vocabulary are not shown, and rows that are
    /// remembered of a text before are none.
    fn operand(&self, name: &str, above: &HashMap<&str, Array>, shape: &[usize]) -> Result<Array, String> {
        if let Some(found) = above.get(name) {
            return Ok(found.clone());
        }
        match self.model.tensor(name) {
            Some(weight) => Ok(array(&weight)),
            None if name == "logits" => {
                Ok(array(&self.trace.get(name).map_err(|error| error.to_string())?.tensor))
            }
            None if name.ends_with(".memory") => {
                let [rows, width] = *shape else { return Err("memory of no rows".to_owned()) };
                let rows = rows - self.sequence.target.len();
                Ok(Array::new(&[rows, width], vec![0.0; rows * width]))
            }
            None if name.ends_with(".patches") && !self.sequence.patches.is_empty() => {
                // A learned row leads; what stands there before it is zero.
                let input = self.model.formula().source.as_ref().map(|side| &side.input);
                let Some(Input::Patches(image)) = input else { return Err("no patches are read".to_owned()) };
                let width = image.size * image.size * image.channels;
                let mut numbers = vec![0.0; shape[0] * width - self.sequence.patches.len()];
                numbers.extend(self.sequence.patches.iter().map(|&x| f64::from(x)));
                Ok(Array::new(&[shape[0], width], numbers))
            }
            None => Err(format!("{name} is not shown above")),
        }
    }
}

/// The numbers of a tensor; a bias is a row.
fn array(tensor: &Tensor) -> Array {
    Array::from(tensor.clone())
}

/// The rows and columns of `all` that are shown.
fn part(all: &Array, shown: &Shown) -> Vec<f64> {
    let width = all.shape.last().copied().unwrap_or(1);
    let inner: usize = all.shape.iter().skip(1).product();
    let rows = shown.rows.clone().unwrap_or_else(|| (0..all.shape[0]).collect());
    let columns = shown.columns.clone().unwrap_or_else(|| (0..width).collect());
    let data = all.data();
    let numbers = rows.iter().flat_map(|row| data[row * inner..(row + 1) * inner].chunks(width));
    numbers.flat_map(|numbers| columns.iter().map(move |&column| numbers[column])).collect()
}

fn close(said: &[f64], shown: &[f32]) -> Result<(), String> {
    let largest = said.iter().copied().filter(|x| x.is_finite()).fold(1e-3, |most: f64, x| most.max(x.abs()));
    for (k, (&said, &shown)) in said.iter().zip(shown).enumerate() {
        let shown = f64::from(shown);
        if said != shown && {
            let off = (said - shown).abs();
            off.is_nan() || off > BOUND * largest
        } {
            return Err(format!("number {k} is {said} by the line, and {shown} is shown"));
        }
    }
    Ok(())
}

pub(super) fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hf");
    let entries = std::fs::read_dir(folder).expect("the fixtures are in the repository");
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    cases.retain(|case| case.join("golden.safetensors").exists());
    cases.sort();
    cases
}

pub(super) fn name(case: &Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The checkpoint of a fixture with a sequence of a few tokens; nothing where it is not read yet.
pub(super) fn opened(case: &Path) -> Option<(Checkpoint, Sequence)> {
    let opened = if case.join("modules.json").exists() { open_for_embedding(case) } else { open(case) };
    let checkpoint = opened.ok()?;
    let golden = Weights::open(case.join("golden.safetensors")).expect("it opens");
    let list = |name: &str| golden.integers(&format!("2.{name}")).unwrap_or_default();
    let ids = |name: &str| list(name).into_iter().map(|id| id as u32).collect::<Vec<u32>>();
    let mut sequence = Sequence { types: ids("types"), ..Sequence::default() };
    sequence.global = list("global").into_iter().map(|place| place as usize).collect();
    if checkpoint.model.formula().source.is_some() {
        (sequence.source, sequence.target) = (ids("ids"), ids("target_ids"));
    } else {
        sequence.target = ids("ids");
    }
    if sequence.global.is_empty() {
        sequence.global.clone_from(&checkpoint.global);
    }
    if sequence.target.is_empty() && checkpoint.model.formula().target.is_some() {
        sequence.target = checkpoint.shifted(&sequence.source);
    }
    Some((checkpoint, sequence))
}

#[test]
fn every_line_holds_for_every_architecture() {
    let (mut replayed, mut seen, mut wrong) = (0, 0, Vec::new());
    for case in fixtures() {
        let Some((checkpoint, sequence)) = opened(&case) else {
            assert!(name(&case).starts_with("gemma2"), "{} should open", name(&case));
            continue;
        };
        let told = Told::new(&checkpoint.model, sequence, Detail::All);
        match told.and_then(|told| told.replay()) {
            Ok(lines) => replayed += lines,
            Err(error) => wrong.push(format!("{}: {error}", name(&case))),
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{} of {seen} models are told wrongly:\n{}", wrong.len(), wrong.join("\n"));
    println!("{replayed} lines of {seen} models hold");
    assert!(seen > 70 && replayed > 2000, "only {replayed} lines of {seen} models were replayed");
}

/// The worked example once had lines of its own, written by hand.
#[test]
fn every_line_of_the_worked_example_holds() {
    let cpu = Cpu::default();
    let walkthrough = worked_example::walkthrough(&cpu).expect("it runs");
    let model = worked_example::model(worked_example::SEED).expect("it is made");
    let source: Vec<u32> = (0..worked_example::SOURCE.len() as u32).collect();
    let mut target = vec![worked_example::START];
    let mut runs = Vec::new();
    while target.last() != Some(&worked_example::END) {
        let sequence = Sequence { source: source.clone(), target: target.clone(), ..Sequence::default() };
        let trace = Trace::run(&model, &cpu, &sequence).expect("it runs");
        let likely = trace.get("probabilities").expect("there are some").tensor;
        let last = &likely.data()[likely.data().len() - worked_example::TARGET.len()..];
        let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).expect("there are words");
        target.push(best as u32);
        runs.push(Told { model: model.clone(), sequence, trace, walkthrough: walkthrough.clone() });
    }
    let mut above: HashMap<&str, Array> = HashMap::new();
    let (mut times, mut replayed): (HashMap<&str, usize>, usize) = (HashMap::new(), 0);
    for shown in walkthrough.steps.iter().flat_map(|step| &step.tensors) {
        // The decoder's steps are told once for each word.
        let time = times.entry(&shown.name).or_default();
        let run = &runs[*time];
        *time += 1;
        if shown.symbol.contains(" = ") {
            run.holds(shown, &shown.symbol, &above).unwrap_or_else(|why| panic!("{}: {why}", shown.symbol));
            replayed += 1;
        }
        if let Ok(traced) = run.trace.get(&shown.name) {
            above.insert(&shown.name, array(&traced.tensor));
        }
    }
    assert!(replayed > 60, "only {replayed} lines were replayed");
}

/// What is asked for in part holds as well, and needs nothing that is not shown.
#[test]
fn a_layer_a_head_and_a_step_can_be_followed_alone() {
    let number = std::num::NonZeroUsize::MIN.get();
    let one = Some(number);
    let parts = [(one, None, None), (None, one, None), (one, one, None), (one, None, one), (None, None, one)];
    let wanted = ["llama-grouped", "t5", "marian", "bert-mlm", "longformer", "transfo-xl"];
    let mut replayed = 0;
    for case in fixtures().into_iter().filter(|case| wanted.contains(&name(case).as_str())) {
        let (checkpoint, sequence) = opened(&case).expect("it opens");
        for (layer, head, word) in parts {
            let writes = checkpoint.model.formula().target.is_some();
            if word.is_some() && !writes {
                continue;
            }
            let detail = Detail::Part { layer, head, word };
            let told = Told::new(&checkpoint.model, sequence.clone(), detail);
            let lines = told.and_then(|told| told.replay());
            replayed += lines.unwrap_or_else(|error| panic!("{}, {detail:?}: {error}", name(&case)));
        }
    }
    assert!(replayed > 300, "only {replayed} lines were replayed");
}

/// A model of a random formula, with everything away from its neutral start, and a sequence for it.
fn random_model(seed: u64) -> (Model, Sequence) {
    let mut random = Random::new(seed);
    let formula = common::formula(&mut random);
    let mut tensors = initialise(&formula, random.bits()).expect("the formula works");
    for tensor in tensors.values_mut() {
        tensor.data_mut().iter_mut().for_each(|x| *x += 0.1 * random.normal());
    }
    let (batch, patches) = common::batch(&mut random, &formula, 1);
    let global = batch.source.global.iter().enumerate().filter(|(_, global)| **global);
    let sequence = Sequence {
        source: batch.source.tokens.clone(),
        patches: patches.concat(),
        target: batch.target.tokens.clone(),
        types: batch.source.types.clone(),
        global: global.map(|(row, _)| row).collect(),
        ..Sequence::default()
    };
    (Model::new(formula, Weights::from_tensors(tensors)).expect("the weights fit"), sequence)
}

#[test]
fn every_line_holds_for_random_formulas() {
    let (mut replayed, mut wrong) = (0, Vec::new());
    for seed in 0..150 {
        let (model, mut sequence) = random_model(seed);
        if model.formula().target.is_some() && sequence.target.len() < 2 {
            sequence.target.push(1);
        }
        match Told::new(&model, sequence, Detail::All).and_then(|told| told.replay()) {
            Ok(lines) => replayed += lines,
            Err(error) => wrong.push(format!("seed {seed}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} formulas are told wrongly:\n{}", wrong.len(), wrong.join("\n"));
    assert!(replayed > 3000, "only {replayed} lines were replayed");
}

/// The lines that stood there once, beside the numbers that stand there now.
#[test]
fn the_lines_of_before_do_not_hold() {
    let cases = [
        // Q of the normed rows was said to be of the rows themselves, and scores of unrotated Q and K.
        (
            "llama-grouped",
            "target.0.attend.query",
            "Q = X₀ · W_Q",
            "X₀ = target.embed.words, W_Q = target.0.attend.query.weight",
        ),
        (
            "llama-grouped",
            "target.0.attend.scores",
            "S = Q · Kᵀ / √4, h = 4, h_kv = 2, j ≤ i",
            "Q = target.0.attend.query, K = target.0.attend.key",
        ),
        // T5 was said to scale its scores, and to have none of its biases.
        (
            "t5",
            "source.0.attend.scores",
            "S = Q · Kᵀ / √4, h = 3",
            "Q = source.0.attend.query, K = source.0.attend.key",
        ),
        // SwiGLU was said to be a plain activation.
        ("llama-grouped", "target.0.feed.hidden", "H = SiLU(U)", "U = target.0.feed.up"),
    ];
    for (model, tensor, line, operands) in cases {
        let case = fixtures().into_iter().find(|case| name(case) == model).expect("it is there");
        let (checkpoint, sequence) = opened(&case).expect("it opens");
        let told = Told::new(&checkpoint.model, sequence, Detail::All).expect("it runs");
        let mut shown = told.shown().find(|shown| shown.name == tensor).expect("it is shown").clone();
        shown.operands.clear();
        let mut above = HashMap::new();
        for (symbol, name) in operands.split(", ").filter_map(|operand| operand.split_once(" = ")) {
            let layout = if name.ends_with("weight") { Layout::Transposed } else { Layout::AsHeld };
            shown.operands.push(Operand { symbol: symbol.to_owned(), tensor: name.to_owned(), layout });
            if let Ok(traced) = told.trace.get(name) {
                above.insert(name, array(&traced.tensor));
            }
        }
        let why = told.holds(&shown, line, &above).expect_err(line);
        assert!(why.contains("by the line"), "{line}: {why}");
    }
}

/// Any line that is a hundredth off is found, whatever it is about.
#[test]
fn a_wrong_line_is_found() {
    let wanted = [
        "llama-yarn",
        "t5-gated",
        "bart",
        "bert-mlm",
        "longformer",
        "transfo-xl",
        "mpnet",
        "sentence-others",
    ];
    let mut found = 0;
    for case in fixtures().into_iter().filter(|case| wanted.contains(&name(case).as_str())) {
        let (checkpoint, sequence) = opened(&case).expect("it opens");
        let told = Told::new(&checkpoint.model, sequence, Detail::All).expect("it runs");
        let above: HashMap<&str, Array> =
            told.trace.values().iter().map(|value| (value.name.as_str(), array(&value.tensor))).collect();
        let is_given = |shown: &&Shown| told.trace.get(&shown.name).is_err();
        let given: Vec<&Shown> = told.shown().filter(is_given).collect();
        for shown in told.shown().filter(|shown| shown.symbol.contains(" = ")) {
            let mut above = above.clone();
            for given in &given {
                let numbers = given.numbers.iter().map(|&x| f64::from(x)).collect();
                above.insert(&given.name, Array::new(&given.shape, numbers));
            }
            let line = match shown.symbol.split_once(" = ") {
                _ if shown.symbol.contains("sin θ") => shown.symbol.replace("10000^", "9000^"),
                Some((left, right)) => {
                    let (right, conditions) = right
                        .split_once(", ")
                        .map_or((right, String::new()), |(right, rest)| (right, format!(", {rest}")));
                    format!("{left} = 1.01 · ({right}){conditions}")
                }
                None => continue,
            };
            let (line, nothing) = (line.as_str(), shown.numbers.iter().all(|&x| x == 0.0));
            // A concatenation or a range has commas of its own; rows of zeros stay what they are.
            if nothing || line.contains('[') && !line.contains("[bucket") || line.contains(" ≤ k <") {
                continue;
            }
            told.holds(shown, &shown.symbol, &above).unwrap_or_else(|why| panic!("{}: {why}", shown.symbol));
            assert!(told.holds(shown, line, &above).is_err(), "{}: {line} was taken for right", name(&case));
            found += 1;
        }
    }
    assert!(found > 200, "only {found} lines were made wrong");
}
