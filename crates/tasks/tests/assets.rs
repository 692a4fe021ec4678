//! Real models end to end, with the numbers that the reference implementation gives. The models are not part of the
//! repository: `cargo test -- --include-ignored` wants them in `$GLASSFORMER_ASSETS` (or `~/.cache/glassformer-assets`).

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_engine::Finish;
use glassformer_tasks::{Embed, Fill, TextEncoder, TextGenerator, Translate, silent};

/// The folder of a downloaded model.
fn asset(name: &str) -> PathBuf {
    let given = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from);
    let usual = || Some(std::env::home_dir()?.join(".cache/glassformer-assets"));
    let folder = given.or_else(usual).unwrap().join(name);
    assert!(folder.exists(), "{} is not there", folder.display());
    folder
}

#[track_caller]
fn close(found: f32, expected: f32, tolerance: f32) {
    assert!((found - expected).abs() <= tolerance, "{found} where {expected} was expected");
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
#[ignore = "needs downloaded models"]
fn sentences_become_the_vectors_of_the_reference() {
    let english =
        ["The cat sat on the mat.", "A cat is sitting on a rug.", "Stock markets fell sharply today."];
    let chinese = ["猫坐在垫子上。", "一只小猫躺在地毯上。", "今天股市大幅下跌。"];
    let cases = [
        (
            "minilm",
            english,
            [0.130_237, -0.015_773, -0.036_717, 0.057_986, -0.059_792],
            [0.729_630, 0.042_492],
        ),
        (
            "mpnet",
            english,
            [-0.000_763, -0.036_422, -0.008_753, -0.015_339, 0.016_525],
            [0.771_741, 0.041_473],
        ),
        (
            "m3e-zh",
            chinese,
            [-0.028_521, -0.079_401, 0.044_005, 0.258_144, -0.135_608],
            [0.827_300, 0.636_767],
        ),
    ];
    for (name, texts, first, similar) in cases {
        let folder = asset(name);
        let encoder = TextEncoder::open(&folder, Arc::new(Cpu::new(2))).unwrap();
        let vectors = encoder.embed(&texts, &Embed::default()).unwrap();
        for (found, expected) in vectors[0].iter().zip(first) {
            close(*found, expected, 2e-6);
        }
        for (vector, expected) in vectors[1..].iter().zip(similar) {
            close(cosine(&vectors[0], vector), expected, 2e-6);
        }
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn blanks_are_filled_with_the_words_of_the_reference() {
    let reaction = "CC(=O)Cl.NCc1ccccc1>>CC(=O)[MASK]Cc1ccccc1";
    let antibody = "EVQLVESGGGLVQPGGSLRLSCAASGFTFS[MASK]YAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK";
    let cases = [
        ("rxnfp", reaction, [("N", 0.9925), ("O", 0.0059)]),
        ("rxnmapper", reaction, [("N", 0.9886), ("[N@@]", 0.0094)]),
        ("antiberty", antibody, [("S", 0.9648), ("R", 0.0120)]),
    ];
    for (name, text, expected) in cases {
        let folder = asset(name);
        let encoder = TextEncoder::open(&folder, Arc::new(Cpu::new(2))).unwrap();
        let filled = encoder.fill(&[text], &Fill { top: 2, ..Fill::default() }).unwrap();
        for (choice, (word, score)) in filled[0][0].choices.iter().zip(expected) {
            assert_eq!(choice.word, word, "{name}");
            close(choice.score, score, 6e-5);
        }
    }
}

/// What a model writes after `prompt`, most likely token by most likely token.
fn greedy(folder: &std::path::Path, prompt: &str, new: usize) -> String {
    let generator = TextGenerator::open(folder, Arc::new(Cpu::new(2))).unwrap();
    let mut options = generator.default_options();
    options.decoding.max_new_tokens = Some(new);
    options.decoding.beams = 1;
    generator.generate(&[prompt], &options, &mut silent).unwrap()[0][0].text.clone()
}

/// The only GGUF file of an asset.
fn gguf(name: &str) -> PathBuf {
    let mut files = std::fs::read_dir(asset(name)).unwrap().flatten().map(|entry| entry.path());
    files.find(|path| path.extension().is_some_and(|end| end == "gguf")).unwrap()
}

#[test]
#[ignore = "needs downloaded models"]
fn stories_and_sequences_go_on_as_the_reference_tells_them() {
    let story = greedy(&asset("stories15m"), "Once upon a time", 40);
    let expected = ", there was a little girl named Lily. She loved to play outside in the sunshine. One day, \
                    she saw a big, red ball in the sky.";
    assert!(story.starts_with(expected), "{story}");
    for name in ["iglm/IgLM", "iglm/IgLM-S"] {
        let folder = asset(name);
        let written = greedy(&folder, "[HEAVY][HUMAN]EVQLVESGGGLVQPGG", 40);
        assert_eq!(written, "SLRLSCAASGFTFSSYWMSWVRQAPGKGLEWVANIKQDGS", "{name}");
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn chats_are_answered_in_english_and_chinese() {
    let cases = [
        ("smollm2", "What is the capital of France?", "The capital of France is Paris."),
        ("qwen-coder-0.5b", "用一句话介绍北京。", "北京是一个非常大的城市，拥有丰富的历史和文化。"),
    ];
    for (name, question, expected) in cases {
        let file = gguf(name);
        let generator = TextGenerator::open(&file, Arc::new(Cpu::new(2))).unwrap();
        let mut chat = generator.chat(generator.default_options()).unwrap();
        let mut heard = String::new();
        let answer = chat.say(question, &mut |piece| {
            heard += piece;
            ControlFlow::Continue(())
        });
        let answer = answer.unwrap();
        assert_eq!((answer.text.as_str(), answer.finish), (expected, Finish::Eos), "{name}");
        assert_eq!(heard, expected, "{name}");
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn chinese_becomes_english_from_both_folders() {
    let (park, station) = ("今天天气很好，我们去公园散步吧。", "请问火车站怎么走？");
    for name in ["opus-zh-en", "opus-zh-en/ctranslate2"] {
        let folder = asset(name);
        let generator = TextGenerator::open(&folder, Arc::new(Cpu::new(2))).unwrap();
        let with = |beams| {
            let generate = generator.default_options().beams(beams);
            Translate { generate: Some(generate), ..Translate::default() }
        };
        let english = generator.translate(&[park, station], &with(1)).unwrap();
        assert_eq!(
            english,
            ["It's a nice day. Let's go for a walk in the park.", "What's the train station?"],
            "{name}"
        );
        let english = generator.translate(&[station], &with(6)).unwrap();
        assert_eq!(english, ["Excuse me, where's the train station?"], "{name}");
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn a_step_gets_its_title() {
    let folder = asset("flan-t5-title");
    let generator = TextGenerator::open(&folder, Arc::new(Cpu::new(2))).unwrap();
    let step = "summarize agent step: intent: Adding dark mode | actions: edit, create | files: theme.css, settings.tsx | \
                symbols: ThemeProvider, useTheme | notes: Users asked for a dark colour scheme in the settings page.";
    assert_eq!(
        generator.summarize(&[step], &generator.default_options()).unwrap(),
        ["Add dark mode to settings page"]
    );
}
