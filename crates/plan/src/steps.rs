//! Steps in phases, and the slots that they read and write.
//!
//! A *phase* is what lies between two barriers. A step goes into the present phase unless it reads what that phase writes, so the
//! projections of q, k and v need one barrier and not three. Values live for whole phases: then no step of a phase writes where
//! another one reads, whatever their order.

use glassformer_graph::Rows;
use glassformer_graph::ops::Attend;

use crate::{Life, place};

/// The number of a slot.
pub type SlotId = usize;

/// Something in memory that steps read or write.
#[derive(Clone, Debug)]
pub struct Slot {
    /// How many rows it has in a run.
    pub rows: Count,
    /// Floats per row.
    pub width: usize,
    /// Where it is.
    pub home: Home,
}

/// How rows are counted when a batch is bound.
#[derive(Clone, Copy, Debug)]
pub enum Count {
    /// By the batch.
    Rows(Rows),
    /// One for each query and key of this attention.
    Pairs(Attend),
}

impl Count {
    /// Whether it counts these rows.
    pub fn are(self, others: Rows) -> bool {
        matches!(self, Self::Rows(rows) if rows == others)
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the memory of a run that all workers share, at this float.
    Arena(usize),
    /// In memory that each worker has for itself, at this float.
    Worker(usize),
    /// Among the plan's constants.
    Constant(usize),
    /// Among the batch's inputs.
    Input(usize),
    /// Among what the state keeps from run to run.
    Kept(usize),
}

/// Something to be done, as the backend says it: a `task`.
#[derive(Clone, Debug)]
pub struct Step<T> {
    /// What is done.
    pub task: T,
    /// What it reads, then what it writes.
    pub operands: Vec<SlotId>,
    /// How many of them it reads.
    pub inputs: usize,
    /// Steps of one phase follow each other without a barrier.
    pub phase: usize,
}

impl<T> Step<T> {
    /// What it writes.
    pub fn outputs(&self) -> &[SlotId] {
        &self.operands[self.inputs..]
    }
}

/// Steps and slots while a plan grows. `T` is what a backend has done in a step, and `C` what it notes of a slot's contents.
#[derive(Debug)]
pub struct Steps<T, C> {
    slots: Vec<Planned<C>>,
    done: Vec<Step<T>>,
    phase: usize,
}

/// A slot that has no place yet.
#[derive(Debug)]
struct Planned<C> {
    slot: Slot,
    /// The first phase that can read it.
    ready: usize,
    life: Life,
    contents: C,
}

impl<T, C> Default for Steps<T, C> {
    fn default() -> Self {
        Self { slots: Vec::new(), done: Vec::new(), phase: 0 }
    }
}

impl<T, C: Copy + Default> Steps<T, C> {
    /// A slot that is there before the run.
    pub fn outside(&mut self, rows: Count, width: usize, home: Home) -> SlotId {
        self.slot(Slot { rows, width, home }, 0)
    }

    /// A slot of `floats` in the arena, which the next step writes.
    pub fn inside(&mut self, rows: Count, width: usize, floats: usize) -> SlotId {
        self.slot(Slot { rows, width, home: Home::Arena(0) }, floats)
    }

    /// A slot of `floats` whose rows are not counted.
    pub fn block(&mut self, floats: usize) -> SlotId {
        self.inside(Count::Rows(Rows::Fixed(1)), floats, floats)
    }

    fn slot(&mut self, slot: Slot, floats: usize) -> SlotId {
        let life = Life { floats, ..Life::default() };
        self.slots.push(Planned { slot, ready: 0, life, contents: C::default() });
        self.slots.len() - 1
    }

    /// A slot.
    pub fn get(&self, slot: SlotId) -> &Slot {
        &self.slots[slot].slot
    }

    /// How many slots there are.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// The steps so far.
    pub fn all(&self) -> &[Step<T>] {
        &self.done
    }

    /// The present phase.
    pub fn phase(&self) -> usize {
        self.phase
    }

    /// Lets `phase` be the present one.
    pub fn go_to(&mut self, phase: usize) {
        self.phase = phase;
    }

    /// What a slot holds.
    pub fn contents(&self, slot: SlotId) -> C {
        self.slots[slot].contents
    }

    /// Says what a slot holds.
    pub fn set_contents(&mut self, slot: SlotId, contents: C) {
        self.slots[slot].contents = contents;
    }

    /// How many floats a slot takes.
    pub fn floats(&self, slot: SlotId) -> usize {
        self.slots[slot].life.floats
    }

    /// Lets a slot take so many.
    pub fn set_floats(&mut self, slot: SlotId, floats: usize) {
        self.slots[slot].life.floats = floats;
    }

    /// The first phase that can read `slot`.
    pub fn ready(&self, slot: SlotId) -> usize {
        self.slots[slot].ready
    }

    /// The first phase that can read all of `slots`, not before the present one.
    pub fn ready_for(&self, slots: &[SlotId]) -> usize {
        slots.iter().map(|&slot| self.slots[slot].ready).fold(self.phase, usize::max)
    }

    /// The phase for what makes a value ready that stands in `from`, for a step that will run in phase `natural` if it need not wait
    /// for this: one phase earlier, beside what that step waits for anyway. Then it costs no barrier.
    pub fn beside(&self, from: SlotId, natural: usize) -> usize {
        self.slots[from].ready.max(natural.saturating_sub(1))
    }

    /// Appends a step in `phase`, reading `inputs` and writing `outputs`.
    pub fn step(&mut self, phase: usize, task: T, inputs: Vec<SlotId>, outputs: &[SlotId]) {
        for &slot in &inputs {
            let last = &mut self.slots[slot].life.last;
            *last = phase.max(*last);
        }
        let count = inputs.len();
        for &slot in outputs {
            self.writes(slot, phase);
        }
        let operands = inputs.into_iter().chain(outputs.iter().copied()).collect();
        self.done.push(Step { task, operands, inputs: count, phase });
    }

    fn writes(&mut self, slot: SlotId, phase: usize) {
        let slot = &mut self.slots[slot];
        slot.ready = phase + 1;
        slot.life = Life { first: phase, last: phase, ..slot.life };
    }

    /// Lets the step that alone writes `from` write `to` as well, if `change` can make its task one that does.
    pub fn write_too(&mut self, from: SlotId, to: SlotId, change: impl FnOnce(&mut T) -> bool) -> bool {
        let Some(at) = self.done.iter().position(|step| step.outputs() == [from]) else { return false };
        if !change(&mut self.done[at].task) {
            return false;
        }
        self.done[at].operands.push(to);
        self.writes(to, self.done[at].phase);
        true
    }

    /// Lets the kept leaf in `kept` become `new` in its place, where the step that makes `new` can overwrite it (`in_place` tells which input
    /// an output of a task may overwrite) and nobody reads the leaf from then on.
    pub fn update_in_place(
        &mut self,
        kept: SlotId,
        new: SlotId,
        in_place: impl Fn(&T, usize) -> Option<usize>,
    ) -> bool {
        let Some(maker) = self.done.iter().position(|step| step.outputs().contains(&new)) else {
            return false;
        };
        let step = &self.done[maker];
        let output = step.outputs().iter().position(|&slot| slot == new);
        let from = output.and_then(|output| in_place(&step.task, output));
        let others = self.done.iter().enumerate().filter(|&(index, _)| index != maker);
        let mut readers = others.filter(|(_, step)| step.operands.contains(&kept));
        let fits = from.is_some_and(|input| step.operands[input] == kept)
            && readers.all(|(_, other)| other.phase < step.phase);
        if fits {
            self.slots[new].slot.home = self.slots[kept].slot.home;
        }
        fits
    }

    /// Lets a slot live from the first of these phases to the last, at least.
    pub fn live(&mut self, slot: SlotId, first: usize, last: usize) {
        let life = &mut self.slots[slot].life;
        *life = Life { first: first.min(life.first), last: last.max(life.last), ..*life };
    }

    /// Lets a slot live to the end.
    pub fn live_on(&mut self, slot: SlotId) {
        self.slots[slot].life.last = usize::MAX;
    }

    /// Puts the steps into the order in which they run.
    pub fn sort(&mut self) {
        self.done.sort_by_key(|step| step.phase);
    }

    /// Gives the slots of the arena that are `among` these a home, on lines of so many floats, and says how much room they take together.
    pub fn lay_out(
        &mut self,
        line: usize,
        among: impl Fn(SlotId) -> bool,
        home: impl Fn(usize) -> Home,
    ) -> usize {
        let of_arena = |&slot: &SlotId| matches!(self.slots[slot].slot.home, Home::Arena(_)) && among(slot);
        let slots: Vec<SlotId> = (0..self.slots.len()).filter(of_arena).collect();
        let lives: Vec<Life> = slots.iter().map(|&slot| self.slots[slot].life).collect();
        let (offsets, floats) = place(&lives, line);
        for (&slot, offset) in slots.iter().zip(offsets) {
            self.slots[slot].slot.home = home(offset);
        }
        floats
    }

    /// The slots and the steps.
    pub fn finish(self) -> (Vec<Slot>, Vec<Step<T>>) {
        (self.slots.into_iter().map(|planned| planned.slot).collect(), self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of three steps: what the first writes is dead when the third writes, and may lie there.
    #[test]
    fn a_slot_takes_the_place_of_one_that_nobody_reads_any_more() {
        let mut steps: Steps<&str, ()> = Steps::default();
        let [a, b, c] = [0; 3].map(|_| steps.block(32));
        steps.step(0, "a", Vec::new(), &[a]);
        steps.step(steps.ready(a), "b", vec![a], &[b]);
        steps.step(steps.ready(b), "c", vec![b], &[c]);
        steps.live_on(c);
        assert_eq!(steps.lay_out(16, |_| true, Home::Arena), 64);
        let (slots, steps) = steps.finish();
        assert_eq!(slots[a].home, slots[c].home);
        assert_ne!(slots[a].home, slots[b].home);
        assert_eq!(steps.iter().map(|step| step.phase).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_kept_is_updated_in_place_only_where_nobody_reads_it_later() {
        for late in [false, true] {
            let mut steps: Steps<&str, ()> = Steps::default();
            let kept = steps.outside(Count::Rows(Rows::Fixed(1)), 8, Home::Kept(0));
            let [new, other] = [0; 2].map(|_| steps.block(8));
            steps.step(usize::from(late), "reads", vec![kept], &[other]);
            steps.step(1, "updates", vec![kept], &[new]);
            let in_place = |kernel: &&str, _: usize| (*kernel == "updates").then_some(0);
            assert_eq!(steps.update_in_place(kept, new, in_place), !late);
        }
    }

    #[test]
    fn a_step_that_can_writes_another_form_too() {
        let mut steps: Steps<&str, ()> = Steps::default();
        let [x, quantized] = [0; 2].map(|_| steps.block(8));
        steps.step(0, "norm", Vec::new(), &[x]);
        assert!(!steps.write_too(x, quantized, |_| false));
        assert!(steps.write_too(x, quantized, |kernel| {
            *kernel = "norm and quantize";
            true
        }));
        assert_eq!((steps.all()[0].outputs(), steps.ready(quantized)), (&[x, quantized][..], 1));
    }
}
