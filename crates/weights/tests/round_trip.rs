//! What is written is read again: by us, by the format's own library, and from shards.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;

use crate::common::{file, folder};
use glassformer_tensor::Tensor;
use glassformer_weights::{Dtype, Error, Weights, save};

fn tensor(shape: &[usize], start: f32) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::new(shape, (0..count).map(|n| start + n as f32).collect())
        .expect("as many numbers as the shape says")
}

fn samples() -> Vec<(&'static str, Tensor)> {
    vec![
        ("decoder.0.attend.query", tensor(&[2, 3], 0.5)),
        ("bias", tensor(&[5], -2.0)),
        ("scale", tensor(&[], 7.0)),
        ("none", tensor(&[0, 4], 0.0)),
        ("größe \"π\"", tensor(&[1, 2, 1], f32::MIN_POSITIVE)),
        ("large", tensor(&[40_000], 0.0)),
    ]
}

fn metadata() -> BTreeMap<String, String> {
    [("step", "12"), ("format", "pt")].map(|(key, value)| (key.into(), value.into())).into()
}

#[test]
fn what_is_saved_is_read_again_without_copying() {
    let path = folder("saved_and_read").join("model.safetensors");
    let samples = samples();
    save(&path, samples.iter().map(|(name, tensor)| (*name, tensor)), &metadata()).expect("it can be saved");
    for place in [path.as_path(), path.parent().expect("a file has a folder")] {
        let weights = Weights::open(place).expect("it can be opened");
        assert_eq!(weights.len(), samples.len());
        assert_eq!(weights.metadata(), &metadata());
        assert!(weights.names().is_sorted());
        for (name, tensor) in &samples {
            let view = weights.require(name).expect("it is there");
            assert_eq!(view.dtype(), Dtype::F32);
            assert_eq!(weights.shape(name), Some(tensor.shape()));
            assert_eq!(view.to_f32(), *tensor);
            assert!(matches!(view.values(), Cow::Borrowed(_)), "{name} was copied");
            assert_eq!(weights.integers(name), None);
        }
    }
}

#[test]
fn equal_content_gives_equal_bytes_and_leaves_nothing_else_behind() {
    let folder = folder("equal_bytes");
    let samples = samples();
    let forward = folder.join("forward.safetensors");
    let backward = folder.join("backward.safetensors");
    save(&forward, samples.iter().map(|(name, tensor)| (*name, tensor)), &metadata())
        .expect("it can be saved");
    save(&backward, samples.iter().rev().map(|(name, tensor)| (*name, tensor)), &metadata())
        .expect("it can be saved");
    assert_eq!(fs::read(&forward).expect("it is there"), fs::read(&backward).expect("it is there"));
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 2);
}

#[test]
fn a_file_can_be_replaced_while_it_is_in_use() {
    let path = folder("replaced").join("model.safetensors");
    let (old, new) = (tensor(&[3], 1.0), tensor(&[2], 9.0));
    save(&path, [("w", &old)], &BTreeMap::new()).expect("it can be saved");
    let before = Weights::open(&path).expect("it can be opened");
    save(&path, [("w", &new)], &BTreeMap::new()).expect("it can be saved again");
    assert_eq!(before.get("w").expect("it is there").to_f32(), old);
    assert_eq!(Weights::open(&path).expect("it can be opened").get("w").expect("it is there").to_f32(), new);
}

#[test]
fn a_failed_save_keeps_the_old_file() {
    let folder = folder("failed_save");
    let path = folder.join("model.safetensors");
    let w = tensor(&[3], 1.0);
    save(&path, [("w", &w)], &BTreeMap::new()).expect("it can be saved");
    for (names, part) in [(["__metadata__", "w"], "reserves"), (["w", "w"], "another tensor has it")] {
        let error =
            save(&path, names.map(|name| (name, &w)), &BTreeMap::new()).expect_err("the name is refused");
        assert!(error.to_string().contains(part), "{error}");
    }
    fs::create_dir(folder.join("taken")).expect("a folder can be made");
    let error =
        save(folder.join("taken"), [("w", &w)], &BTreeMap::new()).expect_err("a folder is in the way");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let error =
        save(folder.join("absent/w"), [("w", &w)], &BTreeMap::new()).expect_err("there is no such folder");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(Weights::open(&path).expect("it is still there").len(), 1);
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 2);
}

#[test]
fn the_formats_own_library_reads_what_we_write() {
    let path = folder("ours").join("model.safetensors");
    let samples = samples();
    save(&path, samples.iter().map(|(name, tensor)| (*name, tensor)), &metadata()).expect("it can be saved");
    let bytes = fs::read(&path).expect("it is there");
    let theirs = safetensors::SafeTensors::deserialize(&bytes).expect("the library reads it");
    for (name, tensor) in &samples {
        let view = theirs.tensor(name).expect("it is there");
        assert_eq!(view.dtype(), safetensors::Dtype::F32);
        assert_eq!(view.shape(), tensor.shape());
        let expected: Vec<u8> = tensor.data().iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(view.data(), expected);
    }
}

#[test]
fn we_read_what_the_formats_own_library_writes() {
    let path = folder("theirs").join("weights.safetensors");
    let view = |dtype, shape: &[usize], data: &'static [u8]| {
        safetensors::tensor::TensorView::new(dtype, shape.to_vec(), data).expect("the sizes agree")
    };
    let views = [
        ("half", view(safetensors::Dtype::F16, &[1, 2], &[0x00, 0x3c, 0x00, 0xb8])),
        ("brain", view(safetensors::Dtype::BF16, &[3], &[0x80, 0x3f, 0x00, 0xbf, 0, 0])),
        (
            "ids",
            view(
                safetensors::Dtype::I64,
                &[2],
                &[5, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
            ),
        ),
        ("types", view(safetensors::Dtype::I32, &[1], &[7, 0, 0, 0])),
        ("mask", view(safetensors::Dtype::BOOL, &[3], &[1, 0, 1])),
    ];
    safetensors::serialize_to_file(views, None, &path).expect("the library writes it");
    let weights = Weights::open(&path).expect("it can be opened");
    let values = |name: &str| weights.get(name).expect("it is there").values().into_owned();
    assert_eq!(values("half"), [1.0, -0.5]);
    assert_eq!(values("brain"), [1.0, -0.5, 0.0]);
    assert_eq!(values("ids"), [5.0, -1.0]);
    assert_eq!(weights.integers("ids"), Some(vec![5, -1]));
    assert_eq!(weights.integers("types"), Some(vec![7]));
    assert_eq!(weights.integers("mask"), Some(vec![1, 0, 1]));
    assert_eq!(weights.integers("half"), None);
    assert_eq!(weights.integers("absent"), None);
}

#[test]
fn numbers_that_are_not_aligned_are_copied() {
    let path = folder("unaligned").join("odd.safetensors");
    let header = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}"#;
    let padding = " ".repeat(header.len().next_multiple_of(8) - header.len());
    fs::write(&path, file(&format!("{header}{padding}"), 9)).expect("it can be written");
    let weights = Weights::open(&path).expect("it can be opened");
    let values = weights.get("b").expect("it is there").values();
    assert!(matches!(values, Cow::Owned(_)));
    assert_eq!(*values, [f32::from_le_bytes([1, 2, 3, 4]), f32::from_le_bytes([5, 6, 7, 8])]);
}

#[test]
fn shards_are_one_model() {
    let folder = folder("shards");
    let (a, b, c) = (tensor(&[2], 1.0), tensor(&[3], 2.0), tensor(&[1], 3.0));
    fs::create_dir(folder.join("part")).expect("a folder can be made");
    save(folder.join("one.safetensors"), [("a", &a), ("c", &c)], &metadata()).expect("it can be saved");
    save(folder.join("part/two.safetensors"), [("b", &b)], &BTreeMap::new()).expect("it can be saved");
    let index = r#"{"metadata":{"total_size":24},"weight_map":
        {"a":"one.safetensors","b":"part/two.safetensors","c":"one.safetensors"}}"#;
    fs::write(folder.join("model.safetensors.index.json"), index).expect("it can be written");
    let weights = Weights::open(&folder).expect("it can be opened");
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(weights.metadata(), &metadata());
    for (name, tensor) in [("a", &a), ("b", &b), ("c", &c)] {
        assert_eq!(weights.require(name).expect("it is there").to_f32(), *tensor);
    }
}

#[test]
fn tensors_in_memory_look_like_tensors_in_a_file() {
    let weights =
        Weights::from_tensors(samples().into_iter().map(|(name, tensor)| (name.to_owned(), tensor)));
    assert!(!weights.is_empty() && weights.names().is_sorted());
    for (name, tensor) in samples() {
        let view = weights.require(name).expect("it is there");
        assert_eq!(view.to_f32(), tensor);
        assert!(matches!(view.values(), Cow::Borrowed(_)));
        assert_eq!(view.integers(), None);
    }
    let error = weights.require("decoder.9").expect_err("it is not there");
    assert_eq!(
        error.to_string(),
        "the model in memory has no tensor \"decoder.9\"; check that the weights belong to this architecture"
    );
}
