//! Real models end to end, with the numbers that the reference implementation gives. The models are not part of the
//! repository: where one is absent from `$GLASSFORMER_ASSETS` (or `~/.cache/glassformer-assets`), its test says so and is
//! skipped.

use std::path::PathBuf;
use std::sync::Arc;

use glassformer_cpu::Cpu;
use glassformer_tasks::{Embed, Fill, Reader};

/// The folder of a model, if it is there.
fn asset(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from);
    let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/glassformer-assets"));
    let folder = given.or_else(usual)?.join(name);
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: {name} is not there");
    None
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
        let Some(folder) = asset(name) else { continue };
        let reader = Reader::open_for_embedding(&folder, Arc::new(Cpu::new(2))).unwrap();
        let vectors = reader.embed(&texts, &Embed::default()).unwrap();
        for (found, expected) in vectors[0].iter().zip(first) {
            close(*found, expected, 2e-6);
        }
        for (vector, expected) in vectors[1..].iter().zip(similar) {
            close(cosine(&vectors[0], vector), expected, 2e-6);
        }
    }
}

#[test]
fn blanks_are_filled_with_the_words_of_the_reference() {
    let reaction = "CC(=O)Cl.NCc1ccccc1>>CC(=O)[MASK]Cc1ccccc1";
    let antibody = "EVQLVESGGGLVQPGGSLRLSCAASGFTFS[MASK]YAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK";
    let cases = [
        ("rxnfp", reaction, [("N", 0.9925), ("O", 0.0059)]),
        ("rxnmapper", reaction, [("N", 0.9886), ("[N@@]", 0.0094)]),
        ("antiberty", antibody, [("S", 0.9648), ("R", 0.0120)]),
    ];
    for (name, text, expected) in cases {
        let Some(folder) = asset(name) else { continue };
        let reader = Reader::open(&folder, Arc::new(Cpu::new(2))).unwrap();
        let filled = reader.fill(&[text], &Fill { top: 2, ..Fill::default() }).unwrap();
        for (choice, (word, score)) in filled[0][0].choices.iter().zip(expected) {
            assert_eq!(choice.word, word, "{name}");
            close(choice.score, score, 6e-5);
        }
    }
}
