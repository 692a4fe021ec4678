//! Real checkpoints: every number of each, compared with the reference package's by digest.
//!
//! They are too large to keep here. The test looks for them in
//! `$GLASSFORMER_ASSETS` and passes over those that are not there; `fixtures/weights/make.py --assets` wrote the digests.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::common::fixture;
use glassformer_weights::Weights;
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
#[ignore = "needs downloaded models"]
fn real_checkpoints_have_the_references_numbers() {
    let text = fs::read_to_string(fixture("assets.json")).expect("it is a fixture");
    let expected: BTreeMap<String, Digest> = serde_json::from_str(&text).expect("it is JSON");
    for (name, expected) in expected {
        let path = assets().join(&name);
        let weights = Weights::open(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(digest(&weights), expected, "{name}");
    }
}
