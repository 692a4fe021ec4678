//! Transformer-XL trains on segments: what a batch leaves is remembered at the next.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::common::{Folder, losses, train};
use glassformer_cpu::Cpu;
use glassformer_formula::Formula;
use glassformer_graph::{Batch, Capacity, SideCapacity, Span};
use glassformer_model::{Model, parameters};
use glassformer_tensor::Random;
use glassformer_train::{Checked, Checker, Ended, Texts};

const FORMULA: &str = r#"
    [target.input.tokens]
    vocabulary = 12
    [target.stack]
    width = 16
    depth.layers = 2
    position.transformer_xl = { memory = 24 }
    final_norm.layer = { epsilon = 1e-5 }
    [[target.stack.block]]
    mix.attend = { reach = "past", heads = { query = 2, key = 2 } }
    norm.input.layer = { epsilon = 1e-5 }
    [[target.stack.block]]
    mix.feed.plain = { hidden = 32, act = "relu" }
    norm.input.layer = { epsilon = 1e-5 }
    [head.words]
    tied = true
"#;

/// A batch of two texts, from `first` on, `len` tokens of each.
fn piece(texts: [&[u32]; 2], first: usize, len: usize) -> Batch<'static> {
    let mut batch = Batch::default();
    for text in texts {
        batch.target.push(&text[first..first + len], Span::default());
        batch.target.labels.extend(&text[first + 1..=first + len]);
    }
    batch.target.pick_all();
    batch.target.weights = vec![1.0; 2 * len];
    batch
}

fn loss(texts: [&[u32]; 2], segments: &[usize], how: Texts) -> f64 {
    let formula = Formula::from_toml(FORMULA).expect("it is right");
    let model = Model::random(formula.clone(), 3).expect("it works");
    let tensors: Vec<_> = parameters(&formula)
        .expect("it works")
        .iter()
        .map(|parameter| model.tensor(&parameter.name).expect("it has it"))
        .collect();
    let weights: Vec<Cow<'_, [f32]>> = tensors.iter().map(|tensor| Cow::Borrowed(tensor.data())).collect();
    let target = SideCapacity { rows: 48, sequences: 2, picked: 48, memory: 48, keys: 48 };
    let capacity = Capacity { target, ..Capacity::default() };
    let mut checker = Checker::new(&formula, &Cpu::new(1), &capacity, None, how).expect("it prepares");
    checker.load(&weights).expect("they fit");
    let mut found = Checked::default();
    let mut first = 0;
    for &len in segments {
        checker.add(piece(texts, first, len), &mut found).expect("it runs");
        first += len;
    }
    found.mean()
}

#[test]
fn segments_with_memory_are_the_whole_text() {
    let mut random = Random::new(1);
    let mut text = || -> Vec<u32> { (0..25).map(|_| random.below(12) as u32).collect() };
    let (one, two) = (text(), text());
    let whole = loss([&one, &two], &[24], Texts::GoOn);
    let pieces = loss([&one, &two], &[8, 8, 8], Texts::GoOn);
    assert!((whole - pieces).abs() < 1e-6, "{whole} as a whole, {pieces} in segments");
    let apart = loss([&one, &two], &[8, 8, 8], Texts::Apart);
    assert!((whole - apart).abs() > 1e-4, "the memory changes nothing: {whole}, {apart}");
}

/// A text in which every eighth letter is the one that came twelve letters before it, which is beyond a segment of eight.
fn remembering(folder: &Path, out: &str) -> PathBuf {
    let mut random = Random::new(3);
    let mut letters: Vec<char> = Vec::new();
    for at in 0..4000 {
        let drawn = char::from(b'a' + random.below(6) as u8);
        letters.push(if at % 8 == 0 && at > 12 { letters[at - 12] } else { drawn });
    }
    let mut text = String::new();
    for line in letters.chunks(100) {
        let _ = writeln!(text, "{}", line.iter().collect::<String>());
    }
    std::fs::write(folder.join("data.txt"), text).expect("the data");
    std::fs::write(folder.join("formula.toml"), FORMULA).expect("the formula");
    let config = format!(
        r#"
        out = "{out}"
        objective = "generate"
        seed = 5
        model.formula = "formula.toml"
        tokenizer = {{ kind = "characters" }}
        data = {{ train = [{{ path = "data.txt" }}], valid = [{{ path = "data.txt" }}], length = 8 }}
        batch = {{ tokens = 64, accumulate = 2 }}
        schedule = {{ steps = 70, rate = 5e-3, warmup = 10 }}
        checkpoint = {{ every = 7, check = 35, keep = 1, batches = 4 }}
        "#
    );
    let path = folder.join(format!("{out}.toml"));
    std::fs::write(&path, config).expect("the configuration");
    path
}

#[test]
fn what_is_remembered_is_part_of_a_checkpoint() {
    let folder = Folder::new("remembering");
    let whole = remembering(&folder.0, "whole");
    train(&whole, |_| false);
    let expected = losses(&folder.0.join("whole"));
    let broken = remembering(&folder.0, "broken");
    // In the middle of an epoch, after its first step and after its last.
    for stop in [5, 32, 33] {
        let (ended, _) = train(&broken, |step| step == stop);
        assert_eq!(ended, Ended::Stopped);
    }
    train(&broken, |_| false);
    assert_eq!(losses(&folder.0.join("broken")), expected);
}
