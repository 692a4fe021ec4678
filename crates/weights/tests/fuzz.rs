//! Files changed at random: each is refused, or can be read to its end. Never a panic, and never much memory.
//!
//! The same for minutes: `GLASSFORMER_FUZZ_SECONDS=300 cargo test --release -p glassformer-weights --test fuzz`. A panic leaves
//! the file that caused it behind, in the folder `fuzz` of the build's temporary files.

mod common;

use std::fs;

use common::fuzz::{SEEDS, one_round};
use common::mutate::passes;
use common::watch::{Watched, most_held};
use common::{fixture, folder};
use glassformer_tensor::Random;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// For each good file; a fixed number, so that the test does the same everywhere.
const ROUNDS: usize = 300;
/// None of the good files is larger than this by far.
const MEMORY: usize = 16 << 20;

// One test, since the allocator watches the whole program.
#[test]
fn changed_files_are_refused_or_read_to_their_end() {
    let folder = folder("fuzz");
    for pass in passes() {
        for (number, name) in SEEDS.iter().enumerate() {
            let good = fs::read(fixture(name)).expect("it is a fixture");
            let path = folder.join(name.replace('/', "-").replace("-00001-of-00002", ""));
            let mut random = Random::new(pass * SEEDS.len() as u64 + number as u64);
            let mut opened = 0;
            for round in 0..ROUNDS {
                let (good, held) = most_held(|| one_round(&good, &path, &mut random));
                assert!(held < MEMORY, "{name}, pass {pass}, round {round}: {held} bytes");
                opened += usize::from(good);
            }
            println!("{name}, pass {pass}: {ROUNDS} rounds, {opened} opened");
            assert!(opened > 0 && opened < ROUNDS, "{name}: {opened} of {ROUNDS} opened");
        }
    }
}
