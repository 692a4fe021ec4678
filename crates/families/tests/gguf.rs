//! GGUF files against the reference implementation. `fixtures/gguf/make.py` made them of the checkpoints in `fixtures/hf`.

use std::path::{Path, PathBuf};

use crate::common::{difference, entries, fixtures};
use glassformer_cpu::Cpu;
use glassformer_families::open;
use glassformer_graph::{Backend, Reference};

fn files() -> Vec<PathBuf> {
    entries(&fixtures("gguf"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "gguf"))
        .collect()
}

/// The golden file of its own, or that of the checkpoint which it was made of.
fn golden(file: &Path) -> PathBuf {
    let own = file.with_extension("golden.safetensors");
    let name = file.file_stem().expect("it has a name");
    if own.exists() { own } else { fixtures("hf").join(name).join("golden.safetensors") }
}

fn all_equal(backend: &dyn Backend) {
    let files = files();
    let check = |file: &Path| {
        let checkpoint = open(file).map_err(|error| error.to_string())?;
        difference(&checkpoint, &golden(file), backend)
    };
    let failed: Vec<String> =
        files.iter().filter_map(|file| Some(format!("{}: {}", file.display(), check(file).err()?))).collect();
    assert!(failed.is_empty(), "{} of {} differ:\n{}", failed.len(), files.len(), failed.join("\n"));
    assert!(files.len() >= 12, "only {} files were found", files.len());
}

#[test]
fn every_file_equals_the_reference_implementation_on_the_reference() {
    all_equal(&Reference);
}

#[test]
fn every_file_equals_the_reference_implementation_on_the_cpu() {
    all_equal(&Cpu::default());
}

/// The file `name` of the fixtures with `from` replaced by `to`, which is as long.
fn changed(name: &str, from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(fixtures("gguf").join(name)).expect("the fixture is there");
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from.as_bytes())).collect();
    assert!(!places.is_empty(), "{from} is not in {name}");
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let path = std::env::temp_dir().join(format!("glassformer-{}-{to}.gguf", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder can be written to");
    let opened = open(&path);
    std::fs::remove_file(&path).expect("it was just written");
    opened.map(|_| ()).expect_err("it should not be understood").to_string()
}

#[test]
fn what_is_not_understood_is_refused_by_its_own_name() {
    let cases = [
        ("llama.gguf", "llama.block_count", "llama.block_cuont", "llama.block_cuont not understood"),
        ("bert.gguf", "bert.pooling_type", "bert.pooling_tipe", "bert.pooling_tipe not understood"),
        ("gpt2.gguf", "gpt2.feed_forward_length", "gpt2.rope.dimension_cou2", "gpt2.rope.dimension_cou2 not"),
        (
            "bert.gguf",
            "bert.attention.causal",
            "bert.attention.cousal",
            "bert.attention.cousal not understood",
        ),
        (
            "qwen2.gguf",
            "qwen2.feed_forward_length",
            "qwen2.expert_weights_scal",
            "qwen2.expert_weights_scal not",
        ),
        ("llama-yarn.gguf", "yarn", "yorn", "llama.rope.scaling.type is \"yorn\""),
    ];
    for (file, from, to, expected) in cases {
        let error = changed(file, from, to);
        assert!(error.contains(expected), "{file}, {to}: {error}");
    }
}

#[test]
fn an_unknown_architecture_names_the_nearest_known_one() {
    let error = changed("qwen3.gguf", "qwen3", "qwen9");
    assert!(error.contains("\"qwen9\" is not known") && error.contains("\"qwen2\""), "{error}");
}

#[test]
fn missing_and_extra_tensors_are_reported_together() {
    let error = changed("llama.gguf", "blk.1.attn_q.weight", "blk.1.attn_z.weight");
    assert!(error.contains("attn_q.weight is missing"), "{error}");
    assert!(error.contains("blk.1.attn_z.weight is used by nothing"), "{error}");
}

#[test]
fn a_folder_with_one_file_is_that_file() {
    let folder = std::env::temp_dir().join(format!("glassformer-{}-folder", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written to");
    std::fs::copy(fixtures("gguf").join("qwen2.gguf"), folder.join("any.gguf")).expect("it can be copied");
    let opened = open(&folder);
    std::fs::remove_dir_all(&folder).expect("it was just made");
    assert_eq!(opened.expect("it is a model").kind, "qwen2");
}

#[test]
fn a_file_that_says_nothing_of_its_model_is_refused_with_a_hint() {
    let error = open(fixtures("hf").join("llama/model.safetensors")).expect_err("it is no model").to_string();
    assert!(error.contains("give a folder with config.json"), "{error}");
}
