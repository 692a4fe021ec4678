//! Weights that several plans use are prepared once, as long as one of the plans is there.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glassformer_cpu::Cpu;
use glassformer_graph::ops::Linear;
use glassformer_graph::{
    Backend, Batch, Builder, Capacity, Constants, Graph, Rows, Shape, Side, Span, State,
};

/// Weights that count how often they are read.
struct Counted {
    identity: Option<u64>,
    number: f32,
    reads: AtomicUsize,
}

impl Constants for Counted {
    fn get(&self, _: &str) -> Option<Cow<'_, [f32]>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Some(Cow::Owned(vec![self.number; 6]))
    }

    fn identity(&self) -> Option<u64> {
        self.identity
    }
}

fn counted(identity: Option<u64>, number: f32) -> Counted {
    Counted { identity, number, reads: AtomicUsize::new(0) }
}

/// x · Wᵀ with W of 3 × 2.
fn product() -> Arc<Graph> {
    let mut build = Builder::new();
    let rows = Shape { rows: Rows::Tokens(Side::Source), width: 2 };
    let x = build.input("x", rows).unwrap();
    let w = build.weight("w", Shape::fixed(3, 2)).unwrap();
    let y = build.add("y", Linear, &[x, w]).unwrap();
    build.output("y", y);
    Arc::new(build.finish())
}

/// Prepares, runs once on the row (1, 2), and gives the first number and the plan.
fn first(cpu: &Cpu, weights: &Counted) -> (f32, Box<dyn glassformer_graph::Runner>) {
    let row = [1.0, 2.0];
    let mut batch = Batch { inputs: vec![&row], ..Batch::default() };
    batch.source.push_rows(1, Span::default());
    let runner = cpu.prepare(&product(), weights, &Capacity::of(&batch)).unwrap();
    let mut state = State::default();
    runner.run(&mut state, &batch).unwrap();
    (runner.output(&state, 0).unwrap()[0], runner)
}

#[test]
fn the_same_weights_are_prepared_once_while_a_plan_holds_them() {
    let cpu = Cpu::new(1);
    let (known, other) = (counted(Some(7), 1.0), counted(Some(8), 2.0));
    let (one, plan) = first(&cpu, &known);
    let (again, second) = first(&cpu, &known);
    assert_eq!((one, again, known.reads.load(Ordering::Relaxed)), (3.0, 3.0, 1));
    assert_eq!(first(&cpu, &other).0, 6.0, "other weights are other weights");
    drop((plan, second));
    let (_, _third) = first(&cpu, &known);
    assert_eq!(known.reads.load(Ordering::Relaxed), 2, "what nobody holds is gone");
}

#[test]
fn weights_that_may_change_are_read_each_time() {
    let cpu = Cpu::new(1);
    let changing = counted(None, 1.0);
    let _plans = [first(&cpu, &changing), first(&cpu, &changing)];
    assert_eq!(changing.reads.load(Ordering::Relaxed), 2);
}
