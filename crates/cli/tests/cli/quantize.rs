//! `glassformer quantize`.

use std::path::Path;

use glassformer::formula::named::{self, Size};
use glassformer::{Formula, Weights};
use serde_json::Value;

use super::{folder, run, saved};

const SIZE: Size = Size { width: 64, heads: 2, hidden: 128, layers: 2, vocabulary: 1100, length: 12 };

fn decoder() -> Formula {
    named::gpt2(SIZE)
}

/// How long the difference of two vectors is, as a share of the second.
fn share(found: &[f32], exact: &[f32]) -> f32 {
    let squares = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| x * x).sum::<f32>();
    let error = squares(&mut found.iter().zip(exact).map(|(a, b)| a - b));
    if error == 0.0 { 0.0 } else { (error / squares(&mut exact.iter().copied())).sqrt() }
}

/// Logits of a run in this precision.
#[track_caller]
fn logits(test: &str, model: &str, more: &[&str]) -> Vec<f32> {
    let out = folder(&format!("{test}_logits")).join("out.safetensors");
    let out = out.to_str().unwrap();
    let args = ["forward", "--model", model, "--ids", "5 1017 9", "--out", out];
    run(&[&args, more].concat()).ok();
    Weights::open(out).unwrap().get("0.logits").unwrap().values().into_owned()
}

#[test]
fn what_was_written_runs_with_the_bits_of_the_model_in_that_precision() {
    let formulas =
        [("decoder", decoder(), &[][..]), ("tied", named::marian(SIZE), &["--target-ids", "3 1099 7"])];
    for (dtype, (kind, formula, more)) in
        ["int8", "int4"].into_iter().flat_map(|dtype| formulas.clone().map(|formula| (dtype, formula)))
    {
        let test = format!("quantize_{kind}_{dtype}");
        let (_, model) = saved(&test, formula);
        let out = folder(&format!("{test}_small"));
        let out = out.to_str().unwrap();
        let told = run(&["quantize", &model, "--to", dtype, "--out", out, "--json"]).ok();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["schema"], 1);
        assert!(told["bytes"].as_u64() < told["bytes_in_f32"].as_u64().map(|bytes| bytes / 3), "{told}");
        let logits = |model: &str, dtype: &str| logits(&test, model, &[more, &["--dtype", dtype]].concat());
        assert_eq!(logits(out, dtype), logits(&model, dtype), "{kind} in {dtype}");
        // Widened, they are other numbers than the model's, but near.
        let (wide, exact) = (logits(out, "f32"), logits(&model, "f32"));
        assert_ne!(wide, exact);
        let (of_weights, of_logits) = if dtype == "int8" { (0.006, 0.02) } else { (0.065, 0.18) };
        assert!(share(&wide, &exact) < of_logits, "{kind} in {dtype}: {}", share(&wide, &exact));
        let [small, whole] = [out, &model].map(|folder| Weights::open(folder).unwrap());
        for name in small.names() {
            let share = share(&small.get(name).unwrap().values(), &whole.get(name).unwrap().values());
            assert!(share < of_weights, "{name} of {kind} in {dtype}: {share}");
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let (_, model) = saved("quantize_refused", decoder());
    let out = folder("quantize_refused_small");
    let out = out.to_str().unwrap();
    run(&["quantize", &model, "--out", out]).refused("--to");
    run(&["quantize", &model, "--out", out, "--to", "int2"]).refused("int2");
    run(&["quantize", &model, "--out", &model, "--to", "int8"])
        .refused_with("--out is the model", "another folder");
    run(&["quantize", out, "--out", &model, "--to", "int8"])
        .refused_with("no folder with config.json", "as it was published");
    run(&["quantize", "/nowhere", "--out", out, "--to", "int8"]).refused("there is no folder or file");
    // A model without a tokenizer, and data that is not there, are found before anything is written.
    let text = Path::new(&model).join("text.txt");
    std::fs::write(&text, "the cat\n").unwrap();
    let small = Path::new(out).join("small");
    let args = ["quantize", &model, "--to", "int8", "--out", small.to_str().unwrap()];
    for flag in ["--text", "--data"] {
        run(&[&args[..], &[flag, text.to_str().unwrap()]].concat()).refused("no tokenizer");
        assert!(!small.exists(), "{flag}");
    }
    run(&[&args[..], &["--data", "/nowhere.tsv"]].concat()).refused("/nowhere.tsv");
    assert!(!small.exists());
}

/// A `config.json` of somebody else's was written over without a word.
#[test]
fn a_folder_with_something_in_it_is_not_written_over_unasked() {
    let (_, model) = saved("quantize_full", decoder());
    let out = folder("quantize_full_small");
    let theirs = out.join("config.json");
    std::fs::write(&theirs, "theirs").unwrap();
    std::fs::write(out.join("formula.toml"), "theirs").unwrap();
    let args = ["quantize", &model, "--to", "int8", "--out", out.to_str().unwrap()];
    run(&args).refused_with("is not empty: it has config.json, formula.toml", "--force");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    run(&[&args[..], &["--force"]].concat()).ok();
    assert_eq!(
        std::fs::read_to_string(theirs).unwrap(),
        "theirs",
        "only files of the same names are replaced"
    );
    assert_ne!(std::fs::read_to_string(out.join("formula.toml")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3);
    run(&["generate", "--model", out.to_str().unwrap(), "--ids", "5", "--max-new-tokens", "2"]).ok();
}

/// Half of a folder stayed where writing failed, and the error named a temporary file, or the model that was read.
#[cfg(unix)]
#[test]
fn nothing_stays_of_what_could_not_be_written() {
    let (_, model) = saved("quantize_broken_off", decoder());
    let here = folder("quantize_broken_off_small");
    let out = here.join("deep/small");
    let args = ["quantize", &model, "--to", "int8", "--out", out.to_str().unwrap()];
    let weights = out.join("model.safetensors");
    super::with_small_files(&args).refused_with(&format!("cannot write {}", weights.display()), "ulimit -f");
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 0, "nothing stays");
    std::fs::write(here.join("file"), "").unwrap();
    let below = here.join("file/small");
    run(&[&args[..5], &[below.to_str().unwrap()]].concat())
        .refused_with(below.to_str().unwrap(), "is a file");
    let full = ["forward", "--model", &model, "--ids", "5 6", "--out", "/dev/full"];
    run(&full).refused_with("cannot write /dev/full", "the disk is full");
    let file = here.join("numbers.safetensors");
    let many = ["5"; 400].join(" ");
    let large =
        ["forward", "--model", &model, "--trace", "--ids", &many[..23], "--out", file.to_str().unwrap()];
    super::with_small_files(&large).refused_with(&format!("cannot write {}", file.display()), "ulimit -f");
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 1, "only the file of before");
}

#[test]
fn damaged_files_are_refused() {
    let (_, model) = saved("quantize_damaged", decoder());
    let out = folder("quantize_damaged_small");
    run(&["quantize", &model, "--to", "int8", "--out", out.to_str().unwrap()]).ok();
    let file = out.join("model.safetensors");
    let good = std::fs::read(&file).unwrap();
    let written = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        run(&["generate", "--model", out.to_str().unwrap(), "--ids", "5", "--dtype", "stored"])
    };
    written(&good).ok();
    written(&good[..good.len() - 1]).refused("model.safetensors");
    let replaced = |from: &str, to: &str| {
        let at = good.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&good[..at], to.as_bytes(), &good[at + from.len()..]].concat()
    };
    written(&replaced(r#"\"int8\""#, r#"\"int9\""#)).refused("unknown type");
    let length = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&good[8..length]).unwrap();
    let start = |name: &str| length + header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    let mut scales = good.clone();
    scales[start("target.embed.tokens.scale")..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    written(&scales).refused("NaN");
    // -128 is no integer of ours, but a number all the same.
    let mut integers = good.clone();
    integers[start("target.embed.tokens")] = 0x80;
    written(&integers).ok();
}

#[test]
fn what_it_is_compared_in_cannot_be_chosen() {
    let (_, model) = saved("quantize_dtype", decoder());
    let out = folder("quantize_dtype_small");
    let told = run(&["quantize", &model, "--to", "int8", "--dtype", "bf16", "--out", out.to_str().unwrap()]);
    told.refused_with("--dtype", "--to says how many bits are written");
}

/// A decoder, and an encoder-decoder, whose decoder then reads what it writes.
#[test]
fn rounded_by_texts_a_model_is_nearer_on_others() {
    let here = folder("quantize_calibrate");
    let [read, others, empty] = ["read", "others", "empty"].map(|name| here.join(format!("{name}.txt")));
    let texts = |words: &[&str]| -> String {
        let text = |(at, a): (usize, &&str)| {
            format!("{a} {}\n{} and {a}\n", words[at / 2], words[words.len() - 1 - at])
        };
        words.iter().enumerate().map(text).collect()
    };
    std::fs::write(
        &read,
        texts(&["the cat sat", "once upon a time", "a little girl", "hello", "it is late", "on the mat"]),
    )
    .unwrap();
    std::fs::write(&others, texts(&["the girl", "a cat upon the mat", "it was once", "good night"])).unwrap();
    std::fs::write(&empty, "\n\n").unwrap();
    for name in ["story", "languages"] {
        let model = format!("{}/../../fixtures/tasks/{name}", env!("CARGO_MANIFEST_DIR"));
        let args = ["quantize", &model, "--to", "int4", "--text", others.to_str().unwrap(), "--json"];
        let error = |folder: &str, more: &[&str]| {
            let out = here.join(format!("{name}_{folder}"));
            let told = run(&[&args[..], &["--out", out.to_str().unwrap()], more].concat()).ok();
            let told: Value = serde_json::from_str(&told).unwrap();
            (1.0 - told["logits"]["cosine"].as_f64().unwrap(), told["calibrated"].as_u64().unwrap())
        };
        let (plain, none) = error("plain", &[]);
        let (fitted, some) = error("fitted", &["--calibrate", read.to_str().unwrap()]);
        assert!(none == 0 && some >= 8, "{name}: {none} and {some} weights were fitted");
        assert!(fitted < 0.9 * plain, "{name}: {fitted} and {plain}");
        let out = here.join("refused");
        let refused =
            |file: &str| run(&[&args[..], &["--out", out.to_str().unwrap(), "--calibrate", file]].concat());
        refused(empty.to_str().unwrap()).refused_with("--calibrate", "a text on each line");
        refused("/nowhere.txt").refused("/nowhere.txt");
        assert!(!out.exists());
    }
}
