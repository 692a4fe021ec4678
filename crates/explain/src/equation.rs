//! What a value is, as a formula over other values: made from the operation that computed it and from its real inputs, so that
//! a formula cannot say anything else than what ran.
//!
//! The notation is small enough to be evaluated by a program (`tests/replay` does): sums, products `·` of matrices (head by head
//! where a formula says how many heads), `⊙` number by number, a few functions, and after commas what else must be known:
//! `ε = 1e-5`, `h = 6` heads, `j ≤ i` for a mask.

use std::collections::HashMap;

use glassformer_graph::ops::{
    Activation, Attend, Counting, Ids, NormKind, Pairing, Pattern, Pooling, Reach, Relative, Rotate,
    Shown as What, Sinusoid, Spread, Who,
};
use glassformer_graph::{Graph, Node, Op, Origin, Value};
use serde::Serialize;

use crate::names::{subscript, symbols};
use crate::{Layout, Trace};

/// What a value is, as a formula over other values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Equation {
    /// `Q = N · W_Q + b_Q`.
    pub text: String,
    /// What each symbol at the right of `=` stands for.
    pub operands: Vec<Operand>,
}

/// What a symbol of a formula stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operand {
    /// The symbol.
    pub symbol: String,
    /// The value's or weight's name in the engine.
    pub tensor: String,
    /// Whether the formula writes the tensor as the engine holds it, or its transpose.
    pub layout: Layout,
}

/// Numbers that an operation has of its own: how fast pairs turn, how steep a head's slope is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub name: String,
    pub symbol: &'static str,
    pub numbers: Vec<f32>,
}

/// The formulas of a trace's values.
pub(crate) struct Equations<'t> {
    graph: &'t Graph,
    symbols: Vec<String>,
    lengths: [usize; 2],
}

/// A formula in the making: its right side, what must be known besides, and its operands.
struct Right {
    text: String,
    conditions: Vec<String>,
    operands: Vec<Operand>,
}

impl<'t> Equations<'t> {
    /// Those of `trace`; `given` are the symbols of values that a text has names for.
    pub fn of(trace: &'t Trace, given: &HashMap<String, String>) -> Self {
        let graph = trace.graph();
        Self { graph, symbols: symbols(graph, given), lengths: trace.lengths() }
    }

    /// What the value or weight `name` is called.
    pub fn symbol(&self, name: &str) -> Option<&str> {
        let value = self.graph.value(name).ok()?;
        self.symbols.get(value.0).map(String::as_str)
    }

    /// The formula of the value `name`, and the numbers that it needs and that stand nowhere else. Weights have none, and neither has
    /// what only passes on rows.
    pub fn equation(&self, name: &str) -> Option<(Equation, Vec<Given>)> {
        let value = self.graph.value(name).ok()?;
        let Origin::Node(id, output) = self.graph.info(value).origin else { return None };
        let node = &self.graph.nodes()[id.0];
        let mut given = Vec::new();
        let right = self.right(node, output, &mut given)?;
        let left = match node.op {
            // Which column is what is said at the left.
            Op::Sinusoid(_) => right.text.clone(),
            _ => format!("{} = {}", self.symbols[value.0], right.text),
        };
        let text = [&[left], &right.conditions[..]].concat().join(", ");
        Some((Equation { text, operands: right.operands }, given))
    }

    /// What stands at the right of `=` for one output of a node.
    fn right(&self, node: &Node, output: usize, given: &mut Vec<Given>) -> Option<Right> {
        let plain = |text: String| Some(self.plain(node, text));
        let x = |k: usize| self.input(node, k);
        match &node.op {
            Op::Fill(fill) => plain(number(fill.value)),
            Op::Sinusoid(wave) => Some(Right { operands: Vec::new(), ..self.sinusoid(node, wave) }),
            Op::Lookup(lookup) => Some(self.lookup(node, lookup.ids)),
            Op::Linear(_) => Some(self.linear(node)),
            Op::Add(_) | Op::AddRow(_) => plain(format!("{} + {}", x(0), x(1))),
            Op::Mul(_) => plain(format!("{} ⊙ {}", x(0), x(1))),
            Op::Scale(scale) if scale.from > 0 || scale.to < self.graph.shape(node.outputs[0]).width => {
                let right = self.plain(node, format!("{} · {}", number(scale.factor), x(0)));
                Some(right.when(format!("{} ≤ k < {}", scale.from, scale.to)))
            }
            Op::Scale(scale) if scale.factor == -1.0 => plain(format!("−{}", x(0))),
            Op::Scale(scale) => plain(format!("{} · {}", root(scale.factor), x(0))),
            Op::RepeatRow(_) => plain(format!("repeat({})", x(0))),
            Op::SumRows(_) => plain(format!("Σ({})", x(0))),
            Op::MulColumn(_) => plain(format!("{} ⊙ {}", x(1), x(0))),
            Op::DotColumns(_) => plain(format!("dot({}, {})", x(0), x(1))),
            Op::Activate(activate) => plain(format!("{}({})", function(activate.act), x(0))),
            Op::Gate(gate) => plain(format!("{}({}) ⊙ {}", function(gate.act), x(0), x(1))),
            Op::Norm(norm) => Some(self.norm(node, norm)),
            Op::Softmax(_) => plain(format!("softmax({})", x(0))),
            Op::Adaptive(_) => {
                let inputs: Vec<&str> = (0..node.inputs.len()).map(x).collect();
                plain(format!("adaptive({})", inputs.join(", ")))
            }
            Op::Rotate(rotate) => Some(self.rotate(node, rotate, given)),
            Op::Attend(attend) => (output == 0).then(|| self.attend(node, attend)),
            Op::AttendShow(show) => Some(match show.shown {
                What::Scores => self.scores(node, &show.attend, given),
                What::Probabilities => self.probabilities(node),
            }),
            Op::Squeeze(_) => plain(format!("{}[:n] · {}", x(1), x(0))),
            Op::Recall(_) => plain(format!("[{}; {}]", x(0), x(1))),
            Op::Lead(_) => plain(format!("lead({}, {})", x(1), x(0))),
            Op::Pool(pool) => {
                let parts: Vec<String> = pool.poolings.iter().map(|&pooling| pooled(pooling, x(0))).collect();
                plain(if let [one] = &parts[..] { one.clone() } else { format!("[{}]", parts.join(", ")) })
            }
            Op::Halt(halt) => {
                let what = ["halt", "halted"][output.min(1)];
                let right = self.plain(node, format!("{what}({}, {})", x(0), x(1)));
                Some(right.when(format!("τ = {}", number(halt.threshold))))
            }
            // Only passes on rows, stores them, or belongs to training.
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
            | Op::Remember(_) => None,
        }
    }

    /// A right side whose operands are the node's inputs.
    fn plain(&self, node: &Node, text: String) -> Right {
        let operands = node.inputs.iter().map(|&value| self.operand(value, Layout::AsHeld)).collect();
        Right { text, conditions: Vec::new(), operands }
    }

    fn input(&self, node: &Node, k: usize) -> &str {
        node.inputs.get(k).map_or("?", |value| self.symbols[value.0].as_str())
    }

    fn operand(&self, value: Value, layout: Layout) -> Operand {
        let value = self.picked_from(value);
        let tensor = self.graph.info(value).name.clone();
        Operand { symbol: self.symbols[value.0].clone(), tensor, layout }
    }

    /// The rows that `value` was picked from: in a trace all of them are.
    fn picked_from(&self, value: Value) -> Value {
        let Origin::Node(id, _) = self.graph.info(value).origin else { return value };
        let node = &self.graph.nodes()[id.0];
        if let Op::Pick(_) = node.op { node.inputs[0] } else { value }
    }

    /// `P[p, 2i] = sin θ, P[p, 2i + 1] = cos θ, θ = p / 10000^(2i / 512)`.
    fn sinusoid(&self, node: &Node, wave: &Sinusoid) -> Right {
        let symbol = &self.symbols[node.outputs[0].0];
        let (sine, cosine) = match wave.wave.pairing {
            Pairing::Interleaved => ("2i".to_owned(), "2i + 1".to_owned()),
            Pairing::Halves => ("i".to_owned(), format!("i + {}", wave.width / 2)),
        };
        // Whoever is counted is at 1, and what is not at 0.
        let (p, start, conditions) = match wave.counting {
            Counting::Every => ("p", Some(wave.start), Vec::new()),
            Counting::But(padding) => {
                ("c", wave.start.checked_sub(1), vec![counted(padding), "0 where c = 0".to_owned()])
            }
        };
        let place = match (start, wave.clamp) {
            (Some(0), None) => p.to_owned(),
            (Some(start), None) => format!("({p} + {start})"),
            (Some(start), Some(most)) => format!("min({p} + {start}, {most})"),
            (None, None) => format!("({p} − 1)"),
            (None, Some(most)) => format!("min({p} − 1, {most})"),
        };
        let base = wave.wave.base;
        let angle = match wave.wave.spread {
            Spread::Open => format!("{place} / {base}^(2i / {})", wave.width),
            Spread::Closed => format!("{place} / {base}^(i / {})", (wave.width / 2).saturating_sub(1).max(1)),
        };
        let text = format!("{symbol}[p, {sine}] = sin θ, {symbol}[p, {cosine}] = cos θ, θ = {angle}");
        Right { conditions, ..self.plain(node, text) }
    }

    /// `E = W_E[t]`, where t is the token's id, p its position, s its segment, and c its place among the tokens that are counted.
    fn lookup(&self, node: &Node, ids: Ids) -> Right {
        let table = self.input(node, 0);
        let plus = |symbol: &str, offset: usize| match offset {
            0 => symbol.to_owned(),
            _ => format!("{symbol} + {offset}"),
        };
        match ids {
            Ids::Tokens(_) => self.plain(node, format!("{table}[t]")),
            Ids::Types(_) => self.plain(node, format!("{table}[s]")),
            Ids::Positions { offset, counting, .. } => match counting {
                Counting::Every => self.plain(node, format!("{table}[{}]", plus("p", offset))),
                Counting::But(padding) => {
                    let right = self.plain(node, format!("{table}[{}]", plus("c", offset.saturating_sub(1))));
                    right.when(counted(padding))
                }
            },
            Ids::Cluster { from, to, .. } => {
                let right = self.plain(node, format!("{table}[t − {from}]"));
                right.when(format!("{from} ≤ t < {to}"))
            }
        }
    }

    /// `X · W + b`. A table that ids are looked up in, too, is written as it is held: `R · W_Eᵀ`.
    fn linear(&self, node: &Node) -> Right {
        let looks_up = |other: &Node| matches!(other.op, Op::Lookup(_)) && other.inputs[0] == node.inputs[1];
        let is_table = self.graph.nodes().iter().any(looks_up);
        let (mark, layout) = if is_table { ("ᵀ", Layout::AsHeld) } else { ("", Layout::Transposed) };
        let mut right = self.plain(node, format!("{} · {}{mark}", self.input(node, 0), self.input(node, 1)));
        right.operands[1].layout = layout;
        if node.inputs.len() == 3 {
            right.text = format!("{} + {}", right.text, self.input(node, 2));
        }
        right
    }

    /// `γ ⊙ LN(X) + β, ε = 1e-5`; of each head by itself where γ is as long as a head.
    fn norm(&self, node: &Node, norm: &glassformer_graph::ops::Norm) -> Right {
        let (name, bias) = match norm.kind {
            NormKind::Layer => ("LN", " + β"),
            NormKind::LayerWithoutBias => ("LN", ""),
            NormKind::Rms => ("RMS", ""),
        };
        let mut right = self.plain(node, format!("γ ⊙ {name}({}){bias}", self.input(node, 0)));
        for (operand, symbol) in right.operands.iter_mut().skip(1).zip(["γ", "β"]) {
            symbol.clone_into(&mut operand.symbol);
        }
        let heads = (norm.parts > 1).then(|| format!("h = {}", norm.parts));
        right.conditions = heads.into_iter().chain([format!("ε = {:e}", norm.epsilon)]).collect();
        right
    }

    /// `RoPE(Q, ω), h = 6, i ↔ i + 24`: pairs of each head's numbers turn by p · ω.
    fn rotate(&self, node: &Node, rotate: &Rotate, given: &mut Vec<Given>) -> Right {
        let x = self.input(node, 0);
        let mut right = self.plain(node, format!("RoPE({x}, ω)"));
        let length = self.lengths[usize::from(rotate.side == glassformer_graph::Side::Target)];
        let pairs = rotate.turning / 2;
        let numbers = (0..pairs).map(|i| rotate.turn(i, length)).collect();
        right.give(given, Given { name: beside(&node.name, "angles"), symbol: "ω", numbers });
        let pair = match rotate.pairing {
            Pairing::Interleaved => "2i ↔ 2i + 1".to_owned(),
            Pairing::Halves => format!("i ↔ i + {pairs}"),
        };
        let heads = self.graph.shape(node.outputs[0]).width / rotate.size;
        let long = (rotate.magnitude != 1.0).then(|| format!("× {}", number(rotate.magnitude)));
        right.conditions = [format!("h = {heads}"), pair].into_iter().chain(long).collect();
        right
    }

    /// `Q · Kᵀ / √48 − m · |i − j|, h = 6, j ≤ i`.
    fn scores(&self, node: &Node, attend: &Attend, given: &mut Vec<Given>) -> Right {
        let x = |k: usize| self.input(node, k);
        let rest = attend.base_inputs();
        let mut product = format!("{} · {}ᵀ", x(0), x(1));
        let mut operands: Vec<Operand> =
            node.inputs[..2].iter().map(|&value| self.operand(value, Layout::AsHeld)).collect();
        operands.extend(node.inputs[rest..].iter().map(|&value| self.operand(value, Layout::AsHeld)));
        let mut added = String::new();
        let mut right = Right { text: String::new(), conditions: heads(attend), operands };
        match attend.relative {
            Relative::None => {}
            Relative::Alibi => {
                " − m · |i − j|".clone_into(&mut added);
                let numbers = (0..attend.heads).map(|head| attend.slope(head)).collect();
                right.give(given, Given { name: beside(&node.name, "slopes"), symbol: "m", numbers });
            }
            Relative::Buckets { max_distance } => {
                let distance = match attend.reach {
                    Reach::Both => "j − i",
                    Reach::Past => "i − j",
                };
                added = format!(" + {}[bucket{}({distance})]", x(rest), subscript(max_distance));
            }
            Relative::TransformerXl => {
                let (r, u, v) = (x(rest), x(rest + 1), x(rest + 2));
                product = format!("(({q} + {u}) · {k}ᵀ + (({q} + {v}) · {r}ᵀ)[i − j])", q = x(0), k = x(1));
            }
        }
        let scaled = if attend.scale == 1.0 / (attend.size as f32).sqrt() {
            format!("{product} / √{}", attend.size)
        } else if attend.scale == 1.0 {
            product
        } else {
            format!("{} · {product}", number(attend.scale))
        };
        right.text = scaled + &added;
        right.conditions.extend(mask(attend));
        right
    }

    /// `softmax(S)`.
    fn probabilities(&self, node: &Node) -> Right {
        let scores = self.graph.value(&beside(&node.name, "scores"));
        let operands: Vec<Operand> =
            scores.iter().map(|&value| self.operand(value, Layout::AsHeld)).collect();
        let symbol = operands.first().map_or("S", |operand| operand.symbol.as_str());
        Right { text: format!("softmax({symbol})"), conditions: Vec::new(), operands }
    }

    /// `A · V, h = 6`.
    fn attend(&self, node: &Node, attend: &Attend) -> Right {
        let shares = self.graph.value(&beside(&node.name, "probs")).ok();
        let values = node.inputs.get(2).copied();
        let operands: Vec<Operand> =
            shares.into_iter().chain(values).map(|value| self.operand(value, Layout::AsHeld)).collect();
        let symbols: Vec<&str> = operands.iter().map(|operand| operand.symbol.as_str()).collect();
        Right { text: symbols.join(" · "), conditions: heads(attend), operands }
    }
}

impl Right {
    fn when(mut self, condition: String) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Also with numbers that the operation has of its own.
    fn give(&mut self, given: &mut Vec<Given>, numbers: Given) {
        let Given { name: tensor, symbol, .. } = &numbers;
        let operand =
            Operand { symbol: (*symbol).to_owned(), tensor: tensor.clone(), layout: Layout::AsHeld };
        self.operands.push(operand);
        given.push(numbers);
    }
}

/// The name `what` beside `name`: `….attend.scores` beside `….attend.heads`.
fn beside(name: &str, what: &str) -> String {
    match name.rsplit_once('.') {
        Some((parent, _)) => format!("{parent}.{what}"),
        None => what.to_owned(),
    }
}

fn heads(attend: &Attend) -> Vec<String> {
    let own = (attend.heads > 1).then(|| format!("h = {}", attend.heads));
    let shared = (attend.key_heads != attend.heads).then(|| format!("h_kv = {}", attend.key_heads));
    own.into_iter().chain(shared).collect()
}

/// Which keys j a query i sees; g are the global rows.
fn mask(attend: &Attend) -> Vec<String> {
    let mut conditions = Vec::new();
    match attend.reach {
        Reach::Both => {}
        Reach::Past => conditions.push("j ≤ i".to_owned()),
    }
    match attend.pattern {
        Pattern::Dense => {}
        Pattern::Window(window) => conditions.push(format!("|i − j| ≤ {window}")),
        Pattern::WindowAndGlobal(window) => conditions.push(format!("|i − j| ≤ {window} ∨ gᵢ ∨ gⱼ")),
    }
    match attend.who {
        Who::Every => {}
        Who::Local => conditions.push("¬gᵢ".to_owned()),
        Who::Global => conditions.push("gᵢ".to_owned()),
    }
    conditions
}

fn function(act: Activation) -> &'static str {
    match act {
        Activation::Relu => "ReLU",
        Activation::Gelu => "GELU",
        Activation::GeluTanh => "GELU_tanh",
        Activation::Silu => "SiLU",
        Activation::Tanh => "tanh",
        Activation::Sigmoid => "σ",
    }
}

fn pooled(pooling: Pooling, x: &str) -> String {
    match pooling {
        Pooling::First => format!("first({x})"),
        Pooling::Last => format!("last({x})"),
        Pooling::LastBut(padding) => format!("last_but_{padding}({x})"),
        Pooling::Mean => format!("mean({x})"),
        Pooling::MeanRoot => format!("Σ({x}) / √n"),
        Pooling::WeightedMean => format!("weighted_mean({x})"),
        Pooling::Max => format!("max({x})"),
    }
}

/// The place of a token among those that are counted, from 1 on; 0 for one that is not.
fn counted(padding: u32) -> String {
    format!("cᵢ = [tᵢ ≠ {padding}] · Σ_(j ≤ i) [tⱼ ≠ {padding}]")
}

fn number(x: f32) -> String {
    format!("{x}").replace('-', "−")
}

/// √512 where a factor is that.
fn root(factor: f32) -> String {
    let square = (factor * factor).round();
    if factor > 1.0 && factor.fract() != 0.0 && square.sqrt() == factor {
        format!("√{square}")
    } else {
        number(factor)
    }
}
