//! How far real models in low precision are from themselves in `f32`. `cargo test -- --include-ignored --nocapture` prints
//! the table, and wants the models in `$GLASSFORMER_ASSETS` (or `~/.cache/glassformer-assets`).

use std::path::PathBuf;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_graph::Precision;
use glassformer_tasks::{Comparison, TextEncoder, TextGenerator};

const ENGLISH: [&str; 3] = [
    "Once upon a time, there was a little girl named Lily who loved to play outside in the sunshine.",
    "The capital of France is Paris, and the river that flows through it is called the Seine.",
    "A Transformer reads all words of a sentence at once, and lets each of them look at all others.",
];
const CHINESE: [&str; 10] = [
    "今天天气很好，我们去公园散步吧。",
    "请问火车站怎么走？",
    "他每天早上六点起床，然后去河边跑步。",
    "这本书讲的是一个小女孩和她的猫的故事。",
    "昨天晚上下了一场大雨，街道上到处都是水。",
    "我想学习如何用电脑翻译不同的语言。",
    "北京是中国的首都，有很多古老的建筑。",
    "如果你有时间，周末可以来我家吃饭。",
    "科学家们发现了一种新的材料，它比钢铁更轻。",
    "老师告诉学生们明天要带一支铅笔和一张纸。",
];

/// The folder of a downloaded model, or its one GGUF file.
fn asset(name: &str) -> PathBuf {
    let home = || std::env::home_dir().map(|home| home.join(".cache/glassformer-assets"));
    let path = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from).or_else(home).unwrap().join(name);
    let mut entries = std::fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .flatten()
        .map(|entry| entry.path());
    entries.find(|path| path.extension().is_some_and(|end| end == "gguf")).unwrap_or(path)
}

fn compared(name: &str, texts: &[&str], precisions: &[Precision]) -> Vec<Comparison> {
    let path = asset(name);
    let open = |precision| TextEncoder::open(&path, Arc::new(Cpu::new(2).with_precision(precision))).unwrap();
    let exact = open(Precision::F32);
    let formula = exact.checkpoint().model.formula();
    let samples = if formula.source.is_some() && formula.target.is_some() {
        TextGenerator::open(&path, Arc::new(Cpu::new(2))).unwrap().samples(texts, &mut || ()).unwrap()
    } else {
        exact.samples(texts).unwrap()
    };
    let one = |&precision: &Precision| {
        let found = exact.compare(&open(precision), &samples).unwrap();
        println!(
            "| {name} | {precision} | {:.6} | {:.6} | {:.4} | {} of {} |",
            found.cosine,
            found.least,
            found.largest / found.size,
            found.same,
            found.rows
        );
        found
    };
    precisions.iter().map(one).collect()
}

#[test]
#[ignore = "needs downloaded models"]
fn low_precision_is_as_near_as_it_should_be() {
    println!(
        "| model | numbers | cosine of logits | least | largest difference, of the largest | same best |"
    );
    let all = [Precision::Bf16, Precision::Int8, Precision::Int4];
    // The least cosine, and the largest difference. A small change anywhere moves a cosine by its last digit or two.
    let held = [
        ("stories15m", &ENGLISH[..], [(0.9995, 0.02), (0.995, 0.1), (0.95, 0.4)]),
        ("opus-zh-en", &CHINESE, [(0.9995, 0.02), (0.98, 0.15), (0.9, 0.4)]),
        ("minilm", &ENGLISH, [(0.9995, 0.01), (0.995, 0.05), (0.95, 0.2)]),
    ];
    for (name, texts, bounds) in held {
        for (found, (cosine, apart)) in compared(name, texts, &all).iter().zip(bounds) {
            assert!(found.cosine > cosine && found.largest / found.size < apart, "{name}: {found:?}");
        }
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn files_in_few_bits_run_as_they_are_stored() {
    for name in ["smollm2", "qwen-coder-0.5b", "tinyllama"] {
        for found in compared(name, &ENGLISH, &[Precision::Stored]) {
            assert!(found.cosine > 0.99 && found.same * 10 >= found.rows * 8, "{name}: {found:?}");
        }
    }
}
