//! What a plan costs beside its arithmetic: `cargo run --release -p glassformer-cpu --example overhead [width [threads…]]`.
//!
//! A stack of twelve layers that is so narrow, for one row, that hardly anything is left to compute. Prints the median and
//! the tenth part of the runs that was fastest, since another program may take a core at any moment; on several threads as
//! plans do by themselves, and with everything shared out.

#[path = "../tests/common/layers.rs"]
mod layers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassformer_cpu::Cpu;
use glassformer_graph::{Backend, Batch, Capacity, Error, Leaf, Pages, Runner, Span, State};
use layers::{Purpose, Stack, parameters};

const RUNS: usize = 20_000;
const PATIENCE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Error> {
    let mut given = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let width = given.next().unwrap_or(16).next_multiple_of(16);
    let threads: Vec<usize> = given.collect();
    let threads = if threads.is_empty() { vec![1, 2] } else { threads };
    println!("twelve layers of width {width}");
    println!("purpose  threads  shares  rows  nodes  median µs  fast µs  median ns per node");
    for purpose in [Purpose::Encode, Purpose::Decode] {
        let stack =
            Stack { layers: 12, width, heads: 2, hidden: 2 * width, vocabulary: 32, longest: 64, purpose };
        for &threads in &threads {
            report(&stack, &Cpu::new(threads), "some", threads)?;
            if threads > 1 {
                report(&stack, &Cpu::new(threads).sharing_everything(), "all", threads)?;
            }
        }
    }
    Ok(())
}

fn report(stack: &Stack, cpu: &Cpu, shares: &str, threads: usize) -> Result<(), Error> {
    let graph = Arc::new(stack.graph()?);
    let weights = parameters(&graph, Leaf::Weight);
    for rows in [1, 16] {
        let mut batch = Batch::default();
        batch.target.push(&vec![1; rows], Span { past: 16, ..Span::default() });
        batch.target.pick_last();
        let runner = cpu.prepare(&graph, &weights, &Capacity::of(&batch))?;
        let mut pages = Pages::new(stack.pages(), 4);
        let table = pages.open();
        pages.reserve(table, 64)?;
        let mut state = State::new(pages, Pages::default());
        let times = times(&*runner, &mut state, &batch)?;
        let micros = |part: usize| times[times.len() / part].as_secs_f64() * 1e6;
        let (name, nodes) = (format!("{:?}", stack.purpose), graph.nodes().len());
        let (median, fast) = (micros(2), micros(10));
        let each = median * 1e3 / nodes as f64;
        print!("{name:7}  {threads:7}  {shares:6}  {rows:4}  {nodes:5}");
        println!("  {median:9.1}  {fast:7.1}  {each:18.0}");
    }
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
