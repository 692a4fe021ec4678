//! Real checkpoints: every number of each, compared with the reference package's by digest.
//!
//! They are too large to keep here. `cargo test -p glassformer-weights --test assets -- --ignored` looks for them in
//! `$GLASSFORMER_ASSETS` and passes over those that are not there; `fixtures/weights/make.py --assets` wrote the digests.

mod common;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::fixture;
use glassformer_weights::{Rules, Weights};
use serde::Deserialize;

#[derive(Deserialize, Debug, PartialEq)]
struct Digest {
    tensors: usize,
    digest: String,
}

/// The CRC-32 of zip and zlib, going on from `crc`.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    !bytes.iter().fold(!crc, |crc, &byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

/// As in `make.py`: the CRC of a line for each tensor, with its name, its shape and the CRC of its `f32`.
fn digest(weights: &Weights) -> Digest {
    let mut value = 0;
    for name in weights.names() {
        let tensor = weights.require(name).expect("it is its own name");
        let crc = tensor.values().chunks(1 << 16).fold(0, |crc, values| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            crc32(crc, &bytes)
        });
        let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
        let mut line = String::new();
        writeln!(line, "{name} [{}] {crc:08x}", shape.join(",")).expect("a string takes it");
        value = crc32(value, line.as_bytes());
    }
    Digest { tensors: weights.len(), digest: format!("{value:08x}") }
}

fn assets() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/glassformer-assets");
    env::var_os("GLASSFORMER_ASSETS").map_or_else(home, PathBuf::from)
}

#[test]
#[ignore = "needs the real checkpoints"]
fn real_checkpoints_have_the_references_numbers() {
    let text = fs::read_to_string(fixture("assets.json")).expect("it is a fixture");
    let expected: BTreeMap<String, Digest> = serde_json::from_str(&text).expect("it is JSON");
    for (name, expected) in expected {
        let path = assets().join(&name);
        if path.exists() {
            let weights = Weights::open(&path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(digest(&weights), expected, "{name}");
            println!("{name}: {weights:?}");
        }
    }
}

/// From CTranslate2's names to those of its conversion to Hugging Face's layout.
fn rules() -> Rules {
    let layer = |rest: &str| format!("model.*.layers.*.{rest}.*");
    let across = |rest: &str| format!("model.decoder.layers.*.encoder_attn{rest}.*");
    let [q, k, v] = ["q", "k", "v"].map(|part| layer(&format!("self_attn.{part}_proj")));
    let [memory_k, memory_v] = ["k", "v"].map(|part| across(&format!(".{part}_proj")));
    Rules::new()
        .drop("**_scale")
        .rename("**/layer_norm/gamma", "**/layer_norm/weight")
        .rename("**/layer_norm/beta", "**/layer_norm/bias")
        .split("*/layer_*/self_attention/linear_0/*", [&q, &k, &v])
        .rename("*/layer_*/self_attention/linear_1/*", &layer("self_attn.out_proj"))
        .rename("*/layer_*/self_attention/layer_norm/*", &layer("self_attn_layer_norm"))
        .rename("decoder/layer_*/attention/linear_0/*", &across(".q_proj"))
        .split("decoder/layer_*/attention/linear_1/*", [&memory_k, &memory_v])
        .rename("decoder/layer_*/attention/linear_2/*", &across(".out_proj"))
        .rename("decoder/layer_*/attention/layer_norm/*", &across("_layer_norm"))
        .rename("*/layer_*/ffn/linear_0/*", &layer("fc1"))
        .rename("*/layer_*/ffn/linear_1/*", &layer("fc2"))
        .rename("*/layer_*/ffn/layer_norm/*", &layer("final_layer_norm"))
        .rename("decoder/embeddings/weight", "model.shared.weight")
        .rename("decoder/projection/bias", "final_logits_bias")
}

#[test]
#[ignore = "needs the real checkpoints"]
fn a_ctranslate2_model_becomes_its_conversion_by_rules() {
    let folder = assets().join("opus-zh-en");
    if !folder.exists() {
        return;
    }
    let open = |path: &Path| Weights::open(path).unwrap_or_else(|error| panic!("{error}"));
    let (original, theirs) = (open(&folder.join("ctranslate2")), open(&folder));
    let model = original.ctranslate2().expect("it is CTranslate2");
    assert_eq!(
        model.vocabulary("shared_vocabulary").expect("it can be read").map(|tokens| tokens.len()),
        Some(65000)
    );
    let remapped = original.remap(&rules()).expect("it can be done");
    assert!(remapped.left.iter().all(|name| !name.contains("layer_")), "{:?}", remapped.left);
    assert_eq!(remapped.weights.len(), theirs.len());
    for name in theirs.names() {
        let [ours, theirs] =
            [&remapped.weights, &theirs].map(|weights| weights.require(name).expect("both have it").values());
        // The conversion adds the token that decoding starts from.
        assert!(ours.len() == theirs.len() || theirs.len() == ours.len() / 65000 * 65001, "{name}");
        assert!(ours[..] == theirs[..ours.len()], "{name}");
    }
}
