//! Products of what is not in `f32`: which steps they are, and what is quantized for them.

use std::collections::HashMap;

use glassformer_graph::ops::{Activation, Keys, Lookup, Relative};
use glassformer_graph::{Leaf, Node, Op, Origin, Rows, Shape, Value};
use glassformer_tensor::Coding;

use super::super::constants::Wanted;
use super::super::fuse::{Fused, Fusions};
use super::super::precision::{About, Held, Rule};
use super::{Contents, Draft, HALVES, Life};
use crate::kernels::{EpilogueKind, Kernel, OutputFormat, Work};
use crate::lowp::{Format, Operand, OperandPacker, RowFormat, Table, Weight, coded};
use crate::plan::step::{Count, SlotId, Step};

/// Halves in a line of them.
const LINE: usize = 32;
/// Lines in a tile.
const LINES: usize = 16;

impl Draft<'_> {
    /// The step of `node` with low-precision numbers, and its inputs, where it is a product that is not done in `f32`.
    pub(super) fn narrow(&mut self, node: &Node, epilogue: EpilogueKind) -> Option<(Step, Vec<SlotId>)> {
        if let Op::Lookup(op) = node.op {
            return self.int8_lookup(node, op);
        }
        if let Op::SumRows(_) = node.op
            && self.only_narrowed.contains(&node.inputs[0])
        {
            let inputs = vec![self.narrowed(node.inputs[0], HALVES)];
            return Some((Step::new(Kernel::SumBf16Rows, Work::First), inputs));
        }
        if let Op::Linear(_) = node.op
            && let Held::Coded(coding) = self.held(node.inputs[1], Rule::of)
        {
            return Some(self.coded(node, coding, epilogue));
        }
        let turn = match node.op {
            Op::Linear(_) => Operand::BTransposed,
            Op::LinearInputGrad(_) => Operand::B,
            Op::LinearWeightGrad(_) => return self.bf16_weight_grad(node),
            _ => return None,
        };
        let (format, weight) = self.narrow_weight(node.inputs[1], turn)?;
        let k = self.graph.shape(node.inputs[0]).width;
        let bias = node.inputs.get(2).map(|&bias| self.value(bias));
        let inputs = [self.narrowed(node.inputs[0], RowFormat::Lowp(format.of_rows())), weight]
            .into_iter()
            .chain(bias)
            .collect();
        let kernel = Kernel::LowpProduct { format, k, epilogue, output: OutputFormat::F32 };
        Some((Step::new(kernel, Work::Lowp { k }), inputs))
    }

    /// Whether a gate and the product that it gates are one step: both weights are held alike, in low-precision numbers or few bits.
    pub(super) fn are_one(&self, gate: &Node, product: &Node) -> bool {
        let held = |node: &Node| node.inputs.get(1).map(|&weight| self.held(weight, Rule::of));
        matches!(held(gate), Some(Held::Narrow(_) | Held::Coded(_))) && held(gate) == held(product)
    }

    /// The step of a gate and the product that it gates, with what they read.
    pub(super) fn gated(&mut self, gate: &Node, product: &Node, act: Activation) -> (Step, Vec<SlotId>) {
        let (x, k) = (product.inputs[0], self.graph.shape(product.inputs[0]).width);
        let weights = [gate.inputs[1], product.inputs[1]];
        let (kernel, kind, weights) = match self.held(weights[0], Rule::of) {
            Held::Coded(coding) => {
                let weights = weights.map(|weight| self.coded_constant(weight, coding));
                (Kernel::CodedGated { coding, k, act }, RowFormat::Coded, weights)
            }
            Held::Narrow(format) => {
                let weights = weights.map(|weight| self.narrow_constant(weight, format));
                (
                    Kernel::LowpGated { format, k, act, output: OutputFormat::F32 },
                    RowFormat::Lowp(format.of_rows()),
                    weights,
                )
            }
            Held::Wide => unreachable!("`are_one` says that they are narrow"),
        };
        let biases = gate.inputs.get(2).into_iter().chain(product.inputs.get(2));
        let biases: Vec<SlotId> = biases.map(|&bias| self.value(bias)).collect();
        let inputs = [self.narrowed(x, kind)].into_iter().chain(weights).chain(biases).collect();
        (Step::new(kernel, Work::Lowp { k: 2 * k }), inputs)
    }

    /// The queries, keys and values of attentions that read them as `bf16`: those of an encoder that looks at itself on tiles, where
    /// they are products of low-precision numbers and nobody else reads them. The bits are those that tiles would round themselves.
    pub(super) fn find_halves(&self, fusions: &Fusions) -> HashMap<Value, f32> {
        let mut halves = HashMap::new();
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let (Op::Attend(op), &[q, k, v, ..]) = (&node.op, &node.inputs[..]) else { continue };
            let fits = op.keys == Keys::Rows(Rows::Tokens(op.side))
                && op.size.is_multiple_of(LINE)
                && op.relative != Relative::TransformerXl;
            let alone =
                |&value: &Value| fusions.only_reader(value) == Some(index) && self.can_be_halves(value);
            if self.choice.tiles && fits && [q, k, v].iter().all(alone) {
                halves.extend([(q, op.scale), (k, 1.0), (v, 1.0)]);
            }
        }
        halves
    }

    /// Finds the products that an activation follows and a slope on the way back, where all of it is in low precision: the product applies it to what it
    /// computes, and keeps what that was quantized.
    pub(super) fn find_kept(&mut self, fusions: &mut Fusions) {
        let nodes = self.graph.nodes();
        for (product, node) in nodes.iter().enumerate().filter(|_| self.deal.by_tiles) {
            let (Op::Linear(_), &[value], &[x, ..]) = (&node.op, &node.outputs[..], &node.inputs[..]) else {
                continue;
            };
            let Some(&[activate, slope]) = fusions.readers(value) else { continue };
            let Op::Activate(op) = nodes[activate].op else { continue };
            let back = &nodes[slope];
            let bends_back =
                matches!(back.op, Op::ActivateGrad(_)) && back.inputs[0] == value && back.inputs[1] != value;
            let narrow_back = bends_back
                && fusions.done.contains(&slope)
                && matches!(self.graph.info(back.inputs[1]).origin, Origin::Node(node, _)
                    if self.reads_halves(nodes[node.0].inputs[0], &nodes[node.0]));
            let bent = nodes[activate].outputs[0];
            if narrow_back && self.reads_halves(x, node) && self.format_of(bent, fusions).is_some() {
                let fused =
                    Fused { epilogue: EpilogueKind::ActivateAndKeep(op.act), other: None, output: bent };
                fusions.products.insert(product, fused);
                fusions.done.insert(activate);
                self.kept.insert(value);
            }
        }
    }

    /// Whether `value` is a product of low-precision numbers that is done in one block.
    fn can_be_halves(&self, value: Value) -> bool {
        let Origin::Node(node, _) = self.graph.info(value).origin else { return false };
        let node = &self.graph.nodes()[node.0];
        match (&node.op, self.held(*node.inputs.get(1).unwrap_or(&value), Rule::of)) {
            (Op::Linear(_), Held::Narrow(Format::Bf16)) => true,
            (Op::Linear(_), Held::Narrow(format @ (Format::Int8 | Format::Int4))) => {
                format.blocks(self.graph.shape(node.inputs[0]).width) == 1
            }
            _ => false,
        }
    }

    /// What `value`, a product of low-precision numbers, is quantized to, where all who read it read it so.
    pub(super) fn format_of(&self, value: Value, fusions: &Fusions) -> Option<Format> {
        let held = fusions.only_reader(value).and_then(|reader| self.format_for(value, reader));
        let trained = || {
            let readers = fusions.readers(value)?;
            let narrowed = |&reader: &usize| self.reads_halves(value, &self.graph.nodes()[reader]);
            (self.deal.by_tiles && readers.iter().all(narrowed)).then_some(Format::Bf16)
        };
        held.or_else(trained)
    }

    /// Whether `node` reads `value` rounded to `bf16`, where it is trained.
    fn reads_halves(&self, value: Value, node: &Node) -> bool {
        let trained = |weight: Value| {
            let weight = self.graph.info(weight);
            weight.origin != Origin::Leaf(Leaf::Weight) && self.choice.rule.trained(&weight.name).is_some()
        };
        match (&node.op, &node.inputs[..]) {
            (Op::Linear(_) | Op::LinearInputGrad(_), &[x, weight, ..]) => {
                x == value && weight != value && trained(weight)
            }
            (Op::LinearWeightGrad(_), _) => self.choice.rule.trained(&node.name).is_some(),
            (Op::SumRows(_), _) => true,
            _ => false,
        }
    }

    /// What the node of this number wants `value` quantized to, where it multiplies it by a weight that is held in low precision.
    fn format_for(&self, value: Value, node: usize) -> Option<Format> {
        let node = &self.graph.nodes()[node];
        let multiplies = matches!(node.op, Op::Linear(_)) && node.inputs[0] == value;
        match self.held(*node.inputs.get(1)?, Rule::of) {
            Held::Narrow(format) if multiplies => Some(format.of_rows()),
            Held::Narrow(_) | Held::Wide | Held::Coded(_) => None,
        }
    }

    /// What `value` is held in by this side of the rule, where it is a weight.
    fn held(&self, value: Value, by: impl Fn(&Rule, About<'_>) -> Held) -> Held {
        let info = self.graph.info(value);
        if info.origin != Origin::Leaf(Leaf::Weight) {
            return Held::Wide;
        }
        let Shape { rows, width } = info.shape;
        by(self.choice.rule, self.choice.about(&info.name, self.capacity.count(rows), width))
    }

    /// The step of a lookup in a table that is not held in `f32`, and the table.
    fn int8_lookup(&mut self, node: &Node, op: Lookup) -> Option<(Step, Vec<SlotId>)> {
        let table = node.inputs[0];
        let words = self.capacity.count(self.graph.shape(table).rows);
        let (kernel, slot) = match self.held(table, Rule::of_table) {
            Held::Wide => return None,
            Held::Narrow(Format::Int8) if self.is_only_looked_up(table) => {
                let floats = Table::len(words, self.graph.shape(table).width);
                let slot = self.constant(Wanted::Table(table), Shape::fixed(1, floats));
                (Kernel::TableLookup { op, words }, slot)
            }
            Held::Narrow(format) => (Kernel::Int8Lookup { op, words }, self.narrow_constant(table, format)),
            Held::Coded(coding) => {
                (Kernel::CodedLookup { op, coding, words }, self.coded_constant(table, coding))
            }
        };
        Some((Step::new(kernel, Work::Rows), vec![slot]))
    }

    /// Whether nobody multiplies by `table`. A graph that stores keys is one of several of a model, and another may: then one form
    /// of it will do for both.
    fn is_only_looked_up(&self, table: Value) -> bool {
        let other = |node: &Node| match node.op {
            Op::Lookup(_) => false,
            Op::Store(_) => true,
            _ => node.inputs.contains(&table),
        };
        !self.graph.nodes().iter().any(other)
    }

    /// The step of a product whose weight is in few bits, and what it reads.
    fn coded(&mut self, node: &Node, coding: Coding, epilogue: EpilogueKind) -> (Step, Vec<SlotId>) {
        let k = self.graph.shape(node.inputs[0]).width;
        let step = Step::new(Kernel::CodedProduct { coding, k, epilogue }, Work::Lowp { k });
        let weight = self.coded_constant(node.inputs[1], coding);
        let bias = node.inputs.get(2).map(|&bias| self.value(bias));
        let x = self.narrowed(node.inputs[0], RowFormat::Coded);
        (step, [x, weight].into_iter().chain(bias).collect())
    }

    /// A weight in few bits.
    fn coded_constant(&mut self, value: Value, coding: Coding) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = coded::Weight::len(coding, width, self.capacity.count(rows));
        self.constant(Wanted::Coded(value, coding), Shape::fixed(1, floats))
    }

    /// A weight as the low-precision B of a product.
    fn narrow_constant(&mut self, value: Value, format: Format) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = Weight::len(format, width, self.capacity.count(rows));
        self.constant(Wanted::Narrow(value, format), Shape::fixed(1, floats))
    }

    /// A weight as the low-precision B of a product: held, where it does not change, else made at every run.
    fn narrow_weight(&mut self, value: Value, operand: Operand) -> Option<(Format, SlotId)> {
        let weight = self.graph.info(value);
        if weight.origin != Origin::Leaf(Leaf::Weight) {
            return self
                .choice
                .rule
                .trained(&weight.name)
                .map(|format| (format, self.operand(value, operand)));
        }
        if operand != Operand::BTransposed {
            return None;
        }
        match self.held(value, Rule::of) {
            Held::Narrow(format) => Some((format, self.narrow_constant(value, format))),
            Held::Wide | Held::Coded(_) => None,
        }
    }

    /// The gradient of a weight that is in low precision itself, or would be.
    fn bf16_weight_grad(&mut self, node: &Node) -> Option<(Step, Vec<SlotId>)> {
        self.choice.rule.trained(&node.name)?;
        let (dy, x) = (node.inputs[0], node.inputs[1]);
        let inputs =
            vec![self.operand(dy, Operand::ATransposed), self.operand(x, Operand::B), self.halves_of(dy).0];
        Some((Step::new(Kernel::Bf16WeightGrad, Work::LowpOverRows), inputs))
    }

    /// `value` as an operand in `bf16`, once for all products that read it so.
    fn operand(&mut self, value: Value, operand: Operand) -> SlotId {
        if let Some(&slot) = self.operands.get(&(value, operand)) {
            return slot;
        }
        let (from, narrowed) = self.halves_of(value);
        let Shape { rows, width } = self.graph.shape(value);
        let to = self.block(OperandPacker::len(operand, self.capacity.count(rows), width));
        let phase = self.slots[from].ready.max(self.phase.saturating_sub(1));
        let kernel = Kernel::PackOperand(operand, narrowed.then_some(width));
        self.step(phase, Step::new(kernel, Work::First), vec![from], &[to]);
        self.operands.insert((value, operand), to);
        to
    }

    /// Where `value` is rounded to `bf16`, if somebody did that, else where it is, and whether it is quantized.
    fn halves_of(&mut self, value: Value) -> (SlotId, bool) {
        match self.narrowed.get(&(value, HALVES)) {
            Some(&slot) => (slot, true),
            None => (self.value(value), false),
        }
    }

    /// `value` quantized, once for all products that read it.
    pub(super) fn narrowed(&mut self, value: Value, kind: RowFormat) -> SlotId {
        if let Some(&slot) = self.narrowed.get(&(value, kind)) {
            return slot;
        }
        let (from, to) = (self.value(value), self.narrowed_slot(value, kind));
        if self.norm_narrows(from, to, kind) {
            return to;
        }
        // Where it has been there for a while, beside what comes before: then it costs no barrier.
        let phase = self.slots[from].ready.max(self.phase.saturating_sub(1));
        self.step(phase, Step::new(Kernel::Quantize(kind), Work::First), vec![from], &[to]);
        to
    }

    /// Lets the norm that writes `from` narrow it too, where it comes from one: its rows are near then.
    fn norm_narrows(&mut self, from: SlotId, to: SlotId, kind: RowFormat) -> bool {
        let Some(step) = self.steps.iter_mut().find(|step| step.operands[step.inputs..] == [from]) else {
            return false;
        };
        let Kernel::Op(Op::Norm(norm)) = step.kernel else { return false };
        step.kernel = Kernel::QuantizedNorm(norm, kind);
        step.operands.push(to);
        let grown = &mut self.slots[to];
        grown.ready = step.phase + 1;
        grown.life = Life { first: step.phase, last: step.phase, ..grown.life };
        true
    }

    /// Where `value` will be quantized.
    pub(super) fn narrowed_slot(&mut self, value: Value, kind: RowFormat) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = kind.floats(self.capacity.count(rows), width);
        let to = if kind == HALVES {
            // A tile is as many floats as if its rows followed one another.
            let count =
                self.of_value.get(&value).map_or(Count::Rows(rows), |&slot| self.slots[slot].slot.rows);
            self.inside(count, kind.floats(1, width) / LINES, floats)
        } else {
            self.block(floats)
        };
        self.slots[to].contents = Contents::Quantized(kind, width);
        self.narrowed.insert((value, kind), to);
        to
    }
}
