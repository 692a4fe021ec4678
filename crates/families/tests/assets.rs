//! Real checkpoints against the reference implementation. `fixtures/assets/make.py` made the numbers: a few columns of every
//! row. `cargo test -- --include-ignored` wants the models in `$GLASSFORMER_ASSETS` (or `~/.cache/glassformer-assets`).

use std::path::PathBuf;

use glassformer_cpu::Cpu;
use glassformer_engine::{Forward, Output, Sequence};
use glassformer_families::{Checkpoint, open, open_for_embedding};
use glassformer_tensor::{Tolerance, compare};
use glassformer_weights::Weights;

const BOUND: Tolerance = Tolerance { absolute: 1e-4, relative: 1e-4 };

/// The folder of a downloaded model. Some hold several models.
fn folder(name: &str) -> PathBuf {
    let home = || std::env::home_dir().map(|home| home.join(".cache/glassformer-assets"));
    let assets = std::env::var_os("GLASSFORMER_ASSETS").map(PathBuf::from).or_else(home).expect("a home");
    let folder = assets.join(name);
    assert!(folder.join("config.json").exists(), "{} is not there", folder.display());
    folder
}

/// The numbers of the reference implementation for `name`.
fn golden(name: &str) -> Weights {
    let file = format!("../../fixtures/assets/{}.safetensors", name.replace('/', "-"));
    Weights::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file))
        .expect("the numbers are in the repository")
}

/// The sequences of a file of numbers.
fn sequences(golden: &Weights, checkpoint: &Checkpoint) -> Vec<Sequence> {
    let ids = |i: usize, name: &str| -> Option<Vec<u32>> {
        Some(golden.integers(&format!("{i}.{name}"))?.into_iter().map(|id| id as u32).collect())
    };
    let decoder_only = checkpoint.model.formula().source.is_none();
    let one = |i: usize| {
        let (first, target) = (ids(i, "ids")?, ids(i, "target_ids").unwrap_or_default());
        Some(if decoder_only {
            Sequence { target: first, ..Sequence::default() }
        } else {
            Sequence { source: first, target, ..Sequence::default() }
        })
    };
    (0..).map_while(one).collect()
}

/// The eight columns of every row that the file holds.
fn sampled(found: &[f32], width: usize) -> Vec<f32> {
    let count = width.min(8);
    found.chunks(width).flat_map(|row| (0..count).map(|column| row[column * width / count])).collect()
}

/// Compares every output of which there are numbers.
fn equals_the_reference_implementation(name: &str) {
    let folder = folder(name);
    let checkpoint = open(&folder).unwrap_or_else(|error| panic!("{name}: {error}"));
    let golden = golden(name);
    let sequences = sequences(&golden, &checkpoint);
    assert!(!sequences.is_empty(), "{name} has no sequences");
    for (i, sequence) in sequences.into_iter().enumerate() {
        let run = Forward::whole(&checkpoint.model, &Cpu::default(), &[sequence]).expect("it runs");
        let mut compared = 0;
        for output in ["hidden", "source", "pooled", "logits"] {
            let Some(expected) = golden.get(&format!("{i}.{output}")) else { continue };
            let found = run.output(output).unwrap().unwrap_or_else(|| panic!("{name} has no {output}"));
            let found = sampled(&found.numbers, found.shape.width);
            if let Err(difference) = compare(&found, &expected.values(), BOUND) {
                panic!("{name}, {i}.{output}: {difference}");
            }
            compared += 1;
        }
        assert!(compared > 1, "{name}, {i}: only {compared} outputs were compared");
    }
}

/// The vectors of three sentences: sampled columns, the first numbers as published, and the cosines of the first with the others.
fn embeds_as_the_reference(name: &str, published: [f32; 5], cosines: [f32; 2]) {
    let folder = folder(name);
    let checkpoint = open_for_embedding(&folder).unwrap_or_else(|error| panic!("{name}: {error}"));
    let golden = golden(name);
    let run = Forward::whole(&checkpoint.model, &Cpu::default(), &sequences(&golden, &checkpoint))
        .expect("it runs");
    let Output { shape, rows, numbers } = run.output("pooled").unwrap().expect("a vector for each sentence");
    assert_eq!(rows, 3);
    let vectors: Vec<&[f32]> = numbers.chunks(shape.width).collect();
    for (i, vector) in vectors.iter().enumerate() {
        let expected = golden.get(&format!("{i}.embedding")).expect("a vector in the file");
        if let Err(difference) = compare(&sampled(vector, shape.width), &expected.values(), BOUND) {
            panic!("{name}, {i}.embedding: {difference}");
        }
    }
    let close = |found: f32, expected: f32| (found - expected).abs() < 1e-5;
    assert!(
        vectors[0].iter().zip(published).all(|(found, expected)| close(*found, expected)),
        "{:?}",
        &vectors[0][..5]
    );
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    for (other, expected) in vectors[1..].iter().zip(cosines) {
        let cosine = dot(vectors[0], other) / (dot(vectors[0], vectors[0]) * dot(other, other)).sqrt();
        assert!(close(cosine, expected), "{name}: the cosine is {cosine}, not {expected}");
    }
}

#[test]
#[ignore = "needs downloaded models"]
fn minilm_embeds_as_published() {
    let published = [0.130_237, -0.015_773, -0.036_717, 0.057_986, -0.059_792];
    embeds_as_the_reference("minilm", published, [0.729_630, 0.042_492]);
}

#[test]
#[ignore = "needs downloaded models"]
fn mpnet_embeds_as_published() {
    let published = [-0.000_763, -0.036_422, -0.008_753, -0.015_339, 0.016_525];
    embeds_as_the_reference("mpnet", published, [0.771_741, 0.041_473]);
}

#[test]
#[ignore = "needs downloaded models"]
fn m3e_without_modules_embeds_as_published() {
    let published = [-0.028_521, -0.079_401, 0.044_005, 0.258_144, -0.135_608];
    embeds_as_the_reference("m3e-zh", published, [0.827_300, 0.636_767]);
}

macro_rules! assets {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        #[ignore = "needs downloaded models"]
        fn $test() {
            equals_the_reference_implementation($name);
        })*
    };
}

assets! {
    minilm_equals_the_reference: "minilm",
    mpnet_without_its_head_equals_the_reference: "mpnet",
    m3e_equals_the_reference: "m3e-zh",
    rxnfp_equals_the_reference: "rxnfp",
    rxnmapper_equals_the_reference: "rxnmapper",
    antiberty_with_heads_of_its_own_equals_the_reference: "antiberty",
    iglm_equals_the_reference: "iglm/IgLM",
    small_iglm_equals_the_reference: "iglm/IgLM-S",
    stories_equal_the_reference: "stories15m",
    opus_equals_the_reference: "opus-zh-en",
    flan_t5_title_equals_the_reference: "flan-t5-title",
}
