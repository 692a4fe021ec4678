//! Where the fixtures are, and what is in them.
#![allow(dead_code)] // each test file uses its part

use std::fs;
use std::path::{Path, PathBuf};

use glassformer_tokens::Tokenizer;
use serde::Deserialize;

/// A folder of `fixtures/tokens`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tokens").join(name)
}

/// The tokenizer of a fixture.
pub fn opened(name: &str) -> Tokenizer {
    Tokenizer::open(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The texts that the references were asked about, and those that the tokenizers were trained on.
#[derive(Deserialize)]
pub struct Corpus {
    pub texts: Vec<String>,
    pub pairs: Vec<[String; 2]>,
    pub bytes: Vec<String>,
    pub training: Vec<String>,
}

pub fn corpus() -> Corpus {
    serde_json::from_slice(&fs::read(fixture("corpus.json")).unwrap()).unwrap()
}

/// FNV-1a over the ids as little-endian bytes, as `make.py` computes it.
pub fn fnv(ids: &[u32]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in ids.iter().flat_map(|id| id.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// An empty folder for a test, which its name keeps apart from others.
pub fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("glassformer-tokens-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The folder of a real model, where `get-assets` has put it.
pub fn asset(name: &str) -> PathBuf {
    let given = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from);
    let usual = || Some(std::env::home_dir()?.join(".cache/glassformer-assets"));
    let folder = given.or_else(usual).unwrap().join(name);
    assert!(folder.is_dir(), "{} is not there", folder.display());
    folder
}
