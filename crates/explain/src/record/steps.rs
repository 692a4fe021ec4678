//! Steps and tensors of a run, made from the graph that ran.

use std::collections::{BTreeMap, HashMap, HashSet};

use glassformer_formula::{self as formula, FeedForward, Mix, Norm, Source};
use glassformer_graph::ops::{Ids, Shown as What};
use glassformer_graph::{Graph, Op, Origin, Rows, Side};
use glassformer_tensor::Tensor;

use super::alias::{Kind, Norms, alias};
use super::words::told;
use super::{Formulated, Level, Named, Operand, Step};
use crate::equation::{Equations, Given};
use crate::names::Path;
use crate::replay;
use crate::tour::place;
use crate::trace::PROBABILITIES;
use crate::{Axis, Error, Layout, Likely, Trace};

/// From so many columns on, scores of a vocabulary are stored at the fullest level alone.
const LARGE: usize = 4096;

/// What a run consists of.
pub(super) struct Parts {
    pub steps: Vec<Step>,
    pub tensors: Vec<Named>,
    /// What is stored.
    pub numbers: BTreeMap<String, Tensor>,
}

/// What of `trace` is told at `level`, whose scores are `likely`; `mathml` is the model's formula.
pub(super) fn parts(trace: Trace, level: Level, likely: Likely, mathml: &str) -> Result<Parts, Error> {
    let equations = Equations::of(&trace, &HashMap::new());
    let formula = trace.model().formula();
    let kind = naming(formula);
    let mut parts = Parts { steps: Vec::new(), tensors: Vec::new(), numbers: BTreeMap::new() };
    let mut seen: HashSet<String> = HashSet::new();
    let mut embedded: [Option<&str>; 2] = [None; 2];
    for traced in trace.values() {
        let Some((equation, given)) = equations.equation(&traced.name) else { continue };
        let path = Path::of(&traced.name);
        let kind_of_step = kind_of(trace.graph(), &traced.name);
        for given in given {
            if seen.insert(given.name.clone()) {
                parts.give(given, level);
            }
        }
        let operands: Vec<Operand> = equation.operands.iter().map(operand).collect();
        for operand in &operands {
            if trace.value(&operand.tensor).is_none() && seen.insert(operand.tensor.clone()) {
                parts.weight(&trace, operand, level)?;
            }
        }
        if let (Some(side), None, "embed") = (path.side, path.layer, path.part) {
            embedded[usize::from(side == Side::Target)] = Some(&traced.name);
        }
        let axes = axes(&traced.axes, likely);
        let masked = matches!(path.last, "scores") && equation.text.contains(['≤', 'ᵢ']);
        let heads = heads(&trace, &traced.name, &path);
        let is_large = traced.axes.last() == Some(&Axis::Vocabulary)
            && traced.tensor.shape().last().is_some_and(|&width| width > LARGE);
        let normalised = (kind_of_step == "probs" || kind_of_step == "softmax").then(|| "softmax".to_owned());
        let stored = match level {
            Level::Summary => false,
            Level::Steps => !is_large,
            Level::Full => true,
        };
        let symbol = equations.symbol(&traced.name).unwrap_or_default();
        parts.tensors.push(Named {
            name: traced.name.clone(),
            alias: alias(&traced.name, kind),
            symbol: symbol.to_owned(),
            symbol_mathml: replay::symbol(symbol),
            shape: traced.tensor.shape().to_vec(),
            axes,
            heads,
            stored,
            weight: false,
            masked: masked || path.last == "probs" && parts.is_masked(&traced.name),
            normalised,
        });
        let said = told(&path, kind_of_step);
        let inputs = unique(operands.iter().map(|operand| operand.tensor.clone()));
        let step = Step {
            id: traced.name.clone(),
            kind: kind_of_step.to_owned(),
            part: path.side.map_or_else(|| "head".to_owned(), |side| side.to_string()),
            layer: path.layer,
            sublayer: sublayer(&traced.name),
            title: said.title,
            note: said.note,
            elsewhere: said.elsewhere,
            equation: Some(Formulated {
                mathml: replay::mathml(&equation.text),
                text: equation.text,
                operands,
            }),
            inputs,
            outputs: vec![traced.name.clone()],
            lit: lit(formula, &path, mathml),
            checks: None,
        };
        parts.steps.push(step);
    }
    for name in embedded.into_iter().flatten() {
        if let Some(named) =
            parts.tensors.iter_mut().find(|named| named.name == name && named.alias.is_none())
        {
            let side = if name.starts_with("source") { Side::Source } else { Side::Target };
            named.alias = Some(entered(kind, side));
        }
    }
    let stored: HashSet<String> =
        parts.tensors.iter().filter(|named| named.stored).map(|named| named.name.clone()).collect();
    for traced in trace.into_values() {
        if stored.contains(&traced.name) {
            parts.numbers.insert(traced.name, traced.tensor);
        }
    }
    Ok(parts)
}

impl Parts {
    /// Numbers that an operation has of its own.
    fn give(&mut self, given: Given, level: Level) {
        let Given { name, symbol, numbers } = given;
        let shape = vec![1, numbers.len()];
        let stored = level != Level::Summary;
        self.tensors.push(Named {
            name: name.clone(),
            alias: None,
            symbol: symbol.to_owned(),
            symbol_mathml: replay::symbol(symbol),
            axes: vec!["numbers".to_owned(); 2],
            heads: None,
            stored,
            weight: false,
            normalised: None,
            masked: false,
            shape: shape.clone(),
        });
        if let Some(tensor) = Tensor::new(&shape, numbers).filter(|_| stored) {
            self.numbers.insert(name, tensor);
        }
    }

    /// A weight that a formula names. Vectors are stored at the fullest level, matrices stay with the model.
    fn weight(&mut self, trace: &Trace, operand: &Operand, level: Level) -> Result<(), Error> {
        let Some(shape) = shape_of(trace.graph(), &operand.tensor) else { return Ok(()) };
        let stored = level == Level::Full && shape.len() == 2 && shape[0] == 1;
        self.tensors.push(Named {
            name: operand.tensor.clone(),
            alias: None,
            symbol: operand.symbol.clone(),
            symbol_mathml: replay::symbol(&operand.symbol),
            axes: vec!["numbers".to_owned(); shape.len()],
            heads: None,
            stored,
            weight: true,
            normalised: None,
            masked: false,
            shape: shape.clone(),
        });
        if stored {
            let tensor = trace.get(&operand.tensor)?.tensor;
            self.numbers.extend(
                Tensor::new(&shape, tensor.into_data()).map(|tensor| (operand.tensor.clone(), tensor)),
            );
        }
        Ok(())
    }

    /// Whether the scores beside these shares are masked.
    fn is_masked(&self, shares: &str) -> bool {
        let scores = shares.strip_suffix("probs").map(|scope| format!("{scope}scores")).unwrap_or_default();
        self.tensors.iter().any(|named| named.name == scores && named.masked)
    }
}

/// The shape of a leaf: a vector is a row.
fn shape_of(graph: &Graph, name: &str) -> Option<Vec<usize>> {
    let value = graph.value(name).ok()?;
    let shape = graph.shape(value);
    match shape.rows {
        Rows::Fixed(rows) => Some(vec![rows, shape.width]),
        // What comes from outside with each text: patches, remembered rows.
        Rows::Tokens(_)
        | Rows::Picked(_)
        | Rows::Memory(_)
        | Rows::Recalled(_)
        | Rows::Remembered(..)
        | Rows::Low(..)
        | Rows::Sequences(_)
        | Rows::Distances(_)
        | Rows::Pairs(_) => None,
    }
}

fn operand(operand: &crate::Operand) -> Operand {
    let transposed = operand.layout == Layout::Transposed;
    Operand { symbol: operand.symbol.clone(), tensor: operand.tensor.clone(), transposed }
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// What the axes count, in words.
fn axes(axes: &[Axis], likely: Likely) -> Vec<String> {
    let word = |axis: &Axis| match axis {
        Axis::Tokens(side) => side.to_string(),
        Axis::Vocabulary if likely == Likely::Scores => "labels".to_owned(),
        Axis::Vocabulary => "vocabulary".to_owned(),
        Axis::Heads => "heads".to_owned(),
        Axis::Numbers => "numbers".to_owned(),
    };
    axes.iter().map(word).collect()
}

/// Into how many heads the columns of a value divide.
fn heads(trace: &Trace, name: &str, path: &Path<'_>) -> Option<usize> {
    let shared = match path.last {
        "query" | "query_norm" | "query_rotated" | "heads" | "joined" => false,
        "key" | "key_norm" | "key_rotated" | "value" | "key_squeezed" | "value_squeezed" => true,
        _ => return None,
    };
    let beside = |what: &str| trace.value(&format!("{}.{what}", name.rsplit_once('.')?.0));
    let heads = beside("probs")?.tensor.shape().last().copied()?;
    if !shared {
        return Some(heads);
    }
    let size = beside("heads")?.tensor.shape().last()? / heads.max(1);
    let own = trace.value(name)?.tensor.shape().last().copied()?;
    own.checked_div(size)
}

/// What the operation does that made `name`, in a word.
fn kind_of(graph: &Graph, name: &str) -> &'static str {
    let Ok(value) = graph.value(name) else { return "value" };
    let Origin::Node(id, _) = graph.info(value).origin else { return "value" };
    match &graph.nodes()[id.0].op {
        Op::Lookup(lookup) => match lookup.ids {
            Ids::Positions { .. } => "position",
            Ids::Tokens(_) | Ids::Types(_) | Ids::Cluster { .. } => "lookup",
        },
        Op::Sinusoid(_) => "position",
        Op::Linear(_) => "linear",
        Op::Add(_) | Op::AddRow(_) => "add",
        Op::Mul(_) | Op::MulColumn(_) | Op::DotColumns(_) => "multiply",
        Op::Scale(_) => "scale",
        Op::Activate(_) => "activate",
        Op::Gate(_) => "gate",
        Op::Norm(_) => "norm",
        Op::Softmax(_) => "softmax",
        Op::Adaptive(_) => "adaptive",
        Op::Rotate(_) => "rotate",
        Op::Attend(_) => "mix",
        Op::AttendShow(show) => match show.shown {
            What::Scores => "scores",
            What::Probabilities => "probs",
        },
        Op::Pool(_) => "pool",
        Op::Squeeze(_) => "squeeze",
        Op::Recall(_) => "recall",
        Op::Lead(_) => "lead",
        Op::Halt(_) => "halt",
        Op::Fill(_) => "fill",
        Op::RepeatRow(_) => "repeat",
        Op::SumRows(_) => "sum",
        // Only passes on rows, stores them, or belongs to training: no formula, no step.
        Op::Pick(_)
        | Op::Store(_)
        | Op::Dropout(_)
        | Op::CrossEntropy(_)
        | Op::LookupGrad(_)
        | Op::LinearInputGrad(_)
        | Op::LinearWeightGrad(_)
        | Op::ActivateGrad(_)
        | Op::GateGrad(_)
        | Op::NormGrad(_)
        | Op::SoftmaxGrad(_)
        | Op::AdaptiveGrad(_)
        | Op::AttendGrad(_)
        | Op::SqueezeGrad(_)
        | Op::RecallGrad(_)
        | Op::LeadGrad(_)
        | Op::PoolGrad(_)
        | Op::PickGrad(_)
        | Op::HaltGrad(_)
        | Op::CrossEntropyGrad(_)
        | Op::SpanLoss(_)
        | Op::SpanLossGrad(_)
        | Op::PairLoss(_)
        | Op::PairLossGrad(_)
        | Op::Correct(_)
        | Op::SumSquares(_)
        | Op::Accumulate(_)
        | Op::AdamW(_)
        | Op::Remember(_) => "value",
    }
}

/// What of the model a value belongs to: `attend`, `feed`, `embed`, `head`.
fn sublayer(name: &str) -> String {
    let section = place::section(name);
    section.rsplit_once('.').map_or(section.as_str(), |(_, last)| last).to_owned()
}

/// The operator of the model's formula that a value belongs to.
fn lit(formula: &formula::Formula, path: &Path<'_>, mathml: &str) -> Option<String> {
    let there = |id: String| mathml.contains(&format!("id=\"{id}\"")).then_some(id);
    let Some(side) = path.side else {
        return match path.part {
            "pooler" => there("pooler".to_owned()),
            "head" => there("head-dense".to_owned()).or_else(|| there("head".to_owned())),
            "logits" => there("head".to_owned()),
            PROBABILITIES => there("softmax".to_owned()),
            _ => None,
        };
    };
    let (own, first) = match side {
        Side::Source => (formula.source.as_ref()?, true),
        Side::Target => (formula.target.as_ref()?, formula.source.is_none()),
    };
    let Some(layer) = path.layer else {
        return match path.part {
            "embed" if first => there("embed".to_owned()),
            "norm" => there(format!("{side}-norm")),
            _ => None,
        };
    };
    let other = own.stack.others.iter().position(|other| other.layers.contains(&layer));
    let other = other.map_or_else(String::new, |other| format!("-other{}", other + 1));
    let base = format!("{side}{other}-{}", path.part);
    let what = match path.last {
        "norm_in" => "-input",
        "norm_branch" => "-branch",
        "norm_out" => "-output",
        "sum" => "-sum",
        _ => "",
    };
    there(format!("{base}{what}")).or_else(|| there(base))
}

/// What names of values depend on.
fn naming(formula: &formula::Formula) -> Kind {
    let blocks = || {
        let sides = [&formula.source, &formula.target];
        sides.into_iter().flatten().flat_map(|side| side.stack.block.iter())
    };
    let rms = blocks().flat_map(|sublayer| [sublayer.norm.input, sublayer.norm.output]).flatten();
    let rms = rms.into_iter().any(|norm| matches!(norm, Norm::Rms { .. }));
    let gated = blocks().any(|sublayer| matches!(sublayer.mix, Mix::Feed(FeedForward::Gated { .. })));
    let crosses = |sublayer: &formula::Sublayer| matches!(&sublayer.mix, Mix::Attend(attention) if attention.source == Source::Memory);
    Kind {
        stacks: usize::from(formula.source.is_some()) + usize::from(formula.target.is_some()),
        crosses: blocks().any(crosses),
        gated,
        norm: if rms { Norms::Rms } else { Norms::Layer },
    }
}

/// The name of the rows that enter the first layer.
fn entered(kind: Kind, side: Side) -> String {
    match (kind.stacks, side) {
        (2, Side::Source) => "encoder.0.hook_resid_pre".to_owned(),
        (2, Side::Target) => "decoder.0.hook_resid_pre".to_owned(),
        (_, _) => "blocks.0.hook_resid_pre".to_owned(),
    }
}
