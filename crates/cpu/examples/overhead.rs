//! What a plan costs beside its arithmetic: `cargo run --release -p glassformer-cpu --example overhead`.
//!
//! A stack of twelve layers that is so narrow, for one row, that hardly anything is left to compute. Prints the median and
//! the tenth part of the runs that was fastest, since another program may take a core at any moment.

#[path = "../tests/common/layers.rs"]
mod layers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassformer_cpu::Cpu;
use glassformer_graph::{Backend, Batch, Capacity, Error, Leaf, Pages, Runner, Span, State};
use layers::{Purpose, Stack, parameters};

const RUNS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Error> {
    println!("purpose  threads  rows  nodes  median µs  fast µs  median ns per node");
    for purpose in [Purpose::Encode, Purpose::Decode] {
        for threads in [1, 2] {
            for rows in [1, 16] {
                report(purpose, threads, rows)?;
            }
        }
    }
    Ok(())
}

fn report(purpose: Purpose, threads: usize, rows: usize) -> Result<(), Error> {
    let stack = Stack { layers: 12, width: 16, heads: 2, hidden: 32, vocabulary: 32, longest: 64, purpose };
    let graph = Arc::new(stack.graph()?);
    let mut batch = Batch::default();
    batch.target.push(&vec![1; rows], Span { past: 16, ..Span::default() });
    batch.target.pick_last();
    let weights = parameters(&graph, Leaf::Weight);
    let runner = Cpu::new(threads).prepare(&graph, &weights, &Capacity::of(&batch))?;
    let mut pages = Pages::new(stack.pages(), 4);
    let table = pages.open();
    pages.reserve(table, 64)?;
    let mut state = State::new(pages, Pages::default());
    let times = times(&*runner, &mut state, &batch)?;
    let micros = |part: usize| times[times.len() / part].as_secs_f64() * 1e6;
    let (name, nodes, median, fast) = (format!("{purpose:?}"), graph.nodes().len(), micros(2), micros(10));
    let each = median * 1e3 / nodes as f64;
    println!("{name:7}  {threads:7}  {rows:4}  {nodes:5}  {median:9.1}  {fast:7.1}  {each:18.0}");
    Ok(())
}

/// The time of each run, the shortest first.
fn times(runner: &dyn Runner, state: &mut State, batch: &Batch<'_>) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < RUNS && start.elapsed() < PATIENCE {
        let began = Instant::now();
        runner.run(state, batch)?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}
