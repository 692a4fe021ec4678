//! From a graph to steps: which kernel runs on which values, in which phase.
//!
//! A *phase* is what lies between two barriers. A step goes into the present phase unless it reads what that phase
//! writes, so the projections of q, k and v need one barrier and not three. Values live for whole phases: then no step
//! of a phase writes where another one reads, whatever their order. Products that are not done in `f32` are in `draft/narrow.rs`.

use std::collections::{HashMap, HashSet};

use glassformer_graph::ops::{Counting, Direction, Pairing, Rotate, Sinusoid, Turns, Which};
use glassformer_graph::{Capacity, Graph, Leaf, Node, Op, Origin, Rows, Shape, Side, Update, Value};

use super::band::{self, Seen, Stretch};
use super::constants::Wanted;
use super::deal::Deal;
use super::fuse::{Fused, Fusions};
use super::layout::{Life, lines, place};
use super::precision::Choice;
use super::step::{Count, Home, Slot, SlotId, Step};
use crate::gemm::Packed;
use crate::kernels::{Access, EpilogueKind, Kernel, OutputFormat, Packs, Reads, Work, needs};
use crate::lowp::{Format, Operand, RowFormat};

mod lowp;

/// Positions that there are tables for, at most. Whoever stands behind them has its sines computed, so that room for a text of
/// millions of tokens costs nothing before there is one.
const TABLED: usize = 1 << 13;
/// What the rows of products in `bf16` are quantized to.
const HALVES: RowFormat = RowFormat::Lowp(Format::Bf16);

/// The finished draft.
pub(super) struct Drafted {
    pub slots: Vec<Slot>,
    pub steps: Vec<Step>,
    /// What the steps are cut into, in order.
    pub stretches: Vec<Stretch>,
    /// Where each output of the graph is.
    pub outputs: Vec<SlotId>,
    pub wanted: Vec<Wanted>,
    /// Floats of the arena that slots need.
    pub floats: usize,
    /// Floats that a worker needs for what is inside bands.
    pub band: usize,
    /// Floats that one worker's scratch needs.
    pub scratch: usize,
}

impl Drafted {
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

/// A slot while the draft grows.
struct Grown {
    slot: Slot,
    /// The first phase that can read it.
    ready: usize,
    life: Life,
    contents: Contents,
}

/// What a slot holds.
#[derive(Clone, Copy)]
enum Contents {
    /// Rows, one after the other.
    Rows,
    /// Rows of so many numbers, quantized.
    Quantized(RowFormat, usize),
}

pub(super) struct Draft<'a> {
    graph: &'a Graph,
    capacity: &'a Capacity,
    choice: &'a Choice<'a>,
    deal: Deal,
    slots: Vec<Grown>,
    steps: Vec<Step>,
    of_value: HashMap<Value, SlotId>,
    packed: HashMap<(Value, Packs), SlotId>,
    narrowed: HashMap<(Value, RowFormat), SlotId>,
    operands: HashMap<(Value, Operand), SlotId>,
    /// Values that are there quantized alone.
    only_narrowed: HashSet<Value>,
    /// Values that an activation is applied to, and that are kept quantized for the way back.
    kept: HashSet<Value>,
    /// Values that are `bf16`, and what they are multiplied by.
    halves: HashMap<Value, f32>,
    /// Angles that each run computes.
    turns: Vec<(Rotate, SlotId)>,
    wanted: Vec<(Wanted, SlotId)>,
    phase: usize,
    /// The pages that the present phase uses.
    pages: Vec<(Which, usize, Access)>,
    scratch: usize,
}

impl<'a> Draft<'a> {
    /// The steps of `graph`, with a place for every value.
    pub fn of(graph: &'a Graph, capacity: &'a Capacity, choice: &'a Choice<'a>, deal: Deal) -> Drafted {
        let mut draft = Self {
            graph,
            capacity,
            choice,
            deal,
            slots: Vec::new(),
            steps: Vec::new(),
            of_value: HashMap::new(),
            packed: HashMap::new(),
            narrowed: HashMap::new(),
            operands: HashMap::new(),
            only_narrowed: HashSet::new(),
            kept: HashSet::new(),
            halves: HashMap::new(),
            turns: Vec::new(),
            wanted: Vec::new(),
            phase: 0,
            pages: Vec::new(),
            scratch: 0,
        };
        for (index, (value, info)) in graph.leaves(Leaf::Input).enumerate() {
            let slot = draft.outside(Count::Rows(info.shape.rows), info.shape.width, Home::Input(index));
            draft.of_value.insert(value, slot);
        }
        for (index, (value, info)) in graph.leaves(Leaf::Kept).enumerate() {
            let slot = draft.outside(Count::Rows(info.shape.rows), info.shape.width, Home::Kept(index));
            draft.of_value.insert(value, slot);
        }
        let mut fusions = Fusions::of(graph);
        draft.halves = draft.find_halves(&fusions);
        draft.find_kept(&mut fusions);
        let nodes = graph.nodes();
        let one = |&(gate, product): &(usize, usize)| draft.are_one(&nodes[gate], &nodes[product]);
        let pairs: Vec<(usize, usize)> = fusions.gates().filter(one).collect();
        for (index, node) in nodes.iter().enumerate() {
            if fusions.done.contains(&index) || pairs.iter().any(|&(gate, _)| gate == index) {
                continue;
            }
            let gate = pairs.iter().find(|&&(_, product)| product == index).map(|&(gate, _)| &nodes[gate]);
            draft.node(node, (fusions.products.get(&index), gate), &fusions);
        }
        let outputs: Vec<SlotId> = graph.outputs().iter().map(|&(_, value)| draft.output(value)).collect();
        for update in graph.updates() {
            draft.update(*update, &outputs);
        }
        draft.finish(outputs)
    }

    fn finish(mut self, outputs: Vec<SlotId>) -> Drafted {
        for &output in &outputs {
            self.slots[output].life.last = usize::MAX;
        }
        self.steps.sort_by_key(|step| step.phase);
        let (stretches, inside) = self.stretches(&outputs);
        let band = self.lay_out(|slot| inside[slot], Home::Band);
        self.stretch_lives(&stretches);
        let floats = self.lay_out(|slot| !inside[slot], Home::Arena);
        Drafted {
            slots: self.slots.into_iter().map(|grown| grown.slot).collect(),
            steps: self.steps,
            stretches,
            outputs,
            wanted: self.wanted.into_iter().map(|(wanted, _)| wanted).collect(),
            floats,
            band,
            scratch: lines(self.scratch),
        }
    }

    /// Finds the bands. What is inside one needs no more room than the rows of one worker.
    fn stretches(&mut self, outputs: &[SlotId]) -> (Vec<Stretch>, Vec<bool>) {
        let seen = |(slot, grown): (SlotId, &Grown)| Seen {
            rows: grown.slot.rows,
            plain: match grown.contents {
                Contents::Rows => true,
                Contents::Quantized(kind, _) => self.deal.by_tiles && kind == HALVES,
            },
            hidden: matches!(grown.slot.home, Home::Arena(_)) && !outputs.contains(&slot),
        };
        let seen: Vec<Seen> = self.slots.iter().enumerate().map(seen).collect();
        let many = |rows: Rows| self.deal.bands(self.capacity.count(rows));
        let short = |side: Side| self.deal.takes_wholes(self.capacity, side);
        let (stretches, inside) = band::stretches(&self.steps, &seen, self.deal.by_layers, short, many);
        for (grown, _) in self.slots.iter_mut().zip(&inside).filter(|(_, inside)| **inside) {
            grown.life.floats = match grown.contents {
                Contents::Rows => self.deal.rows * grown.slot.width,
                Contents::Quantized(kind, k) => kind.floats(self.deal.rows, k),
            };
        }
        (stretches, inside)
    }

    /// What a part of a band touches lives as long as the part and the next one: one worker may be at the end of that while another
    /// one begins with this.
    fn stretch_lives(&mut self, stretches: &[Stretch]) {
        let bands = stretches.iter().filter(|stretch| stretch.rows.is_some());
        for (parts, at) in bands.flat_map(|band| (0..band.parts.len()).map(|at| (&band.parts, at))) {
            let next = parts.get(at + 1).unwrap_or(&parts[at]);
            let steps = &self.steps[parts[at].clone()];
            let (first, last) = (steps[0].phase, self.steps[next.end - 1].phase);
            for &slot in steps.iter().flat_map(|step| &step.operands) {
                let life = &mut self.slots[slot].life;
                *life = Life { first: first.min(life.first), last: last.max(life.last), ..*life };
            }
        }
    }

    /// Gives the slots of the arena that are `among` these a home, and says how much room they take together.
    fn lay_out(&mut self, among: impl Fn(SlotId) -> bool, home: impl Fn(usize) -> Home) -> usize {
        let of_arena = |&slot: &SlotId| matches!(self.slots[slot].slot.home, Home::Arena(_)) && among(slot);
        let slots: Vec<SlotId> = (0..self.slots.len()).filter(of_arena).collect();
        let lives: Vec<Life> = slots.iter().map(|&slot| self.slots[slot].life).collect();
        let (offsets, floats) = place(&lives);
        for (&slot, offset) in slots.iter().zip(offsets) {
            self.slots[slot].slot.home = home(offset);
        }
        floats
    }

    /// A slot that is there before the run.
    fn outside(&mut self, rows: Count, width: usize, home: Home) -> SlotId {
        let life = Life { floats: 0, first: 0, last: 0 };
        let slot = Slot { rows, width, home };
        self.slots.push(Grown { slot, ready: 0, life, contents: Contents::Rows });
        self.slots.len() - 1
    }

    /// A slot of `floats` in the arena, which the next step writes.
    fn inside(&mut self, rows: Count, width: usize, floats: usize) -> SlotId {
        let life = Life { floats, first: 0, last: 0 };
        let slot = Slot { rows, width, home: Home::Arena(0) };
        self.slots.push(Grown { slot, ready: 0, life, contents: Contents::Rows });
        self.slots.len() - 1
    }

    /// A slot of `floats` whose rows are not counted.
    fn block(&mut self, floats: usize) -> SlotId {
        self.inside(Count::Rows(Rows::Fixed(1)), floats, floats)
    }

    /// A constant, one for all who want the same.
    fn constant(&mut self, wanted: Wanted, shape: Shape) -> SlotId {
        if let Some((_, slot)) = self.wanted.iter().find(|(known, _)| *known == wanted) {
            return *slot;
        }
        let slot = self.outside(Count::Rows(shape.rows), shape.width, Home::Constant(self.wanted.len()));
        self.wanted.push((wanted, slot));
        slot
    }

    fn value(&mut self, value: Value) -> SlotId {
        match self.of_value.get(&value) {
            Some(&slot) => slot,
            // All others were made by nodes, or given: see `of`.
            None => self.constant(Wanted::Plain(value), self.graph.shape(value)),
        }
    }

    /// The first phase that can read all of `slots`, not before the present one.
    fn ready(&self, slots: &[SlotId]) -> usize {
        slots.iter().map(|&slot| self.slots[slot].ready).fold(self.phase, usize::max)
    }

    /// Appends `step` in `phase`, reading `inputs` and writing `outputs`.
    fn step(&mut self, phase: usize, step: Step, inputs: Vec<SlotId>, outputs: &[SlotId]) {
        for &slot in &inputs {
            let last = &mut self.slots[slot].life.last;
            *last = phase.max(*last);
        }
        for &slot in outputs {
            let grown = &mut self.slots[slot];
            grown.ready = phase + 1;
            grown.life = Life { first: phase, last: phase, ..grown.life };
        }
        let count = inputs.len();
        let operands = inputs.into_iter().chain(outputs.iter().copied()).collect();
        self.steps.push(Step { operands, inputs: count, phase, ..step });
    }

    /// Appends `node`, with what follows it, and its gate.
    fn node(&mut self, node: &Node, (fused, gate): (Option<&Fused>, Option<&Node>), fusions: &Fusions) {
        let shapes: Vec<Shape> = node.inputs.iter().map(|&input| self.graph.shape(input)).collect();
        let needs = needs(&node.op, &shapes, self.capacity);
        self.scratch = self.scratch.max(needs.scratch);
        let bent = fused.and_then(|fused| fused.other).filter(|other| self.kept.contains(other));
        let epilogue = match fused.map_or(EpilogueKind::Nothing, |fused| fused.epilogue) {
            EpilogueKind::Derivative(act) if bent.is_some() => EpilogueKind::DerivativeBf16(act),
            epilogue => epilogue,
        };
        let (mut step, mut inputs) = if let (Some(gate), EpilogueKind::Gate(act)) = (gate, epilogue) {
            self.gated(gate, node, act)
        } else if let Some(narrow) = self.narrow(node, epilogue) {
            narrow
        } else if fused.is_some() {
            (Step::new(Kernel::Product(epilogue), needs.work), self.inputs(node, &needs.reads))
        } else {
            let kernel = match &node.op {
                Op::Attend(op) if self.halves.contains_key(&node.inputs[0]) => Kernel::Bf16Attend(*op),
                op => Kernel::Op(op.clone()),
            };
            (Step::new(kernel, needs.work), self.inputs(node, &needs.reads))
        };

        if gate.is_none() {
            inputs.extend(fused.and_then(|fused| fused.other).map(|other| match bent {
                Some(bent) => self.narrowed(bent, HALVES),
                None => self.value(other),
            }));
        }

        let mut outputs = Vec::new();
        for &value in fused.map_or(&node.outputs[..], |fused| std::slice::from_ref(&fused.output)) {
            let Shape { rows, width } = self.graph.shape(value);
            let width = if self.halves.contains_key(&value) { width / 2 } else { width };
            let slot = self.inside(self.count(node, rows), width, self.capacity.count(rows) * width);
            self.of_value.insert(value, slot);
            outputs.push(slot);
        }
        if needs.workspace > 0 {
            outputs.push(self.block(needs.workspace));
        }
        if gate.is_some() {
            let Slot { rows, width, .. } = self.slots[outputs[0]].slot;
            outputs.push(self.inside(rows, width, self.slots[outputs[0]].life.floats));
        }
        if let Kernel::LowpProduct { output, .. } | Kernel::LowpGated { output, .. } = &mut step.kernel {
            let value = fused.map_or(node.outputs[0], |fused| fused.output);
            let format = self.format_of(value, fusions);
            *output = match (self.halves.get(&value), format) {
                (Some(&scale), _) => OutputFormat::ScaledBf16(scale),
                (None, Some(format)) => OutputFormat::Quantized(format),
                (None, None) => OutputFormat::F32,
            };
            if let Some(format) = format {
                outputs.push(self.narrowed_slot(value, RowFormat::Lowp(format)));
                self.only_narrowed.insert(value);
            }
            if self.kept.contains(&node.outputs[0]) {
                outputs.push(self.narrowed_slot(node.outputs[0], HALVES));
            }
        }

        let mut phase = self.ready(&inputs);
        let waits = needs.pages.is_some_and(|used| self.pages.iter().any(|&other| collide(used, other)));
        if phase == self.phase && waits {
            phase += 1;
        }
        if phase > self.phase {
            self.phase = phase;
            self.pages.clear();
        }
        self.pages.extend(needs.pages);
        self.step(phase, step, inputs, &outputs);
    }

    /// The rows of an output of `node`. An operation on what was shown of an attention keeps its rows.
    fn count(&self, node: &Node, rows: Rows) -> Count {
        if let Op::AttendShow(show) = &node.op {
            return Count::Pairs(show.attend);
        }
        if let Rows::Pairs(_) = rows {
            let slots = node.inputs.iter().filter_map(|input| self.of_value.get(input));
            let mut counts = slots.map(|&slot| self.slots[slot].slot.rows);
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
        let natural = self.ready(&slots);
        let packed = self.packed(node.inputs[b], packs, natural);
        slots.insert(b, packed);
        slots
    }

    /// `value` packed for a step that will run in phase `natural` if it need not wait for this.
    fn packed(&mut self, value: Value, packs: Packs, natural: usize) -> SlotId {
        if let Some(&slot) = self.packed.get(&(value, packs)) {
            return slot;
        }
        let Shape { rows, width } = self.graph.shape(value);
        let (k, columns) = packs.sizes(self.capacity.count(rows), width);
        let floats = Packed::len(k, columns);
        let slot = if self.graph.info(value).origin == Origin::Leaf(Leaf::Weight) {
            self.constant(Wanted::Packed(value, packs), Shape::fixed(1, floats))
        } else {
            let from = self.value(value);
            let to = self.block(floats);
            // One phase earlier, beside what the product waits for anyway: then packing costs no barrier.
            let phase = self.slots[from].ready.max(natural.saturating_sub(1));
            self.step(phase, Step::new(Kernel::Pack(packs), Work::Numbers), vec![from], &[to]);
            to
        };
        self.packed.insert((value, packs), slot);
        slot
    }

    /// The angles that `op` turns by.
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
                let table = Wanted::Turns(Rotate { side: Side::Source, ..forward }, keys);
                self.constant(table, Shape::fixed(keys, op.turning))
            }
            Turns::Dynamic { .. } | Turns::Long { .. } => {
                if let Some((_, slot)) = self.turns.iter().find(|(known, _)| *known == forward) {
                    return *slot;
                }
                let rows = Rows::Tokens(op.side);
                let floats = self.capacity.count(rows) * op.turning;
                let slot = self.inside(Count::Rows(rows), op.turning, floats);
                let turns = Step::new(Kernel::Angles(forward.clone()), Work::Numbers);
                self.step(self.phase.saturating_sub(1), turns, Vec::new(), &[slot]);
                self.turns.push((forward, slot));
                slot
            }
        }
    }

    /// Lets a kept leaf become what a run makes of it: in its place, where nobody reads the leaf meanwhile, or by a copy at the end.
    fn update(&mut self, update: Update, outputs: &[SlotId]) {
        let (kept, new) = (self.value(update.kept), self.value(update.new));
        let home = self.slots[kept].slot.home;
        let maker = self.steps.iter().position(|step| step.operands[step.inputs..].contains(&new));
        let in_place = maker.filter(|&maker| {
            let step = &self.steps[maker];
            let output = step.operands[step.inputs..].iter().position(|&slot| slot == new);
            let from = output.and_then(|output| step.kernel.in_place_of(output));
            let others = self.steps.iter().enumerate().filter(|&(index, _)| index != maker);
            let mut readers = others.filter(|(_, step)| step.operands.contains(&kept));
            from.is_some_and(|input| step.operands[input] == kept)
                && readers.all(|(_, other)| other.phase < step.phase)
                && !outputs.contains(&new)
        });
        if in_place.is_some() {
            self.slots[new].slot.home = home;
            return;
        }
        let Slot { rows, width, .. } = self.slots[new].slot;
        let to = self.outside(rows, width, home);
        let phase = 1 + self.steps.iter().map(|step| step.phase).max().unwrap_or(0);
        self.step(phase, Step::new(Kernel::Copy, Work::Numbers), vec![new], &[to]);
    }

    /// Where output `value` of the graph is. Outputs are read from the arena, so what came from outside is copied.
    fn output(&mut self, value: Value) -> SlotId {
        let slot = self.value(value);
        if matches!(self.slots[slot].slot.home, Home::Arena(_)) {
            return slot;
        }
        let Shape { rows, width } = self.graph.shape(value);
        let copy = self.inside(Count::Rows(rows), width, self.capacity.count(rows) * width);
        self.step(self.phase, Step::new(Kernel::Copy, Work::Numbers), vec![slot], &[copy]);
        self.of_value.insert(value, copy);
        copy
    }
}

/// Whether one of the two must wait for the other.
fn collide(a: (Which, usize, Access), b: (Which, usize, Access)) -> bool {
    (a.0, a.1) == (b.0, b.1) && (a.2 == Access::Write || b.2 == Access::Write)
}
