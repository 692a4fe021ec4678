//! A trace computed again: each step in `f64` from its own inputs, and what must hold in every run.

use std::collections::HashMap;

use glassformer_model::Model as Weights;
use glassformer_tensor::Tensor;
use serde::Serialize;

use super::watch::log_sum_exp;
use super::{Beams, Check, Formulated, Recording, Replayed, Step};
use crate::Text;
use crate::replay::{Array, World, evaluate};

/// How far a number may lie from what its formula says, relative to the largest of its tensor: `f32` beside `f64`.
const BOUND: f64 = 1e-4;
/// The same for a run in few bits, whose products are rounded.
const ROUGH: f64 = 0.1;
/// How far shares may be from one.
const SHARES: f64 = 1e-5;
/// Products of so many numbers in all are computed again while a trace is written; whatever is beyond is left to `verify`.
const WORK: usize = 60_000_000;

/// What came of computing a trace again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checked {
    /// Each step, in order.
    pub steps: Vec<StepOutcome>,
    /// What must hold in every run.
    pub checks: Vec<Check>,
}

/// A step computed again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepOutcome {
    /// The step.
    pub id: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of computing a step again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The numbers are those of the formula.
    Holds(Replayed),
    /// They are not.
    Differs(Replayed),
    /// The formula cannot be computed, or gives another shape.
    Fails {
        /// Why.
        why: String,
    },
    /// A tensor that it needs is not there: neither stored nor a weight of the model.
    Missing {
        /// Which.
        tensor: String,
    },
}

impl Checked {
    /// Computes everything of `recording` again. `model` has the weights that the trace does not store.
    pub fn of(recording: &Recording, model: Option<&Weights>) -> Self {
        let run = Run { recording, model };
        let steps = recording
            .record
            .steps
            .iter()
            .map(|step| StepOutcome { id: step.id.clone(), outcome: run.step(step) });
        Self { steps: steps.collect(), checks: run.checks() }
    }

    /// The first step that fails.
    pub fn first(&self) -> Option<&StepOutcome> {
        self.steps.iter().find(|step| matches!(step.outcome, Outcome::Differs(_) | Outcome::Fails { .. }))
    }

    /// Whether everything that could be computed holds.
    pub fn holds(&self) -> bool {
        self.first().is_none() && self.checks.iter().all(|check| check.ok)
    }

    /// How many steps could not be computed.
    pub fn missing(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.outcome, Outcome::Missing { .. })).count()
    }
}

impl Recording {
    /// Computes steps again as far as that costs little, and notes how far they are from their formulas; checks what must hold.
    pub(super) fn check(&mut self, model: &Weights) {
        let run = Run { recording: self, model: Some(model) };
        let mut work = 0;
        let replay = |step: &Step| {
            work += run.work(step);
            if work > WORK {
                return None;
            }
            match run.step(step) {
                Outcome::Holds(replayed) | Outcome::Differs(replayed) => Some(replayed),
                Outcome::Fails { .. } | Outcome::Missing { .. } => None,
            }
        };
        let replayed: Vec<Option<Replayed>> = run.recording.record.steps.iter().map(replay).collect();
        let checks = run.checks();
        for (step, replayed) in self.record.steps.iter_mut().zip(replayed) {
            step.checks = replayed;
        }
        self.record.checks = checks;
    }
}

/// A recording with the weights of its model.
struct Run<'r> {
    recording: &'r Recording,
    model: Option<&'r Weights>,
}

impl Run<'_> {
    /// About how many products a step has.
    fn work(&self, step: &Step) -> usize {
        let shape = |name: &String| {
            let named = self.recording.record.tensors.iter().find(|named| named.name == *name);
            named.map_or(0, |named| named.shape.iter().fold(1, |all: usize, &size| all.saturating_mul(size)))
        };
        let rows =
            self.recording.record.sequence.source.len().max(self.recording.record.sequence.target.len());
        match step.kind.as_str() {
            "linear" | "squeeze" => step.inputs.iter().skip(1).map(shape).sum::<usize>().saturating_mul(rows),
            _ => step.inputs.iter().chain(&step.outputs).map(shape).sum(),
        }
    }

    fn step(&self, step: &Step) -> Outcome {
        let (Some(equation), Some(name)) = (&step.equation, step.outputs.first()) else {
            return Outcome::Missing { tensor: step.id.clone() };
        };
        let Some(found) = self.recording.numbers.get(name) else {
            return Outcome::Missing { tensor: name.clone() };
        };
        let operands = match self.operands(equation, found) {
            Ok(operands) => operands,
            Err(outcome) => return outcome,
        };
        match evaluate(&equation.text, &self.world(name, operands, found)) {
            Err(why) => Outcome::Fails { why },
            Ok(said) if said.shape != found.shape() => Outcome::Fails {
                why: format!("the formula gives {:?}, and {:?} is stored", said.shape, found.shape()),
            },
            Ok(said) => compare(&said, found, self.bound()),
        }
    }

    fn bound(&self) -> f64 {
        if self.recording.record.model.precision == "f32" { BOUND } else { ROUGH }
    }

    /// What the symbols of a formula stand for.
    fn operands(&self, equation: &Formulated, found: &Tensor) -> Result<HashMap<String, Array>, Outcome> {
        let mut operands = HashMap::new();
        for operand in &equation.operands {
            let missing = || Outcome::Missing { tensor: operand.tensor.clone() };
            let array = self.array(&operand.tensor, found).ok_or_else(missing)?;
            let fails = |why: String| Outcome::Fails { why };
            let array = if operand.transposed { array.transposed().map_err(fails)? } else { array };
            if operands.insert(operand.symbol.clone(), array.clone()).is_some_and(|other| other != array) {
                return Err(fails(format!("{} stands for two things", operand.symbol)));
            }
        }
        Ok(operands)
    }

    /// The numbers of `name`: stored, or a weight.
    fn array(&self, name: &str, found: &Tensor) -> Option<Array> {
        if let Some(tensor) = self.recording.numbers.get(name) {
            return Some(Array::from(tensor.clone()));
        }
        if let Some(tensor) = self.model.and_then(|model| model.tensor(name)) {
            return Some(Array::from(tensor));
        }
        // Rows that are remembered from the text before: at its beginning there are none but zeros.
        if let ([rows, width], true) = (found.shape(), name.ends_with(".memory")) {
            let rows = rows.checked_sub(self.recording.record.sequence.target.len())?;
            return Some(Array::new(&[rows, *width], vec![0.0; rows * width]));
        }
        None
    }

    fn world(&self, name: &str, operands: HashMap<String, Array>, found: &Tensor) -> World {
        let sequence = &self.recording.record.sequence;
        let shape = found.shape().to_vec();
        if name.starts_with("source") || sequence.target.is_empty() {
            let global = (0..sequence.source.len()).map(|row| sequence.global.contains(&row)).collect();
            World { ids: sequence.source.clone(), types: sequence.types.clone(), global, operands, shape }
        } else {
            let global = vec![false; sequence.target.len()];
            World { ids: sequence.target.clone(), types: Vec::new(), global, operands, shape }
        }
    }

    /// What must hold in every run.
    fn checks(&self) -> Vec<Check> {
        let mut checks = vec![self.shares(), self.masks(), self.residuals()];
        if let Some(decode) = &self.recording.record.decode {
            checks.extend(self.scores());
            checks.extend(decode.beams.as_ref().map(arithmetic));
        }
        checks.extend(self.lens());
        checks
    }

    /// What the lens reads behind the last sublayer is the model's own output.
    fn lens(&self) -> Option<Check> {
        let lens = &self.recording.record.lens;
        let places = lens.get("places")?.as_array()?;
        let last = lens.get("readings")?.as_array()?.last()?;
        let mut check = begun(
            "lens",
            "the last row of the lens is the model's output",
            "透镜的最后一行就是模型的输出",
            0.0,
        );
        for (place, cell) in places.iter().zip(last.get("cells")?.as_array()?) {
            let row = place.as_u64()? as usize;
            let guesses = cell.get("top")?.as_array()?.iter().chain(cell.get("wanted"));
            for guess in guesses.filter(|guess| guess.is_object()) {
                let (id, score) = (guess.get("id")?.as_u64()? as usize, guess.get("logit")?.as_f64()? as f32);
                if self.score(row, id).is_some_and(|own| own.to_bits() != score.to_bits()) {
                    deviates(&mut check, f64::MAX, &format!("row {row}"));
                }
            }
        }
        Some(check)
    }

    /// The score of `id` in row `row`: as it is stored, or as it was when a token was chosen from it.
    fn score(&self, row: usize, id: usize) -> Option<f32> {
        if let Some(logits) = self.recording.numbers.get("logits") {
            let width = *logits.shape().last()?;
            let at = row.checked_mul(width)?.checked_add(id).filter(|_| id < width)?;
            return logits.data().get(at).copied();
        }
        let decode = self.recording.record.decode.as_ref()?;
        let written = decode.steps.iter().find(|written| written.position == row)?;
        written.candidates.iter().find(|candidate| candidate.id as usize == id)?.logit
    }

    /// Rows of a softmax sum to one.
    fn shares(&self) -> Check {
        let mut check = begun("shares", "rows of a softmax sum to one", "softmax 的每一行之和为一", SHARES);
        for named in self.recording.record.tensors.iter().filter(|named| named.normalised.is_some()) {
            let Some(tensor) = self.recording.numbers.get(&named.name) else { continue };
            let (many, inner) = match *tensor.shape() {
                [_, keys, heads] => (keys, heads),
                [_, columns] => (columns, 1),
                _ => continue,
            };
            for row in tensor.data().chunks((many * inner).max(1)) {
                for head in 0..inner {
                    let sum: f64 = row.iter().skip(head).step_by(inner).map(|&share| f64::from(share)).sum();
                    // Where nothing may be seen nothing has a share.
                    if sum != 0.0 {
                        deviates(&mut check, (sum - 1.0).abs(), &named.name);
                    }
                }
            }
        }
        check
    }

    /// What may not be seen has no share.
    fn masks(&self) -> Check {
        let mut check = begun("masked", "what may not be seen has no share", "被掩码的位置没有份额", 0.0);
        for named in self.recording.record.tensors.iter().filter(|named| named.masked) {
            let Some(scope) = named.name.strip_suffix("scores") else { continue };
            let both =
                [named.name.clone(), format!("{scope}probs")].map(|name| self.recording.numbers.get(&name));
            let [Some(scores), Some(shares)] = both else { continue };
            for (&score, &share) in scores.data().iter().zip(shares.data()) {
                if score == f32::NEG_INFINITY {
                    deviates(&mut check, f64::from(share).abs(), &named.name);
                }
            }
        }
        check
    }

    /// A residual is the sum of its parts.
    fn residuals(&self) -> Check {
        let mut check =
            begun("residuals", "a residual is the sum of its parts", "残差等于各部分之和", self.bound());
        for step in self.recording.record.steps.iter().filter(|step| step.kind == "add") {
            match self.step(step) {
                Outcome::Holds(replayed) | Outcome::Differs(replayed) => {
                    deviates(&mut check, replayed.max_error / replayed.scale, &step.id);
                }
                Outcome::Fails { .. } => deviates(&mut check, f64::MAX, &step.id),
                Outcome::Missing { .. } => {}
            }
        }
        check
    }

    /// The scores that tokens were chosen from are those of the whole run, and so are their probabilities.
    fn scores(&self) -> Option<Check> {
        let (decode, logits) =
            (self.recording.record.decode.as_ref()?, self.recording.numbers.get("logits")?);
        let mut check = begun(
            "candidates",
            "candidates have the scores of the whole run, and their probabilities",
            "候选词的得分与概率就是整体运行所得",
            SHARES,
        );
        let width = *logits.shape().last()?;
        for written in &decode.steps {
            let name = format!("token {}", written.t);
            let begin = written.position.checked_mul(width);
            let row = begin.and_then(|begin| logits.data().get(begin..begin.checked_add(width)?));
            let Some(row) = row else {
                deviates(&mut check, f64::MAX, &name);
                continue;
            };
            let sum = log_sum_exp(row);
            for candidate in written.candidates.iter().chain([&written.chosen]) {
                match (row.get(candidate.id as usize), candidate.logit) {
                    (Some(&score), Some(told)) if score.to_bits() == told.to_bits() => {
                        deviates(&mut check, ((f64::from(score) - sum).exp() - candidate.p).abs(), &name);
                    }
                    (Some(score), None) if !score.is_finite() => {}
                    _ => deviates(&mut check, f64::MAX, &name),
                }
            }
        }
        Some(check)
    }
}

/// Sums and scores of beams are those of their parts, and the winner has the largest.
fn arithmetic(beams: &Beams) -> Check {
    let mut check =
        begun("beams", "sums, scores and the winner of the beams", "束搜索的总和、得分与胜者", 0.0);
    let differ = |check: &mut Check, said: f32, found: f32, at: String| {
        let off = (f64::from(said) - f64::from(found)).abs();
        deviates(
            check,
            if said.to_bits() == found.to_bits() { 0.0 } else { off.max(f64::MIN_POSITIVE) },
            &at,
        );
    };
    for node in &beams.nodes {
        let before = node.parent.map_or(0.0, |parent| beams.nodes[parent].sum);
        differ(&mut check, node.logprob + before, node.sum, format!("beam {}", node.id));
    }
    for one in &beams.finished {
        let node = &beams.nodes[one.node];
        let at = format!("beam {}", one.node);
        differ(&mut check, node.sum, one.sum, at.clone());
        let divisor = (one.length as f64).powf(beams.length_penalty);
        differ(&mut check, one.sum / divisor as f32, one.score, at.clone());
        deviates(&mut check, if node.t == one.length { 0.0 } else { 1.0 }, &at);
    }
    if let Some(winner) = beams.finished.get(beams.winner) {
        let better = beams.finished.iter().map(|one| f64::from(one.score) - f64::from(winner.score));
        let better = better.fold(0.0, f64::max);
        deviates(&mut check, better, &format!("beam {}", winner.node));
    }
    check
}

fn begun(name: &str, en: &str, zh: &str, bound: f64) -> Check {
    let title = Text { en: en.to_owned(), zh: zh.to_owned() };
    Check { name: name.to_owned(), title, ok: true, worst: 0.0, bound, at: None }
}

/// Notes a deviation, which is infinite or no number where something cannot be compared.
fn deviates(check: &mut Check, off: f64, at: &str) {
    let off = if off.is_finite() { off } else { f64::MAX };
    if off > check.worst || check.at.is_none() && off > check.bound {
        check.worst = off;
        check.at = Some(at.to_owned());
    }
    check.ok = check.ok && off <= check.bound;
}

/// How far `found` is from what its formula says.
fn compare(said: &Array, found: &Tensor, bound: f64) -> Outcome {
    let said = said.data();
    let scale = said.iter().copied().filter(|x| x.is_finite()).fold(1e-3, |most: f64, x| most.max(x.abs()));
    let (mut worst, mut place) = (0.0, 0);
    for (k, (&said, &found)) in said.iter().zip(found.data()).enumerate() {
        let found = f64::from(found);
        let off = if said == found { 0.0 } else { (said - found).abs() };
        let off = if off.is_finite() { off } else { f64::MAX };
        if off > worst {
            (worst, place) = (off, k);
        }
    }
    let mut at = vec![0; found.shape().len()];
    for (index, &size) in at.iter_mut().zip(found.shape()).rev() {
        *index = place % size.max(1);
        place /= size.max(1);
    }
    let replayed = Replayed { max_error: worst, at, scale };
    if worst <= bound * scale { Outcome::Holds(replayed) } else { Outcome::Differs(replayed) }
}
