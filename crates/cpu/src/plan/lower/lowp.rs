//! Products of what is not in `f32`: which steps they are, and what is quantized for them.

use glassformer_graph::ops::{Activation, Keys, Lookup, Relative};
use glassformer_graph::{Leaf, Node, Op, Origin, Rows, Shape, Value};
use glassformer_plan::{About, Count, EpilogueKind, Fused, Fusions, Rule, SlotId, Type};
use glassformer_tensor::Coding;

use super::super::constants::{self, Wanted};
use super::{BF16_ROWS, Contents, Form, Holding, Lowering, Task};
use crate::kernels::{Kernel, OutputFormat, Work};
use crate::lowp::{Format, Operand, OperandPacker, RowFormat, Table, Weight, coded};

/// Numbers in `bf16` in a cache line.
const LINE: usize = 32;
/// Lines in a tile.
const LINES: usize = 16;

impl Lowering<'_> {
    /// What `node` is with low-precision numbers, and what it reads, where it is a product that is not done in `f32`.
    pub(super) fn lowp(&mut self, node: &Node, epilogue: EpilogueKind) -> Option<(Task, Vec<SlotId>)> {
        if let Op::Lookup(op) = node.op {
            return self.int8_lookup(node, op);
        }
        if let Op::SumRows(_) = node.op
            && self.is_quantized(node.inputs[0])
        {
            let inputs = vec![self.quantized(node.inputs[0], BF16_ROWS)];
            return Some((Task::new(Kernel::SumBf16Rows, Work::First), inputs));
        }
        if let Op::Linear(_) = node.op
            && let Type::Coded(coding) = self.held(node.inputs[1], Rule::of)
        {
            return Some(self.coded(node, coding, epilogue));
        }
        let operand = match node.op {
            Op::Linear(_) => Operand::BTransposed,
            Op::LinearInputGrad(_) => Operand::B,
            Op::LinearWeightGrad(_) => return self.bf16_weight_grad(node),
            _ => return None,
        };
        let (format, weight) = self.lowp_weight(node.inputs[1], operand)?;
        let k = self.graph.shape(node.inputs[0]).width;
        let bias = node.inputs.get(2).map(|&bias| self.value(bias));
        let inputs = [self.quantized(node.inputs[0], RowFormat::Lowp(format.of_rows())), weight]
            .into_iter()
            .chain(bias)
            .collect();
        let kernel = Kernel::LowpProduct { format, k, epilogue, output: OutputFormat::F32 };
        Some((Task::new(kernel, Work::Lowp { k }), inputs))
    }

    /// Whether a gate and the product that it gates are one step: both weights are held alike, in low-precision numbers or few bits.
    pub(super) fn are_one(&self, gate: &Node, product: &Node) -> bool {
        let held = |node: &Node| node.inputs.get(1).map(|&weight| self.held(weight, Rule::of));
        held(gate).is_some_and(|held| held != Type::F32) && held(gate) == held(product)
    }

    /// The step of a gate and the product that it gates, with what they read.
    pub(super) fn gated(&mut self, gate: &Node, product: &Node, act: Activation) -> (Task, Vec<SlotId>) {
        let (x, k) = (product.inputs[0], self.graph.shape(product.inputs[0]).width);
        let weights = [gate.inputs[1], product.inputs[1]];
        let held = self.held(weights[0], Rule::of);
        let (kernel, rows, weights) = if let Type::Coded(coding) = held {
            let weights = weights.map(|weight| self.coded_constant(weight, coding));
            (Kernel::CodedGated { coding, k, act }, RowFormat::Coded, weights)
        } else {
            let Some(format) = Format::of(held) else {
                unreachable!("`are_one` says that they are not in f32")
            };
            let weights = weights.map(|weight| self.lowp_constant(weight, format));
            let kernel = Kernel::LowpGated { format, k, act, output: OutputFormat::F32 };
            (kernel, RowFormat::Lowp(format.of_rows()), weights)
        };
        let biases = gate.inputs.get(2).into_iter().chain(product.inputs.get(2));
        let biases: Vec<SlotId> = biases.map(|&bias| self.value(bias)).collect();
        let inputs = [self.quantized(x, rows)].into_iter().chain(weights).chain(biases).collect();
        (Task::new(kernel, Work::Lowp { k: 2 * k }), inputs)
    }

    /// Types the queries, keys and values of attentions that read them in `bf16`: those of an encoder that looks at itself on tiles, where
    /// they are products of low-precision numbers and nobody else reads them. The bits are those that tiles would round themselves.
    pub(super) fn type_attentions(&mut self, fusions: &Fusions) {
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let (Op::Attend(op), &[q, k, v, ..]) = (&node.op, &node.inputs[..]) else { continue };
            let fits = op.keys == Keys::Rows(Rows::Tokens(op.side))
                && op.size.is_multiple_of(LINE)
                && op.relative != Relative::TransformerXl;
            let alone = |&value: &Value| fusions.only_reader(value) == Some(index) && self.can_be_bf16(value);
            if self.holding.tiles && fits && [q, k, v].iter().all(alone) {
                let scales = [(q, op.scale), (k, 1.0), (v, 1.0)];
                self.types.extend(scales.map(|(value, scale)| (value, OutputFormat::ScaledBf16(scale))));
            }
        }
    }

    /// Types what activations are applied to, where a product does that and a derivative on the way back reads it, all of it in low precision:
    /// the product applies the activation to what it computes, and keeps what that was quantized.
    pub(super) fn type_activations(&mut self, fusions: &mut Fusions) {
        let nodes = self.graph.nodes();
        for (product, node) in nodes.iter().enumerate().filter(|_| self.schedule.by_tiles) {
            let (Op::Linear(_), &[value], &[x, ..]) = (&node.op, &node.outputs[..], &node.inputs[..]) else {
                continue;
            };
            let Some(&[activate, derivative]) = fusions.readers(value) else { continue };
            let Op::Activate(op) = nodes[activate].op else { continue };
            let back = &nodes[derivative];
            let is_derivative =
                matches!(back.op, Op::ActivateGrad(_)) && back.inputs[0] == value && back.inputs[1] != value;
            let is_lowp = is_derivative
                && fusions.done.contains(&derivative)
                && matches!(self.graph.info(back.inputs[1]).origin, Origin::Node(node, _)
                    if self.reads_bf16(nodes[node.0].inputs[0], &nodes[node.0]));
            let output = nodes[activate].outputs[0];
            if is_lowp && self.reads_bf16(x, node) && self.format_of(output, fusions).is_some() {
                let fused = Fused { epilogue: EpilogueKind::ActivateAndKeep(op.act), other: None, output };
                fusions.products.insert(product, fused);
                fusions.done.insert(activate);
                self.types.insert(value, OutputFormat::Quantized(Format::Bf16));
            }
        }
    }

    /// Whether `value` is a product of low-precision numbers that is done in one block.
    fn can_be_bf16(&self, value: Value) -> bool {
        let Origin::Node(node, _) = self.graph.info(value).origin else { return false };
        let node = &self.graph.nodes()[node.0];
        match (&node.op, self.held(*node.inputs.get(1).unwrap_or(&value), Rule::of)) {
            (Op::Linear(_), Type::Bf16) => true,
            (Op::Linear(_), held @ (Type::Int8 | Type::Int4)) => {
                let k = self.graph.shape(node.inputs[0]).width;
                Format::of(held).is_some_and(|format| format.blocks(k) == 1)
            }
            _ => false,
        }
    }

    /// What `value`, a product of low-precision numbers, is quantized to, where all who read it read it so.
    pub(super) fn format_of(&self, value: Value, fusions: &Fusions) -> Option<Format> {
        let held = fusions.only_reader(value).and_then(|reader| self.format_for(value, reader));
        let trained = || {
            let readers = fusions.readers(value)?;
            let as_bf16 = |&reader: &usize| self.reads_bf16(value, &self.graph.nodes()[reader]);
            (self.schedule.by_tiles && readers.iter().all(as_bf16)).then_some(Format::Bf16)
        };
        held.or_else(trained)
    }

    /// Whether `node` reads `value` rounded to `bf16`, where it is trained.
    fn reads_bf16(&self, value: Value, node: &Node) -> bool {
        let trained = |weight: Value| {
            let weight = self.graph.info(weight);
            weight.origin != Origin::Leaf(Leaf::Weight) && self.holding.rule.trained(&weight.name).is_some()
        };
        match (&node.op, &node.inputs[..]) {
            (Op::Linear(_) | Op::LinearInputGrad(_), &[x, weight, ..]) => {
                x == value && weight != value && trained(weight)
            }
            (Op::LinearWeightGrad(_), _) => self.holding.rule.trained(&node.name).is_some(),
            (Op::SumRows(_), _) => true,
            _ => false,
        }
    }

    /// What the node of this number wants `value` quantized to, where it multiplies it by a weight that is held in low precision.
    fn format_for(&self, value: Value, node: usize) -> Option<Format> {
        let node = &self.graph.nodes()[node];
        let multiplies = matches!(node.op, Op::Linear(_)) && node.inputs[0] == value;
        let format = Format::of(self.held(*node.inputs.get(1)?, Rule::of))?;
        multiplies.then_some(format.of_rows())
    }

    /// What `value` is held in by this side of the rule, where it is a weight.
    fn held(&self, value: Value, by: impl Fn(&Rule, About<'_>) -> Type) -> Type {
        let info = self.graph.info(value);
        if info.origin != Origin::Leaf(Leaf::Weight) {
            return Type::F32;
        }
        let Shape { rows, width } = info.shape;
        let Holding { rule, weights, .. } = self.holding;
        by(rule, rule.about(weights, &info.name, self.capacity.count(rows), width))
    }

    /// The step of a lookup in a table that is not held in `f32`, and the table.
    fn int8_lookup(&mut self, node: &Node, op: Lookup) -> Option<(Task, Vec<SlotId>)> {
        let table = node.inputs[0];
        let vocabulary = self.capacity.count(self.graph.shape(table).rows);
        let (kernel, slot) = match self.held(table, Rule::of_table) {
            Type::F32 => return None,
            Type::Int8 if self.is_only_looked_up(table) => {
                let floats = Table::len(vocabulary, self.graph.shape(table).width);
                let slot =
                    self.constant(Wanted::Weight(table, constants::Form::Table), Shape::fixed(1, floats));
                (Kernel::TableLookup { op, vocabulary }, slot)
            }
            Type::Coded(coding) => {
                (Kernel::CodedLookup { op, coding, vocabulary }, self.coded_constant(table, coding))
            }
            held => (Kernel::Int8Lookup { op, vocabulary }, self.lowp_constant(table, Format::of(held)?)),
        };
        Some((Task::new(kernel, Work::Rows), vec![slot]))
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
    fn coded(&mut self, node: &Node, coding: Coding, epilogue: EpilogueKind) -> (Task, Vec<SlotId>) {
        let k = self.graph.shape(node.inputs[0]).width;
        let step = Task::new(Kernel::CodedProduct { coding, k, epilogue }, Work::Lowp { k });
        let weight = self.coded_constant(node.inputs[1], coding);
        let bias = node.inputs.get(2).map(|&bias| self.value(bias));
        let x = self.quantized(node.inputs[0], RowFormat::Coded);
        (step, [x, weight].into_iter().chain(bias).collect())
    }

    /// A weight in few bits.
    fn coded_constant(&mut self, value: Value, coding: Coding) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = coded::Weight::len(coding, width, self.capacity.count(rows));
        self.constant(Wanted::Weight(value, constants::Form::Coded(coding)), Shape::fixed(1, floats))
    }

    /// A weight as the low-precision B of a product.
    fn lowp_constant(&mut self, value: Value, format: Format) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = Weight::len(format, width, self.capacity.count(rows));
        self.constant(Wanted::Weight(value, constants::Form::Lowp(format)), Shape::fixed(1, floats))
    }

    /// A weight as the low-precision B of a product: held, where it does not change, else made at every run.
    fn lowp_weight(&mut self, value: Value, operand: Operand) -> Option<(Format, SlotId)> {
        let weight = self.graph.info(value);
        if weight.origin != Origin::Leaf(Leaf::Weight) {
            let format = Format::of(self.holding.rule.trained(&weight.name)?)?;
            return Some((format, self.operand(value, operand)));
        }
        if operand != Operand::BTransposed {
            return None;
        }
        let format = Format::of(self.held(value, Rule::of))?;
        Some((format, self.lowp_constant(value, format)))
    }

    /// The gradient of a weight that is in low precision itself, or would be.
    fn bf16_weight_grad(&mut self, node: &Node) -> Option<(Task, Vec<SlotId>)> {
        self.holding.rule.trained(&node.name)?;
        let (dy, x) = (node.inputs[0], node.inputs[1]);
        let operands = [self.operand(dy, Operand::ATransposed), self.operand(x, Operand::B)];
        let inputs = operands.into_iter().chain([self.nearest_bf16(dy).0]).collect();
        Some((Task::new(Kernel::Bf16WeightGrad, Work::LowpOverRows), inputs))
    }

    /// `value` as an operand in `bf16`, once for all products that read it so.
    fn operand(&mut self, value: Value, operand: Operand) -> SlotId {
        let form = (value, Form::Operand(operand));
        if let Some(&slot) = self.forms.get(&form) {
            return slot;
        }
        let (from, is_bf16) = self.nearest_bf16(value);
        let Shape { rows, width } = self.graph.shape(value);
        let to = self.steps.block(OperandPacker::len(operand, self.capacity.count(rows), width));
        let kernel = Kernel::PackOperand(operand, is_bf16.then_some(width));
        self.prepare(Task::new(kernel, Work::First), from, to);
        self.forms.insert(form, to);
        to
    }

    /// Where `value` is in `bf16`, if somebody rounded it, else where it is, and which of the two.
    fn nearest_bf16(&mut self, value: Value) -> (SlotId, bool) {
        match self.forms.get(&(value, Form::Rows(BF16_ROWS))) {
            Some(&slot) => (slot, true),
            None => (self.value(value), false),
        }
    }

    /// `value` quantized, once for all products that read it.
    pub(super) fn quantized(&mut self, value: Value, format: RowFormat) -> SlotId {
        if let Some(&slot) = self.forms.get(&(value, Form::Rows(format))) {
            return slot;
        }
        let (from, to) = (self.value(value), self.quantized_slot(value, format));
        // A norm does it along the way, where the value comes from one: its rows are near then.
        let by_norm = self.steps.write_too(from, to, |task| {
            let Kernel::Op(Op::Norm(norm)) = task.kernel else { return false };
            task.kernel = Kernel::QuantizedNorm(norm, format);
            true
        });
        if !by_norm {
            self.prepare(Task::new(Kernel::Quantize(format), Work::First), from, to);
        }
        to
    }

    /// Appends what makes `to` of `from` for the next step: where `from` has been there for a while, it costs no barrier.
    fn prepare(&mut self, task: Task, from: SlotId, to: SlotId) {
        let phase = self.steps.beside(from, self.steps.phase());
        self.steps.step(phase, task, vec![from], &[to]);
    }

    /// Where `value` will be quantized.
    pub(super) fn quantized_slot(&mut self, value: Value, format: RowFormat) -> SlotId {
        let Shape { rows, width } = self.graph.shape(value);
        let floats = format.floats(self.capacity.count(rows), width);
        let to = if format == BF16_ROWS {
            // A tile is as many floats as if its rows followed one another.
            let plain = self.forms.get(&(value, Form::Plain));
            let count = plain.map_or(Count::Rows(rows), |&slot| self.steps.get(slot).rows);
            self.steps.inside(count, format.floats(1, width) / LINES, floats)
        } else {
            self.steps.block(floats)
        };
        self.steps.set_contents(to, Contents::Quantized(format, width));
        self.forms.insert((value, Form::Rows(format)), to);
        to
    }
}
