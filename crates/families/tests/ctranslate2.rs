//! CTranslate2 folders against the implementations that made them. `fixtures/ctranslate2/make.py` made them: some of the
//! checkpoints in `fixtures/hf`, whose goldens hold, and some with scores by CTranslate2's own engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{BOUND, difference, entries, fixtures, sequences};
use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Sequence};
use glassformer_families::{Checkpoint, open};
use glassformer_graph::{Backend, Reference};
use glassformer_tensor::{Tolerance, compare};
use glassformer_weights::Weights;

/// The logarithm of the probability of each word of `next`.
fn scores(checkpoint: &Checkpoint, backend: &dyn Backend, sequence: Sequence, next: &[i64]) -> Vec<f32> {
    let run = Forward::whole(&checkpoint.model, backend, &[sequence]).expect("it runs");
    let logits = run.output("logits").unwrap().expect("it has a head");
    let score = |(row, &word): (&[f32], &i64)| {
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&x| f64::from(x - top).exp()).sum();
        (f64::from(row[word as usize] - top) - sum.ln()) as f32
    };
    logits.numbers.chunks_exact(logits.shape.width).zip(next).map(score).collect()
}

/// What differs first from the scores of CTranslate2's engine.
fn scored(checkpoint: &Checkpoint, golden: &Path, backend: &dyn Backend) -> Result<(), String> {
    let golden = Weights::open(golden).map_err(|error| error.to_string())?;
    let sequences = sequences(&golden, checkpoint.model.formula(), &[], 0);
    assert!(sequences.len() > 3, "only {} sequences", sequences.len());
    for (i, sequence) in sequences.into_iter().enumerate() {
        let next = golden.integers(&format!("{i}.next")).ok_or("no words")?;
        let expected = golden.get(&format!("{i}.scores")).ok_or("no scores")?.values();
        let found = scores(checkpoint, backend, sequence, &next);
        compare(&found, &expected, BOUND).map_err(|difference| format!("{i}: {difference}"))?;
    }
    Ok(())
}

fn all_equal(backend: &dyn Backend) {
    let folders: Vec<_> =
        entries(&fixtures("ctranslate2")).into_iter().filter(|path| path.is_dir()).collect();
    let check = |folder: &Path| {
        let checkpoint = open(folder).map_err(|error| error.to_string())?;
        let own = folder.join("golden.safetensors");
        if own.exists() {
            return scored(&checkpoint, &own, backend);
        }
        let theirs = fixtures("hf").join(folder.file_name().expect("it has a name"));
        difference(&checkpoint, &theirs.join("golden.safetensors"), backend)
    };
    let failed: Vec<String> = folders
        .iter()
        .filter_map(|folder| Some(format!("{}: {}", folder.display(), check(folder).err()?)))
        .collect();
    assert!(failed.is_empty(), "{} of {} differ:\n{}", failed.len(), folders.len(), failed.join("\n"));
    assert!(folders.len() >= 10, "only {} folders were found", folders.len());
}

#[test]
fn every_folder_equals_its_reference_on_the_reference() {
    all_equal(&Reference);
}

#[test]
fn every_folder_equals_its_reference_on_the_cpu() {
    all_equal(&Cpu::default());
}

/// The error of the folder `name` with `from` in its `model.bin` replaced by `to`, which is as long.
fn changed(name: &str, from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let folder =
        std::env::temp_dir().join(format!("glassformer-{}-{}", std::process::id(), to.replace('/', "-")));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written to");
    let mut bytes = std::fs::read(fixtures("ctranslate2").join(name).join("model.bin")).expect("it is there");
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from} is not in {name}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    std::fs::write(folder.join("model.bin"), bytes).expect("it can be written");
    let opened = open(&folder);
    std::fs::remove_dir_all(&folder).expect("it was just made");
    opened.map(|_| ()).expect_err("it should not be understood").to_string()
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let cases = [
        ("opennmt-int8", "decoder/scale_alibi", "decoder/scale_alibx", "decoder/scale_alibx not understood"),
        ("opennmt-int8", "TransformerSpec", "TransfarmerSpec", "nearest known one is \"TransformerSpec\""),
        (
            "opennmt-int8",
            "projection/weight_scale",
            "projection/weight_scole",
            "projection/weight holds integers",
        ),
        (
            "opennmt-float32",
            "layer_1/ffn/linear_0/bias",
            "layer_1/ffn/linear_0/bios",
            "linear_0/bias is missing",
        ),
        (
            "gpt-neox",
            "layer_0/self_attention/rotary_dim",
            "layer_1/self_attention/rotary_dim",
            "appears twice",
        ),
        ("llama-grouped", "rotary_interleave", "rotary_interleafs", "rotary_interleafs not understood"),
    ];
    for (folder, from, to, expected) in cases {
        let error = changed(folder, from, to);
        assert!(error.contains(expected), "{folder}, {to}: {error}");
    }
}

#[test]
fn a_configuration_names_the_tokens_by_their_ids() {
    let id = |folder: &str, key: &str| {
        open(fixtures("ctranslate2").join(folder)).expect("it opens").config[key].as_u64().expect("an id")
    };
    assert_eq!(id("opennmt-int8", "decoder_start_token_id"), 1);
    assert_eq!(id("opennmt-int8", "eos_token_id"), 2);
    // Beyond the vocabulary of 66: the row of noughts.
    assert_eq!(id("marian-int8", "decoder_start_token_id"), 66);
}

#[test]
#[ignore = "needs downloaded models"]
fn a_real_translator_scores_as_its_own_engine_and_equals_its_twin() {
    let home = || std::env::home_dir().map(|home| home.join(".cache/glassformer-assets"));
    let assets = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from).or_else(home).expect("a home");
    let twin = assets.join("opus-zh-en");
    let (ours, theirs) = (open(twin.join("ctranslate2")).expect("it opens"), open(&twin).expect("it opens"));
    let text = std::fs::read_to_string(fixtures("ctranslate2").join("assets.json")).expect("it is there");
    let all: Vec<BTreeMap<String, Vec<f64>>> = serde_json::from_str(&text).expect("lists of numbers");
    for entry in all {
        let ids = |key: &str| entry[key].iter().map(|&id| id as u32).collect::<Vec<u32>>();
        let sequence = Sequence { source: ids("ids"), target: ids("target_ids"), ..Sequence::default() };
        let next: Vec<i64> = entry["next"].iter().map(|&id| id as i64).collect();
        let expected: Vec<f32> = entry["scores"].iter().map(|&score| score as f32).collect();
        let found = scores(&ours, &Cpu::default(), sequence.clone(), &next);
        compare(&found, &expected, Tolerance { absolute: 1e-3, relative: 1e-4 })
            .expect("the engine's scores");
        let run = |checkpoint: &Checkpoint| {
            let run = Forward::whole(&checkpoint.model, &Cpu::default(), std::slice::from_ref(&sequence))
                .expect("it runs");
            run.output("hidden").unwrap().expect("it has rows").numbers.into_owned()
        };
        compare(&run(&ours), &run(&theirs), BOUND).expect("the twin's rows");
    }
}
