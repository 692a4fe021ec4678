//! A small training that several tests use: to write words backwards.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use glassformer_cpu::Cpu;
use glassformer_tensor::Random;
use glassformer_train::{Changes, Config, Ended, Entry, Event, Log, Run};

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("glassformer-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub const FORMULA: &str = r#"
    [source.input.tokens]
    vocabulary = 1
    scale = "root_width"
    [source.stack]
    width = 32
    depth.layers = 1
    position.sinusoidal = { layout = "halves" }
    [[source.stack.block]]
    mix.attend = { reach = "both", heads = { query = 2, key = 2 }, bias = { query = true, key = true, value = true, output = true } }
    norm.output.layer = { epsilon = 1e-5, bias = true }
    [[source.stack.block]]
    mix.feed.plain = { hidden = 64, act = "relu", bias = true }
    norm.output.layer = { epsilon = 1e-5, bias = true }
    [target.input.tokens]
    vocabulary = 1
    table = "source"
    scale = "root_width"
    [target.stack]
    width = 32
    depth.layers = 1
    position.sinusoidal = { layout = "halves" }
    [[target.stack.block]]
    mix.attend = { reach = "past", heads = { query = 2, key = 2 }, bias = { query = true, key = true, value = true, output = true } }
    norm.output.layer = { epsilon = 1e-5, bias = true }
    [[target.stack.block]]
    mix.attend = { source = "memory", reach = "both", heads = { query = 2, key = 2 }, bias = { query = true, key = true, value = true, output = true } }
    norm.output.layer = { epsilon = 1e-5, bias = true }
    [[target.stack.block]]
    mix.feed.plain = { hidden = 64, act = "relu", bias = true }
    norm.output.layer = { epsilon = 1e-5, bias = true }
    [head.words]
    tied = true
    bias = true
"#;

/// Writes the data, the formula and a configuration of `steps` steps; gives its path.
pub fn backwards(folder: &Path, out: &str, steps: usize, more: &str) -> PathBuf {
    let mut random = Random::new(3);
    let mut data = String::new();
    for _ in 0..400 {
        let word: String = (0..=random.below(6)).map(|_| char::from(b'a' + random.below(6) as u8)).collect();
        let turned: String = word.chars().rev().collect();
        let _ = writeln!(data, "{word}\tx{turned}");
    }
    std::fs::write(folder.join("data.tsv"), data).expect("the data");
    std::fs::write(folder.join("formula.toml"), FORMULA).expect("the formula");
    let config = format!(
        r#"
        out = "{out}"
        objective = "translate"
        seed = 5
        model.formula = "formula.toml"
        tokenizer = {{ kind = "characters" }}
        data = {{ train = [{{ path = "data.tsv", weight = 1.5 }}], held_out = 0.1, length = 16 }}
        batch = {{ tokens = 256, accumulate = 2, pool = 4 }}
        schedule = {{ steps = {steps}, rate = 5e-3, warmup = 10, decay = "linear" }}
        regularise = {{ dropout = 0.1, smoothing = 0.1, average = 0.9 }}
        checkpoint = {{ every = 3, check = 7, keep = 2 }}
        {more}
        "#
    );
    let path = folder.join(format!("{out}.toml"));
    std::fs::write(&path, config).expect("the configuration");
    path
}

/// Trains to the end, or until `stop`.
pub fn train(config: &Path, stop: impl Fn(usize) -> bool) -> (Ended, Vec<Event>) {
    let config = Config::open(config).expect("the configuration is right");
    let backend = Cpu::new(1);
    let mut events = Vec::new();
    let mut run =
        Run::open(config, &backend, Changes::Refuse, &mut |event| events.push(event)).expect("it can begin");
    let step = std::cell::Cell::new(run.steps().0);
    let ended = run.go(&|| stop(step.get()), &mut |event| {
        if let Event::Step { step: made, .. } = event {
            step.set(made);
        }
        events.push(event);
    });
    (ended.expect("it trains"), events)
}

/// The losses of a log, with all their bits, and those on other data.
pub fn losses(out: &Path) -> Vec<(usize, u64)> {
    let bits = |entry: Entry| match entry {
        Entry::Step { step, loss, .. } => (step, u64::from(loss.map_or(0, f32::to_bits))),
        Entry::Check { step, valid, .. } => (step, valid.map_or(0, f64::to_bits)),
    };
    Log::read(out.join("log.jsonl")).into_iter().map(bits).collect()
}
