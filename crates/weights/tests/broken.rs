//! Broken and hostile files: each is an error with a useful message, never a panic and never a large allocation.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{file, folder};
use glassformer_tensor::Tensor;
use glassformer_weights::{Weights, save};

/// Far more than these files, of a few hundred bytes, can justify.
const LARGE: usize = 1 << 20;

/// The largest single allocation since the program began.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` above used the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// A header entry.
fn entry(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
}

/// A file with these header entries and this many bytes of data.
fn entries(entries: &[String], data: usize) -> Vec<u8> {
    file(&format!("{{{}}}", entries.join(",")), data)
}

/// A file that announces a header of this length.
fn announcing(length: u64) -> Vec<u8> {
    [&length.to_le_bytes()[..], b"{}"].concat()
}

/// What is wrong, the file, and words that the message must have.
fn broken_files() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let good = || entry("w", "F32", "[2,2]", "[0,16]");
    vec![
        ("empty file", vec![], &["cut short", "0 bytes"]),
        ("half a length", vec![2, 0, 0], &["cut short", "3 bytes"]),
        ("no header", announcing(3), &["cut short", "10 bytes", "at least 11"]),
        ("header of length zero", vec![0; 8], &["does not begin with {"]),
        (
            "giant header",
            announcing(u64::MAX),
            &["18446744073709551615", "check that it is a safetensors file"],
        ),
        ("header over the limit", announcing(100_000_001), &["100000001", "100000000"]),
        ("header longer than the file", announcing(99_999_999), &["cut short"]),
        ("not JSON", file("{]", 0), &["header: ", "line 1 column 2"]),
        ("a list", file("[]", 0), &["does not begin with {"]),
        ("spaces first", file(" {}", 0), &["does not begin with {"]),
        ("text after the object", file("{}x", 0), &["trailing characters"]),
        ("not UTF-8", [&5_u64.to_le_bytes()[..], b"{\"\xff\":"].concat(), &["header: "]),
        ("deep nesting", file(&format!("{{\"a\":{}", "[".repeat(5000)), 0), &["tensor \"a\""]),
        ("truncated data", entries(&[good()], 15), &["tensor \"w\"", "0 to 16", "has 15"]),
        ("no data", entries(&[good()], 0), &["tensor \"w\"", "fetch it again"]),
        ("bytes at the end", entries(&[good()], 17), &["16 to 17", "no tensor"]),
        ("only bytes", entries(&[], 4), &["0 to 4", "no tensor"]),
        ("a hole", entries(&[good(), entry("x", "U8", "[1]", "[17,18]")], 18), &["16 to 17", "no tensor"]),
        ("a hole at the start", entries(&[entry("x", "U8", "[1]", "[1,2]")], 2), &["0 to 1"]),
        (
            "overlap",
            entries(&[good(), entry("x", "F32", "[2]", "[12,20]")], 20),
            &["\"w\" and \"x\" overlap"],
        ),
        ("the same bytes twice", entries(&[good(), entry("x", "F32", "[4]", "[0,16]")], 16), &["overlap"]),
        ("start after end", entries(&[entry("w", "F32", "[0]", "[4,0]")], 4), &["4 to 0"]),
        (
            "offset beyond the file",
            entries(&[entry("w", "U8", "[1]", "[18446744073709551614,18446744073709551615]")], 1),
            &["tensor \"w\"", "has 1"],
        ),
        (
            "offset beyond 64 bits",
            entries(&[entry("w", "U8", "[1]", "[0,18446744073709551616]")], 1),
            &["tensor \"w\""],
        ),
        (
            "overflowing shape",
            entries(&[entry("w", "F32", "[4294967296,4294967296,4]", "[0,16]")], 16),
            &["tensor \"w\"", "[4294967296, 4294967296, 4]", "larger than any memory"],
        ),
        (
            "shape that overflows in bytes",
            entries(&[entry("w", "F32", "[4611686018427387904]", "[0,0]")], 0),
            &["larger than any memory"],
        ),
        (
            "shape too small",
            entries(&[entry("w", "F32", "[2,1]", "[0,16]")], 16),
            &["needs 8 bytes", "gives it 16"],
        ),
        ("type too wide", entries(&[entry("w", "F64", "[2,2]", "[0,16]")], 16), &["needs 32 bytes"]),
        (
            "unknown type",
            entries(&[entry("w", "F7_E3M3", "[16]", "[0,16]")], 16),
            &["\"w\"", "\"F7_E3M3\"", "convert"],
        ),
        ("negative size", entries(&[entry("w", "F32", "[-2,2]", "[0,16]")], 16), &["tensor \"w\"", "`-2`"]),
        (
            "negative offset",
            entries(&[entry("w", "F32", "[2,2]", "[-16,0]")], 16),
            &["tensor \"w\"", "`-16`"],
        ),
        ("fractional size", entries(&[entry("w", "F32", "[2.5]", "[0,16]")], 16), &["tensor \"w\"", "2.5"]),
        (
            "too many dimensions",
            entries(&[entry("w", "U8", &format!("[{}1]", "1,".repeat(400)), "[0,1]")], 1),
            &["16"],
        ),
        ("three offsets", entries(&[entry("w", "F32", "[2,2]", "[0,8,16]")], 16), &["tensor \"w\""]),
        ("missing field", file(r#"{"w":{"dtype":"F32","shape":[0]}}"#, 0), &["tensor \"w\"", "data_offsets"]),
        ("unknown field", file(r#"{"w":{"strides":[1]}}"#, 0), &["tensor \"w\"", "strides"]),
        (
            "duplicate field",
            file(r#"{"w":{"dtype":"F32","dtype":"F16"}}"#, 0),
            &["tensor \"w\"", "duplicate"],
        ),
        ("duplicate tensor", entries(&[good(), good()], 16), &["\"w\" appears twice"]),
        ("duplicate metadata", file(r#"{"__metadata__":{},"__metadata__":{}}"#, 0), &["__metadata__"]),
        (
            "duplicate metadata key",
            file(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0),
            &["\"a\" appears twice"],
        ),
        ("metadata that is no text", file(r#"{"__metadata__":{"a":1}}"#, 0), &["expected a string"]),
        ("a very long name", entries(&[entry(&"x".repeat(5000), "F7", "[1]", "[0,1]")], 1), &["xxx…", "F7"]),
    ]
}

/// What is wrong, the index, and words that the message must have. Beside it lie `a.safetensors` and
/// `copy.safetensors`, each with a tensor `w`.
const BROKEN_INDEXES: [(&str, &str, &str); 11] = [
    ("not JSON", "weights", "index: "),
    ("empty", "", "index: "),
    ("no map", "{}", "weight_map"),
    ("duplicate tensor", r#"{"weight_map":{"w":"a.safetensors","w":"b"}}"#, "\"w\" appears twice"),
    ("parent", r#"{"weight_map":{"w":"../index/a.safetensors"}}"#, "do not trust"),
    ("hidden parent", r#"{"weight_map":{"w":"x/../../index/a.safetensors"}}"#, "do not trust"),
    ("root", r#"{"weight_map":{"w":"/etc/passwd"}}"#, "\"/etc/passwd\" is not a path inside"),
    ("no name", r#"{"weight_map":{"w":""}}"#, "do not trust"),
    ("absent shard", r#"{"weight_map":{"w":"b.safetensors"}}"#, "b.safetensors"),
    ("absent tensor", r#"{"weight_map":{"w":"a.safetensors","v":"a.safetensors"}}"#, "tensor \"v\""),
    (
        "tensor in two shards",
        r#"{"weight_map":{"w":"a.safetensors","v":"copy.safetensors"}}"#,
        "another shard",
    ),
];

fn message(path: &Path, what: &str) -> String {
    let error = Weights::open(path).expect_err(what).to_string();
    assert!(error.len() < 1000, "{what}: a message of {} bytes", error.len());
    error
}

// One test, since the allocator watches the whole program.
#[test]
fn broken_files_are_errors_that_say_what_and_where() {
    let folder = folder("broken");
    for (what, bytes, words) in broken_files() {
        let path = folder.join(format!("{what}.safetensors"));
        fs::write(&path, bytes).expect("it can be written");
        let message = message(&path, what);
        println!("{what}: {}", message.replace(&folder.display().to_string(), "…"));
        for word in [what].iter().chain(words) {
            assert!(message.contains(word), "{what}: no {word:?} in: {message}");
        }
    }
    indexes(&folder.join("index"));
    places(&folder);
    mutations(&folder);
    let largest = LARGEST.load(Relaxed);
    assert!(largest < LARGE, "some file made us allocate {largest} bytes at once");
}

fn indexes(folder: &Path) {
    fs::create_dir(folder).expect("a folder can be made");
    let w = Tensor::zeros(&[2]);
    for name in ["a.safetensors", "copy.safetensors"] {
        save(folder.join(name), [("w", &w)], &BTreeMap::new()).expect("it can be saved");
    }
    for (what, index, word) in BROKEN_INDEXES {
        fs::write(folder.join("model.safetensors.index.json"), index).expect("it can be written");
        let message = message(folder, what);
        assert!(message.contains(word), "{what}: no {word:?} in: {message}");
    }
}

/// Paths that are no file of weights.
fn places(folder: &Path) {
    assert!(message(&folder.join("absent"), "no such file").contains("cannot open"));
    assert!(message(folder, "no weights in the folder").contains("expected model.safetensors"));
    let model = folder.join("model.safetensors");
    fs::create_dir(&model).expect("a folder can be made");
    assert!(message(folder, "a folder with the name of a file").contains("not a regular file"));
    fs::remove_dir(&model).expect("it can be removed");
}

/// Every file that differs from a good one in one byte, or is shorter, is refused or can be read to its end.
fn mutations(folder: &Path) {
    let path = folder.join("mutated.safetensors");
    let good = entries(&[entry("w", "F16", "[3]", "[0,6]"), entry("ids", "I64", "[1]", "[6,14]")], 14);
    let replacements = [0, b' ', b'"', b'-', b'0', b'9', b'e', b'[', b']', b'{', b',', 0x7f, 0xff];
    let changed = (0..good.len()).flat_map(|at| {
        let good = &good;
        replacements.iter().map(move |&byte| [&good[..at], &[byte], &good[at + 1..]].concat())
    });
    let shorter = (0..good.len()).map(|length| good[..length].to_vec());
    for bytes in changed.chain(shorter) {
        fs::write(&path, &bytes).expect("it can be written");
        match Weights::open(&path) {
            Ok(weights) => weights.names().for_each(|name| {
                let tensor = weights.require(name).expect("a name is the name of a tensor").to_f32();
                assert_eq!(Some(tensor.shape()), weights.shape(name));
            }),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
