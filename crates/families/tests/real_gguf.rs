//! Real files against the reference implementation. `cargo test -- --include-ignored` wants them in `$GLASSFORMER_ASSETS`
//! (or `~/.cache/glassformer-assets`).

use std::path::PathBuf;

use crate::common::fixtures;
use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_families::open;
use glassformer_tensor::{Tolerance, compare};
use serde_json::Value;

fn asset(place: &str) -> PathBuf {
    let home = || std::env::home_dir().map(|home| home.join(".cache/glassformer-assets"));
    std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from).or_else(home).expect("a home").join(place)
}

fn numbers<T>(entry: &Value, key: &str, number: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let list = entry[key].as_array().expect("a list");
    list.iter().map(|value| number(value).expect("a number")).collect()
}

#[test]
#[ignore = "needs downloaded models"]
fn real_gguf_files_give_the_reference_implementations_logits() {
    let text = std::fs::read_to_string(fixtures("gguf").join("assets.json")).expect("the fixtures are here");
    let all: Value = serde_json::from_str(&text).expect("it is JSON");
    for (place, entry) in all.as_object().expect("places") {
        let path = asset(place);
        let target = numbers(entry, "ids", |id| Some(id.as_u64()? as u32));
        let model = open(&path).unwrap_or_else(|error| panic!("{place}: {error}")).model;
        let sequence = Sequence { target, ..Sequence::default() };
        let run = Forward::whole(&model, &Cpu::default(), &[sequence]).expect("it runs");
        let logits = run.output("logits").unwrap().expect("it has a head").numbers;
        let best = numbers(entry, "best", |id| Some(id.as_u64()? as usize));
        let rows: Vec<&[f32]> = logits.chunks_exact(logits.len() / best.len()).collect();
        let found: Vec<usize> = rows.iter().map(|row| largest(row)).collect();
        assert_eq!(found, best, "{place}");
        let kept = numbers(entry, "tokens", |id| Some(id.as_u64()? as usize));
        let expected = numbers(entry, "last", |x| Some(x.as_f64()? as f32));
        let last: Vec<f32> = kept.iter().map(|&token| rows[rows.len() - 1][token]).collect();
        compare(&last, &expected, Tolerance { absolute: 1e-3, relative: 1e-4 })
            .unwrap_or_else(|difference| panic!("{place}: {difference}"));
    }
}

fn largest(row: &[f32]) -> usize {
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(at, _)| at)
}
