//! Changes good files at random and opens them, for as many seconds as the first argument says (60 without one):
//!
//! ```text
//! cargo run --release -p glassformer-weights --example fuzz -- 600 [SEED]
//! ```
//!
//! A panic ends it and leaves the file that caused it behind, with its path in the last line before.
#![allow(clippy::print_stdout, reason = "it is a program")]

#[path = "../tests/common/fuzz.rs"]
mod fuzz;

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use fuzz::{SEEDS, one_round};
use glassformer_tensor::Random;

fn main() {
    let mut arguments = env::args().skip(1);
    let mut number = |default: u64| match arguments.next().map(|text| text.parse()) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            eprintln!("usage: fuzz [SECONDS [SEED]]");
            process::exit(2);
        }
    };
    let (seconds, seed) = (number(60), number(1));
    let folder = env::temp_dir().join(format!("glassformer-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder for temporary files can be made");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/weights");
    let start = Instant::now();
    let mut random = Random::new(seed);
    let mut rounds = [(0_usize, 0_usize); SEEDS.len()];
    while start.elapsed() < Duration::from_secs(seconds) {
        for (name, (rounds, opened)) in SEEDS.iter().zip(&mut rounds) {
            let good = fs::read(fixtures.join(name)).expect("it is a fixture");
            let path = folder.join(name.replace('/', "-").replace("-00001-of-00002", ""));
            for _ in 0..200 {
                let begun = Instant::now();
                *opened += usize::from(one_round(&good, &path, &mut random));
                *rounds += 1;
                assert!(
                    begun.elapsed() < Duration::from_secs(5),
                    "{} took {:?}",
                    path.display(),
                    begun.elapsed()
                );
            }
        }
    }
    for (name, (rounds, opened)) in SEEDS.iter().zip(rounds) {
        println!("{name}: {rounds} changed files, {opened} of them opened");
    }
    fs::remove_dir_all(&folder).expect("the temporary files can be removed");
}
