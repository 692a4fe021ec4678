//! Broken and hostile files of every format but safetensors (see `../broken.rs`): each is one line that says what is wrong and
//! what to do, within 64 MB and a limited number of allocations, whatever the file promises.

#[path = "../common/mod.rs"]
mod common;
mod others;
mod torch;

use std::fs;
use std::path::Path;

use common::build;
use common::folder;
use common::watch::{Watched, allocations, most_held};
use glassformer_weights::Weights;

#[global_allocator]
static ALLOCATOR: Watched = Watched;

const MEMORY: usize = 64 << 20;
/// The worst file needs a quarter; tests that run beside count, too.
const ALLOCATIONS: usize = 4_000_000;

/// What is wrong, the file, and words that the message must have.
type Case = (&'static str, Vec<u8>, &'static [&'static str]);

const FETCH_AGAIN: &str = "fetch it again";

/// What is wrong with our answer to a file, if anything.
fn fault(path: &Path, words: &[&str]) -> Option<String> {
    let before = allocations();
    let (result, held) = most_held(|| Weights::open(path).map(|weights| weights.len()));
    let asked = allocations() - before;
    let Err(error) = result else { return Some("it was opened".into()) };
    let message = error.to_string();
    let hint = message.rsplit_once("; ").map_or(0, |(_, hint)| hint.len());
    if let Some(word) = words.iter().find(|word| !message.contains(**word)) {
        Some(format!("no {word:?} in: {message}"))
    } else if message.len() > 1500 || message.contains('\n') || hint < 10 {
        Some(format!("not a line with a hint: {message}"))
    } else if asked > ALLOCATIONS || held > MEMORY {
        Some(format!("it took {asked} allocations and {held} bytes"))
    } else {
        println!("{}", message.replace(&path.display().to_string(), "…"));
        None
    }
}

// One test, since the allocator watches the whole program.
#[test]
fn hostile_files_are_one_line_errors_with_a_hint() {
    let folder = folder("hostile");
    let pickles = [torch::attacks(), torch::bombs()].concat();
    let archived =
        pickles.iter().map(|(what, pickle, words)| (*what, build::torch(pickle, &[0; 16]), *words)).collect();
    let mut cases = [
        torch::archives(),
        archived,
        torch::nonsense(),
        torch::old_files(),
        others::gguf_files(),
        others::ctranslate2_files(),
        others::unknown_files(),
    ]
    .concat();
    // The attacks once more, as a whole file: refused before anyone asks for the magic number.
    cases.extend(torch::attacks());
    assert!(cases.len() > 150, "{} files", cases.len());
    let mut faults = Vec::new();
    for (number, (what, bytes, words)) in cases.into_iter().enumerate() {
        let path = folder.join(number.to_string());
        fs::write(&path, bytes).expect("it can be written");
        faults.extend(fault(&path, words).map(|fault| format!("{what}: {fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_good_files_that_these_were_made_from_are_good() {
    let folder = folder("harmless");
    let old_keys = build::program(&build::join(&[b"](", &build::text("0"), b"e"]));
    let files = [
        ("zip", torch::good_zip()),
        ("zip-64", build::zip_64(&[("m/data.pkl", &torch::good_pickle()), ("m/data/0", &[0; 16])])),
        (
            "old",
            build::old(&torch::good_pickle(), &old_keys, &build::join(&[&4_u64.to_le_bytes(), &[0; 16]])),
        ),
        ("gguf", build::gguf(&[build::entry("k", 4, &[1, 0, 0, 0])], &[build::listed("w", &[2], 0, 0)], 8)),
        ("ctranslate2", build::ctranslate2(5, &[build::variable("w", &[2], 0, 8)], &[("v", "w")])),
    ];
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("it can be written");
        let weights = Weights::open(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(weights.shape("w"), Some(&[2][..]), "{name}");
        assert_eq!(weights.require("w").expect("it is there").values().len(), 2, "{name}");
    }
}

#[test]
fn tensors_of_nothing_are_harmless_whatever_their_other_sizes() {
    let most = u32::MAX;
    let path = folder("nothing").join("model.bin");
    let variables = [
        build::variable("w", &[0, most, most, most, 5], 1, 0),
        build::variable("w_scale", &[0], 0, 0),
        build::variable("v", &[2, 0, most, most], 0, 0),
    ];
    fs::write(&path, build::ctranslate2(6, &variables, &[])).expect("it can be written");
    let weights = Weights::open(&path).unwrap_or_else(|error| panic!("{error}"));
    assert!(weights.require("w").expect("it is there").to_f32().data().is_empty());
    let part = weights.require("v").expect("it is there").rows(1..2);
    assert!(part.is_some_and(|part| part.is_empty()));
}

/// What is wrong with an index of PyTorch shards, and words that the message must have.
const INDEXES: [(&str, &str, &str); 5] = [
    ("parent", r#"{"weight_map":{"w":"../index/a.bin"}}"#, "do not trust"),
    ("root", r#"{"weight_map":{"w":"/etc/passwd"}}"#, "is not a path inside"),
    ("absent tensor", r#"{"weight_map":{"w":"a.bin","v":"a.bin"}}"#, "tensor \"v\""),
    ("two shards", r#"{"weight_map":{"w":"a.bin","v":"b.bin"}}"#, "another shard"),
    ("a shard that is none", r#"{"weight_map":{"w":"pytorch_model.bin.index.json"}}"#, "begins neither"),
];

#[test]
fn an_index_of_pytorch_shards_is_not_trusted_either() {
    let folder = folder("torch-index");
    for shard in ["a.bin", "b.bin"] {
        fs::write(folder.join(shard), torch::good_zip()).expect("it can be written");
    }
    let open = || Weights::open(&folder);
    assert!(
        open()
            .expect_err("no index yet")
            .to_string()
            .contains("expected model.safetensors or pytorch_model.bin")
    );
    for (what, index, word) in INDEXES {
        fs::write(folder.join("pytorch_model.bin.index.json"), index).expect("it can be written");
        let message = open().expect_err(what).to_string();
        assert!(message.contains(word), "{what}: {message}");
    }
}
