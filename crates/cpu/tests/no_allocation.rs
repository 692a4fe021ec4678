//! Once a state has run a plan, running it again allocates nothing: not for encoding, decoding or training, not on the
//! caller's thread and not on a helper's.

#[path = "common/layers.rs"]
mod layers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use glassformer_cpu::Cpu;
use glassformer_graph::Precision;
use glassformer_graph::{Backend, Batch, Capacity, Leaf, Pages, Rows, Side, Span, State};
use layers::{Purpose, Stack, parameters};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it counts, and leaves everything to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn batch(lengths: &[usize], past: usize) -> Batch<'static> {
    let mut batch = Batch::default();
    for (table, &len) in lengths.iter().enumerate() {
        let tokens: Vec<u32> = (0..len as u32).collect();
        batch.target.push(&tokens, Span { past, table, ..Span::default() });
    }
    batch.target.pick_all();
    batch.target.labels = vec![1; batch.count(Rows::Picked(Side::Target))];
    batch.target.weights = vec![0.5; batch.target.labels.len()];
    batch
}

/// How often `run` allocates.
fn count<E: std::fmt::Debug>(mut run: impl FnMut() -> Result<(), E>) -> usize {
    let before = ALLOCATIONS.load(Relaxed);
    let ran = run();
    let after = ALLOCATIONS.load(Relaxed);
    ran.expect("it runs again");
    after - before
}

// One test: another one in the same process would be counted too.
#[test]
fn later_runs_allocate_nothing() {
    let precisions = [Precision::F32, Precision::Bf16, Precision::Int8, Precision::Int4];
    for (threads, precision) in [1, 2].into_iter().flat_map(|n| precisions.map(|precision| (n, precision))) {
        let cpu = Cpu::new(threads).with_precision(precision).sharing_everything().taking_rows(4);
        let cpu = if threads == 2 { cpu.going_by_layers() } else { cpu };
        for purpose in [Purpose::Encode, Purpose::Decode, Purpose::Train] {
            let stack =
                Stack { layers: 2, width: 32, heads: 4, hidden: 48, vocabulary: 50, longest: 40, purpose };
            let graph = Arc::new(stack.graph().expect("it fits"));
            let (weights, given) = (parameters(&graph, Leaf::Weight), parameters(&graph, Leaf::Input));
            // Large first, then small and large again, further along in the pages.
            let mut batches = [batch(&[7, 20, 3], 0), batch(&[1, 1], 20), batch(&[5, 17, 9], 21)];
            for batch in &mut batches {
                batch.inputs = graph.leaves(Leaf::Input).map(|(_, info)| given[&info.name].data()).collect();
            }
            let mut capacity = Capacity::of(&batches[2]);
            capacity.target.keys = 40;
            let runner = cpu.prepare(&graph, &weights, &capacity).expect("it prepares");

            let mut pages = Pages::new(stack.pages(), 12);
            for _ in 0..3 {
                let table = pages.open();
                pages.reserve(table, 40).expect("there is room");
            }
            let mut state = State::new(pages, Pages::default());
            runner.run(&mut state, &batches[0]).expect("it runs");
            // The harness's own thread may allocate while these run, so the least of several attempts counts.
            let least =
                (0..4).map(|_| count(|| batches.iter().try_for_each(|batch| runner.run(&mut state, batch))));
            assert_eq!(least.min(), Some(0), "{purpose:?} in {precision:?} on {threads} threads");
            assert!(runner.output(&state, 1).expect("it ran").iter().all(|x| x.is_finite()));
        }
    }
}
