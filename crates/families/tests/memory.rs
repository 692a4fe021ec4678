//! Preparing a model holds its weights once, but for the one that is being read. Alone in its file: memory is the
//! process's.
#![cfg(target_os = "linux")]

use std::fs;

use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_formula::Formula;
use glassformer_model::{Model, parameters};

/// A line of `/proc/self/status`, in bytes.
fn status(key: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("it is there");
    let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    1024 * number.parse::<usize>().expect("a number")
}

#[test]
fn preparing_takes_a_tenth_more_than_the_prepared_weights() {
    let folder = std::env::temp_dir().join(format!("glassformer-memory-{}", std::process::id()));
    Model::random(Formula::original_base(), 1)
        .and_then(|model| model.save(&folder))
        .expect("it can be saved");
    // From here on the peak counts anew.
    if fs::write("/proc/self/clear_refs", "5").is_err() {
        println!("skipped: the peak cannot be reset here");
        return;
    }
    let before = status("VmRSS");
    let model = Model::open_formula(&folder).expect("it opens");
    let all = parameters(model.formula()).expect("the formula works");
    let numbers: usize = all.iter().map(|parameter| parameter.shape.iter().product::<usize>()).sum();
    let sequence = Sequence { source: vec![5, 6], target: vec![1, 2], ..Sequence::default() };
    let run = Forward::whole(&model, &Cpu::new(1), &[sequence]).expect("it runs");
    assert!(run.output("logits").unwrap().is_some());
    let peak = status("VmHWM") - before;
    fs::remove_dir_all(&folder).expect("it was just made");
    println!("{} MB of weights, {} MB at most", (numbers * 4) >> 20, peak >> 20);
    assert!(peak < 4 * numbers * 11 / 10, "{peak} bytes for {numbers} numbers");
}
