//! Good files changed at random, and everything that can be asked of the weights in them.

use std::fs;
use std::path::{Path, PathBuf};

use glassformer_tensor::Random;
use glassformer_weights::Weights;

use super::mutate::mutate;

/// Good files: each format, in each way it is written.
pub const SEEDS: [&str; 9] = [
    "torch/zip.pt",
    "torch/old.pt",
    "torch/protocol4.pt",
    "torch/nested.pt",
    "gguf/all.gguf",
    "gguf/split-00001-of-00002.gguf",
    "ctranslate2/int8/model.bin",
    "ctranslate2/bfloat16/model.bin",
    "gguf/split.expected.safetensors",
];

/// Opens the file and asks for everything; says whether it could be opened. Must not panic.
pub fn exercise(path: &Path) -> bool {
    let weights = match Weights::open(path) {
        Ok(weights) => weights,
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty() && message.len() < 2000 && !message.contains('\n'), "{message}");
            return false;
        }
    };
    for name in weights.names() {
        let view = weights.require(name).expect("a name is the name of a tensor");
        let tensor = view.to_f32();
        assert_eq!(tensor.shape(), view.shape());
        assert!(view.integers().is_none_or(|numbers| numbers.len() == tensor.data().len()));
        let blocks = view.bytes().map(|bytes| bytes.len() / view.dtype().bytes() * view.dtype().numbers());
        assert!(blocks.is_none_or(|count| count == tensor.data().len()));
        let _ = (view.blocks(), view.row_scales());
        let count = view.shape().first().copied().unwrap_or(0);
        for rows in [0..count / 2, count / 2..count, 1..usize::MAX] {
            let width = tensor.data().len() / count.max(1);
            let part = tensor.data().get(rows.start * width..rows.end.saturating_mul(width));
            if let (Some(part), Some(found)) = (part, view.rows(rows)) {
                assert!(part.iter().zip(&*found).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
    if let Some(gguf) = weights.gguf() {
        for key in gguf.keys() {
            let _ = (
                gguf.u32(key),
                gguf.u64(key),
                gguf.i64(key),
                gguf.f32(key),
                gguf.bool(key),
                gguf.string(key),
            );
            let _ =
                (gguf.strings(key), gguf.byte_strings(key), gguf.f32s(key), gguf.i32s(key), gguf.bools(key));
        }
    }
    true
}

/// Writes a changed file where it can be opened, and opens it.
pub fn one_round(good: &[u8], path: &PathBuf, random: &mut Random) -> bool {
    fs::write(path, mutate(good, random)).expect("it can be written");
    exercise(path)
}
