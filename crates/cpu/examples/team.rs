//! What it costs to keep a team together: `cargo run --release -p glassformer-cpu --example team`.
//!
//! Prints medians, since another program may take a core at any moment.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use glassformer_cpu::team::{Team, Worker};

const STEPS: u32 = 2_000;
const ROUNDS: usize = 25;

fn main() {
    println!("workers   barrier  32-item step  empty run  woken (busy)  woken (idle)");
    for workers in [1, 2, 5].into_iter().filter_map(NonZeroUsize::new) {
        let team = Team::new(workers);
        let barriers = |worker: &Worker<'_>| (0..STEPS).for_each(|_| worker.barrier());
        let steps = |worker: &Worker<'_>| {
            (0..STEPS).for_each(|_| {
                worker.share(32, |item| _ = black_box(item));
                worker.barrier();
            });
        };
        let empty = || team.run(&|_| ());
        let barrier = median(|| timed(|| team.run(&barriers)) / STEPS);
        let step = median(|| timed(|| team.run(&steps)) / STEPS);
        let run = median(|| timed(|| (0..STEPS).for_each(|_| empty())) / STEPS);
        // An empty run with every helper parked: the caller at work until then, or the whole machine idle.
        let busy = median(|| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_micros(400) {}
            timed(empty)
        });
        let idle = median(|| {
            thread::sleep(Duration::from_millis(2));
            timed(empty)
        });
        println!("{workers:>7} {barrier:>9.1?} {step:>13.1?} {run:>10.1?} {busy:>13.1?} {idle:>13.1?}");
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(sample: impl Fn() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| sample()).collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}
