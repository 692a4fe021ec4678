//! From a graph to steps: which kernel runs on which values, in which phase.
//!
//! Products that are not done in `f32` are in `lower/lowp.rs`.

use std::collections::HashMap;

use glassformer_graph::ops::{Counting, Direction, Pairing, Rotate, Sinusoid, Turns, Which};
use glassformer_graph::{
    Capacity, Constants, Graph, Leaf, Node, Op, Origin, Rows, Shape, Side, Update, Value,
};
use glassformer_plan::{Count, EpilogueKind, Fused, Fusions, Home, Rule, Slot, SlotId, Steps};

use super::constants::{self, Wanted};
use super::row_blocks::{self, Region, Seen};
use super::schedule::Schedule;
use super::{Step, Task};
use crate::gemm::Packed;
use crate::kernels::{Access, Kernel, OutputFormat, Packs, Reads, Work, needs};
use crate::lowp::{Format, Operand, RowFormat};

mod lowp;

/// Positions that there are tables for, at most. Whoever stands behind them has its sines computed, so that room for a text of
/// millions of tokens costs nothing before there is one.
const TABLED: usize = 1 << 13;
/// Rows of a value in `bf16`, as products read them.
const BF16_ROWS: RowFormat = RowFormat::Lowp(Format::Bf16);
/// Floats of a cache line: slots begin on one.
const LINE: usize = 16;

/// A graph as steps.
pub(super) struct Lowered {
    pub slots: Vec<Slot>,
    pub steps: Vec<Step>,
    /// What the steps are cut into, in order.
    pub regions: Vec<Region>,
    /// Where each output of the graph is.
    pub outputs: Vec<SlotId>,
    pub wanted: Vec<Wanted>,
    /// Floats of the arena that slots need.
    pub floats: usize,
    /// Floats that a worker needs for its block of rows.
    pub row_block: usize,
    /// Floats that one worker's scratch needs.
    pub scratch: usize,
}

impl Lowered {
    /// Whether it holds something for each pair of a query and a key: a capacity cannot tell whether they all fit.
    pub fn holds_pairs(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.rows, Count::Pairs(_)))
    }

    /// Wants what `other` wants, and lets it want the rest: both read the same constants then.
    pub fn want_with(&mut self, other: &mut Self) {
        let mut place = |wanted: &Wanted| {
            other.wanted.iter().position(|known| known == wanted).unwrap_or_else(|| {
                other.wanted.push(wanted.clone());
                other.wanted.len() - 1
            })
        };
        let places: Vec<usize> = self.wanted.iter().map(&mut place).collect();
        for slot in &mut self.slots {
            if let Home::Constant(index) = &mut slot.home {
                *index = places[*index];
            }
        }
        self.wanted.clear();
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default)]
enum Contents {
    /// Rows, one after the other.
    #[default]
    Rows,
    /// Rows of so many numbers, quantized.
    Quantized(RowFormat, usize),
}

/// The forms that a value is read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    /// Rows, one after the other, of the value's [type](Lowering::types).
    Plain,
    /// The B of a product.
    Packed(Packs),
    /// The A of a product in low precision.
    Rows(RowFormat),
    /// An operand of a product in `bf16`.
    Operand(Operand),
}

/// What weights are held in.
#[derive(Clone, Copy)]
pub(super) struct Holding<'a> {
    pub rule: &'a Rule,
    pub weights: &'a dyn Constants,
    /// Whether attentions are multiplied on tiles, whatever the weights are stored in.
    pub tiles: bool,
}

pub(super) struct Lowering<'a> {
    graph: &'a Graph,
    capacity: &'a Capacity,
    holding: Holding<'a>,
    schedule: Schedule,
    steps: Steps<Task, Contents>,
    /// Where values are, in each form that somebody wanted.
    forms: HashMap<(Value, Form), SlotId>,
    /// What values are written in, where that is not `f32`.
    types: HashMap<Value, OutputFormat>,
    /// Angles that each run computes.
    angles: Vec<(Rotate, SlotId)>,
    wanted: Vec<(Wanted, SlotId)>,
    /// The pages that the present phase uses.
    pages: Vec<(Which, usize, Access)>,
    scratch: usize,
}

impl<'a> Lowering<'a> {
    /// The steps of `graph`, with a place for every value.
    pub fn of(graph: &'a Graph, capacity: &'a Capacity, holding: Holding<'a>, schedule: Schedule) -> Lowered {
        let mut lowering = Self {
            graph,
            capacity,
            holding,
            schedule,
            steps: Steps::default(),
            forms: HashMap::new(),
            types: HashMap::new(),
            angles: Vec::new(),
            wanted: Vec::new(),
            pages: Vec::new(),
            scratch: 0,
        };
        for (kind, home) in [(Leaf::Input, Home::Input as fn(usize) -> Home), (Leaf::Kept, Home::Kept)] {
            for (index, (value, info)) in graph.leaves(kind).enumerate() {
                let rows = Count::Rows(info.shape.rows);
                let slot = lowering.steps.outside(rows, info.shape.width, home(index));
                lowering.forms.insert((value, Form::Plain), slot);
            }
        }
        let mut fusions = Fusions::of(graph);
        lowering.type_attentions(&fusions);
        lowering.type_activations(&mut fusions);
        let nodes = graph.nodes();
        let one = |&(gate, product): &(usize, usize)| lowering.are_one(&nodes[gate], &nodes[product]);
        let pairs: Vec<(usize, usize)> = fusions.gates().filter(one).collect();
        for (index, node) in nodes.iter().enumerate() {
            if fusions.done.contains(&index) || pairs.iter().any(|&(gate, _)| gate == index) {
                continue;
            }
            let gate = pairs.iter().find(|&&(_, product)| product == index).map(|&(gate, _)| &nodes[gate]);
            lowering.node(node, fusions.products.get(&index), gate, &fusions);
        }
        let outputs: Vec<SlotId> = graph.outputs().iter().map(|&(_, value)| lowering.output(value)).collect();
        for update in graph.updates() {
            lowering.update(*update, &outputs);
        }
        lowering.finish(outputs)
    }

    fn finish(mut self, outputs: Vec<SlotId>) -> Lowered {
        for &output in &outputs {
            self.steps.live_on(output);
        }
        self.steps.sort();
        let (regions, inside) = self.regions(&outputs);
        let row_block = self.steps.lay_out(LINE, |slot| inside[slot], Home::Worker);
        self.lengthen_lives(&regions);
        let floats = self.steps.lay_out(LINE, |slot| !inside[slot], Home::Arena);
        let (slots, steps) = self.steps.finish();
        Lowered {
            slots,
            steps,
            regions,
            outputs,
            wanted: self.wanted.into_iter().map(|(wanted, _)| wanted).collect(),
            floats,
            row_block,
            scratch: self.scratch.next_multiple_of(LINE),
        }
    }

    /// Cuts the steps into regions. What is inside a region of row blocks needs no more room than the rows of one worker.
    fn regions(&mut self, outputs: &[SlotId]) -> (Vec<Region>, Vec<bool>) {
        let seen = |slot: SlotId| Seen {
            rows: self.steps.get(slot).rows,
            plain: match self.steps.contents(slot) {
                Contents::Rows => true,
                Contents::Quantized(format, _) => self.schedule.by_tiles && format == BF16_ROWS,
            },
            hidden: matches!(self.steps.get(slot).home, Home::Arena(_)) && !outputs.contains(&slot),
        };
        let seen: Vec<Seen> = (0..self.steps.count()).map(seen).collect();
        let many = |rows: Rows| self.schedule.has_blocks(self.capacity.count(rows));
        let short = |side: Side| self.schedule.takes_sequences(self.capacity, side);
        let (regions, inside) =
            row_blocks::regions(self.steps.all(), &seen, self.schedule.by_layers, short, many);
        for slot in (0..inside.len()).filter(|&slot| inside[slot]) {
            let rows = self.schedule.rows;
            let floats = match self.steps.contents(slot) {
                Contents::Rows => rows * self.steps.get(slot).width,
                Contents::Quantized(format, k) => format.floats(rows, k),
            };
            self.steps.set_floats(slot, floats);
        }
        (regions, inside)
    }

    /// What a part of a region of row blocks touches lives as long as the part and the next one: one worker may be at the end of that while
    /// another one begins with this.
    fn lengthen_lives(&mut self, regions: &[Region]) {
        let blocked = regions.iter().filter(|region| region.rows.is_some());
        for (parts, at) in blocked.flat_map(|region| (0..region.parts.len()).map(|at| (&region.parts, at))) {
            let next = parts.get(at + 1).unwrap_or(&parts[at]);
            let steps = &self.steps.all()[parts[at].clone()];
            let (first, last) = (steps[0].phase, self.steps.all()[next.end - 1].phase);
            let touched: Vec<SlotId> = steps.iter().flat_map(|step| &step.operands).copied().collect();
            for slot in touched {
                self.steps.live(slot, first, last);
            }
        }
    }

    /// A constant, one for all who want the same.
    fn constant(&mut self, wanted: Wanted, shape: Shape) -> SlotId {
        if let Some((_, slot)) = self.wanted.iter().find(|(known, _)| *known == wanted) {
            return *slot;
        }
        let home = Home::Constant(self.wanted.len());
        let slot = self.steps.outside(Count::Rows(shape.rows), shape.width, home);
        self.wanted.push((wanted, slot));
        slot
    }

    fn value(&mut self, value: Value) -> SlotId {
        match self.forms.get(&(value, Form::Plain)) {
            Some(&slot) => slot,
            // All others were made by nodes, or given: see `of`.
            None => self.constant(Wanted::Weight(value, constants::Form::Plain), self.graph.shape(value)),
        }
    }

    /// Whether `value` is there quantized alone.
    fn is_quantized(&self, value: Value) -> bool {
        matches!(self.types.get(&value), Some(OutputFormat::Quantized(_)))
    }

    /// Whether `value` is in `bf16`, one row after the other.
    fn is_plain_bf16(&self, value: Value) -> bool {
        matches!(self.types.get(&value), Some(OutputFormat::ScaledBf16(_)))
    }

    /// Appends `node`, with what follows it, and its gate.
    fn node(&mut self, node: &Node, fused: Option<&Fused>, gate: Option<&Node>, fusions: &Fusions) {
        let shapes: Vec<Shape> = node.inputs.iter().map(|&input| self.graph.shape(input)).collect();
        let needs = needs(&node.op, &shapes, self.capacity);
        self.scratch = self.scratch.max(needs.scratch);
        let other = fused.and_then(|fused| fused.other);
        let epilogue = match fused.map_or(EpilogueKind::Nothing, |fused| fused.epilogue) {
            EpilogueKind::Derivative(act) if other.is_some_and(|other| self.is_quantized(other)) => {
                EpilogueKind::DerivativeBf16(act)
            }
            epilogue => epilogue,
        };
        let (mut task, mut inputs) = if let (Some(gate), EpilogueKind::Gate(act)) = (gate, epilogue) {
            self.gated(gate, node, act)
        } else if let Some(lowp) = self.lowp(node, epilogue) {
            lowp
        } else if fused.is_some() {
            (Task::new(Kernel::Product(epilogue), needs.work), self.inputs(node, &needs.reads))
        } else {
            let kernel = match &node.op {
                Op::Attend(op) if self.is_plain_bf16(node.inputs[0]) => Kernel::Bf16Attend(*op),
                op => Kernel::Op(op.clone()),
            };
            (Task::new(kernel, needs.work), self.inputs(node, &needs.reads))
        };

        if gate.is_none() {
            inputs.extend(other.map(|other| match epilogue {
                EpilogueKind::DerivativeBf16(_) => self.quantized(other, BF16_ROWS),
                _ => self.value(other),
            }));
        }

        let mut outputs = Vec::new();
        for &value in fused.map_or(&node.outputs[..], |fused| std::slice::from_ref(&fused.output)) {
            let Shape { rows, width } = self.graph.shape(value);
            let width = if self.is_plain_bf16(value) { width / 2 } else { width };
            let slot = self.steps.inside(self.count(node, rows), width, self.capacity.count(rows) * width);
            self.forms.insert((value, Form::Plain), slot);
            outputs.push(slot);
        }
        if needs.workspace > 0 {
            outputs.push(self.steps.block(needs.workspace));
        }
        if gate.is_some() {
            let Slot { rows, width, .. } = *self.steps.get(outputs[0]);
            let floats = self.steps.floats(outputs[0]);
            outputs.push(self.steps.inside(rows, width, floats));
        }
        if let Kernel::LowpProduct { output, .. } | Kernel::LowpGated { output, .. } = &mut task.kernel {
            let value = fused.map_or(node.outputs[0], |fused| fused.output);
            if let Some(format) = self.format_of(value, fusions) {
                self.types.insert(value, OutputFormat::Quantized(format));
                outputs.push(self.quantized_slot(value, RowFormat::Lowp(format)));
            }
            *output = self.types.get(&value).copied().unwrap_or(OutputFormat::F32);
            if let EpilogueKind::ActivateAndKeep(_) = epilogue {
                outputs.push(self.quantized_slot(node.outputs[0], BF16_ROWS));
            }
        }

        let mut phase = self.steps.ready_for(&inputs);
        let waits = needs.pages.is_some_and(|used| self.pages.iter().any(|&other| collide(used, other)));
        if phase == self.steps.phase() && waits {
            phase += 1;
        }
        if phase > self.steps.phase() {
            self.steps.go_to(phase);
            self.pages.clear();
        }
        self.pages.extend(needs.pages);
        self.steps.step(phase, task, inputs, &outputs);
    }

    /// The rows of an output of `node`. An operation on what was shown of an attention keeps its rows.
    fn count(&self, node: &Node, rows: Rows) -> Count {
        if let Op::AttendShow(show) = &node.op {
            return Count::Pairs(show.attend);
        }
        if let Rows::Pairs(_) = rows {
            let slots = node.inputs.iter().filter_map(|&input| self.forms.get(&(input, Form::Plain)));
            let mut counts = slots.map(|&slot| self.steps.get(slot).rows);
            return counts.find(|count| matches!(count, Count::Pairs(_))).unwrap_or(Count::Rows(rows));
        }
        Count::Rows(rows)
    }

    /// What the kernel of `node` reads.
    fn inputs(&mut self, node: &Node, reads: &Reads) -> Vec<SlotId> {
        match reads {
            Reads::Packed(b, packs) => self.product(node, *b, *packs),
            Reads::Inputs => node.inputs.iter().map(|&input| self.value(input)).collect(),
            Reads::Sinusoid(op) => vec![self.sinusoid(op)],
            Reads::Angles(op) => vec![self.value(node.inputs[0]), self.angles(op)],
        }
    }

    /// The rows of `op` for every position that there is room for, or the first of them.
    fn sinusoid(&mut self, op: &Sinusoid) -> SlotId {
        let positions = if let Rows::Tokens(side) = op.rows {
            self.capacity.side(side).keys
        } else {
            self.capacity.count(op.rows)
        }
        .min(TABLED);
        // The numbers do not depend on whose rows they are.
        let same = Sinusoid { rows: Rows::Fixed(positions), counting: Counting::Every, ..*op };
        self.constant(Wanted::Sinusoid(same, positions), Shape::fixed(positions, op.width))
    }

    /// The inputs of a product, of which number `b` comes packed.
    fn product(&mut self, node: &Node, b: usize, packs: Packs) -> Vec<SlotId> {
        let mut slots: Vec<SlotId> = Vec::new();
        for (k, &input) in node.inputs.iter().enumerate() {
            if k != b {
                slots.push(self.value(input));
            }
        }
        let natural = self.steps.ready_for(&slots);
        let packed = self.packed(node.inputs[b], packs, natural);
        slots.insert(b, packed);
        slots
    }

    /// `value` packed for a step that will run in phase `natural` if it need not wait for this.
    fn packed(&mut self, value: Value, packs: Packs, natural: usize) -> SlotId {
        if let Some(&slot) = self.forms.get(&(value, Form::Packed(packs))) {
            return slot;
        }
        let Shape { rows, width } = self.graph.shape(value);
        let (k, columns) = packs.sizes(self.capacity.count(rows), width);
        let floats = Packed::len(k, columns);
        let slot = if self.graph.info(value).origin == Origin::Leaf(Leaf::Weight) {
            self.constant(Wanted::Weight(value, constants::Form::Packed(packs)), Shape::fixed(1, floats))
        } else {
            let from = self.value(value);
            let to = self.steps.block(floats);
            let phase = self.steps.beside(from, natural);
            self.steps.step(phase, Task::new(Kernel::Pack(packs), Work::Numbers), vec![from], &[to]);
            to
        };
        self.forms.insert((value, Form::Packed(packs)), slot);
        slot
    }

    /// The angles that `op` rotates by.
    fn angles(&mut self, op: &Rotate) -> SlotId {
        // What the numbers do not depend on is set to something fixed, so that equal tables are one.
        let forward = Rotate {
            direction: Direction::Forward,
            pairing: Pairing::Halves,
            size: op.turning,
            ..op.clone()
        };
        let keys = self.capacity.side(op.side).keys.min(TABLED);
        match op.turns {
            Turns::Fixed(_) => {
                let table = Wanted::Angles(Rotate { side: Side::Source, ..forward }, keys);
                self.constant(table, Shape::fixed(keys, op.turning))
            }
            Turns::Dynamic { .. } | Turns::Long { .. } => {
                if let Some((_, slot)) = self.angles.iter().find(|(known, _)| *known == forward) {
                    return *slot;
                }
                let rows = Rows::Tokens(op.side);
                let floats = self.capacity.count(rows) * op.turning;
                let slot = self.steps.inside(Count::Rows(rows), op.turning, floats);
                let task = Task::new(Kernel::Angles(forward.clone()), Work::Numbers);
                self.steps.step(self.steps.phase().saturating_sub(1), task, Vec::new(), &[slot]);
                self.angles.push((forward, slot));
                slot
            }
        }
    }

    /// Lets a kept leaf become what a run makes of it: in its place, where nobody reads the leaf meanwhile, or by a copy at the end.
    fn update(&mut self, update: Update, outputs: &[SlotId]) {
        let (kept, new) = (self.value(update.kept), self.value(update.new));
        let in_place = |task: &Task, output: usize| task.kernel.in_place_of(output);
        if !outputs.contains(&new) && self.steps.update_in_place(kept, new, in_place) {
            return;
        }
        let Slot { rows, width, .. } = *self.steps.get(new);
        let to = self.steps.outside(rows, width, self.steps.get(kept).home);
        let phase = 1 + self.steps.all().iter().map(|step| step.phase).max().unwrap_or(0);
        self.steps.step(phase, Task::new(Kernel::Copy, Work::Numbers), vec![new], &[to]);
    }

    /// Where output `value` of the graph is. Outputs are read from the arena, so what came from outside is copied.
    fn output(&mut self, value: Value) -> SlotId {
        let slot = self.value(value);
        if matches!(self.steps.get(slot).home, Home::Arena(_)) {
            return slot;
        }
        let Shape { rows, width } = self.graph.shape(value);
        let copy = self.steps.inside(Count::Rows(rows), width, self.capacity.count(rows) * width);
        self.steps.step(self.steps.phase(), Task::new(Kernel::Copy, Work::Numbers), vec![slot], &[copy]);
        self.forms.insert((value, Form::Plain), copy);
        copy
    }
}

/// Whether one of the two must wait for the other.
fn collide(a: (Which, usize, Access), b: (Which, usize, Access)) -> bool {
    (a.0, a.1) == (b.0, b.1) && (a.2 == Access::Write || b.2 == Access::Write)
}
