//! Good files changed at random, and everything that can be asked of the weights in them.

use std::fs;
use std::path::{Path, PathBuf};

use glassformer_tensor::Random;
use glassformer_weights::Weights;

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

/// Numbers at which code goes wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 60,
    i64::MAX as u64,
    u64::MAX,
];

/// `good` changed in one to four places.
pub fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    // What describes lies at the front, or in zip archives at the end; the rest is only numbers.
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let near = bytes.len().min(2000);
        let at = match random.below(4) {
            0 => random.below(bytes.len()),
            1 => bytes.len() - 1 - random.below(near),
            _ => random.below(near),
        };
        match random.below(7) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = bytes[at].wrapping_add(if random.below(2) == 0 { 1 } else { 255 }),
            3 => {
                let number = random.pick(&NUMBERS).to_le_bytes();
                let width = (1 << random.below(4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = bytes.len().min(at + random.below(64));
                drop(bytes.drain(at..end));
            }
            _ => {
                let from = random.below(bytes.len());
                let part = bytes[from..bytes.len().min(from + random.below(64))].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

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
