//! Configurations changed at random, with the weights that they were made for: each is refused, or the model runs. Never a
//! panic, and never much memory.
//!
//! The same for minutes: `GLASSFORMER_FUZZ_SECONDS=300 cargo test --release -p glassformer-families --test fuzz`. A panic leaves
//! the folder that caused it behind, under the build's temporary files.

mod common;
#[path = "../../weights/tests/common/mutate.rs"]
mod mutate;
#[path = "../../weights/tests/common/watch.rs"]
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use common::entries;
use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_families::{Checkpoint, Error, generation, open, open_for_embedding};
use glassformer_model::Purpose;
use glassformer_tensor::Random;
use mutate::{mutate, mutate_json, passes};
use serde_json::Value;
use watch::{Watched, most_held};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// For each good folder; a fixed number, so that the test does the same everywhere.
const ROUNDS: usize = 20;
/// For opening; the good folders need less than one.
const MEMORY: usize = 64 << 20;
/// The files that say what a model is.
const FILES: [&str; 5] = [
    "generation_config.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
];

// One test, since the allocator watches the whole program.
#[test]
fn changed_configurations_are_refused_or_run() {
    let backend = Cpu::new(1);
    for pass in passes() {
        let (mut rounds, mut opened) = (0, 0);
        for (number, good) in entries(&common::fixtures("hf")).into_iter().enumerate() {
            let Some(folder) = copied(&good) else { continue };
            let mut random = Random::new(pass * 1000 + number as u64);
            for round in 0..ROUNDS {
                let place = format!("{}, pass {pass}, round {round}", folder.display());
                let file = changed(&good, &folder, &mut random);
                let (result, held) = most_held(|| opened_as(&folder, &mut random));
                assert!(held < MEMORY, "{place}: {held} bytes");
                match result {
                    Ok(checkpoint) => {
                        if let Err(error) = generation(&folder, &checkpoint.config) {
                            told(&error);
                        }
                        runs(&checkpoint, &backend, &place);
                        opened += 1;
                    }
                    Err(error) => told(&error),
                }
                rounds += 1;
                fs::copy(good.join(file), folder.join(file)).expect("the good file can be put back");
            }
        }
        println!("pass {pass}: {rounds} rounds, {opened} opened");
        assert!(opened > 0 && opened < rounds, "{opened} of {rounds} opened");
    }
}

/// A copy of a fixture, if it is one.
fn copied(good: &Path) -> Option<PathBuf> {
    let name = good.file_name()?.to_str()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-families").join(name);
    if !good.join("config.json").exists() {
        return None;
    }
    fs::create_dir_all(folder.join("1_Pooling")).expect("a folder can be made");
    copy_files(good, &folder);
    for inner in entries(good).into_iter().filter(|path| path.is_dir()) {
        let to = folder.join(inner.file_name()?);
        fs::create_dir_all(&to).expect("a folder can be made");
        copy_files(&inner, &to);
    }
    Some(folder)
}

fn copy_files(from: &Path, to: &Path) {
    for file in entries(from).into_iter().filter(|path| path.is_file()) {
        fs::copy(&file, to.join(file.file_name().expect("it has a name"))).expect("it can be copied");
    }
}

/// Changes one of the files that there are, and says which.
fn changed(good: &Path, folder: &Path, random: &mut Random) -> &'static str {
    let there: Vec<&'static str> = FILES.into_iter().filter(|file| good.join(file).exists()).collect();
    let file = *random.pick(&there);
    let bytes = fs::read(good.join(file)).expect("it is a fixture");
    let bytes = if random.below(8) == 0 {
        mutate(&bytes, random)
    } else {
        let value: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        mutate_json(&value, random).to_string().into_bytes()
    };
    fs::write(folder.join(file), bytes).expect("it can be written");
    file
}

fn opened_as(folder: &Path, random: &mut Random) -> Result<Checkpoint, Error> {
    let sentences = folder.join("modules.json").exists() && random.below(4) > 0;
    if sentences { open_for_embedding(folder) } else { open(folder) }
}

/// A message is short, and in one line unless it lists tensors.
fn told(error: &Error) {
    let message = error.to_string();
    let lists = matches!(error, Error::Tensors(_) | Error::Model(_));
    assert!(!message.is_empty() && message.len() < 20_000, "{message}");
    assert!(lists || !message.contains('\n'), "{message}");
}

/// What could be opened can be lowered, and run or refused with a message.
fn runs(checkpoint: &Checkpoint, backend: &Cpu, place: &str) {
    let model = &checkpoint.model;
    model.graph(Purpose::Whole).unwrap_or_else(|error| panic!("{place}: {error}"));
    let formula = model.formula();
    let ids = |side: bool| if side { vec![1, 2] } else { Vec::new() };
    let (source, target) = (ids(formula.source.is_some()), ids(formula.target.is_some()));
    let sequence = Sequence { source, target, ..Sequence::default() };
    if let Err(error) = Forward::whole(model, backend, &[sequence]) {
        assert!(!error.to_string().is_empty(), "{place}");
    }
}
