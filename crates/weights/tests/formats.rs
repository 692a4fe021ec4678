//! Every format against the package that defines it: `fixtures/weights/make.py` wrote the files, and read them again.

use std::borrow::Cow;
use std::fs;

use crate::common::{fixture, folder};
use glassformer_weights::{Dtype, Format, Quant, Weights};

/// Opens `fixtures/weights/NAME` and compares every tensor with `NAME.expected.safetensors`, bit for bit.
fn compared(name: &str) -> Weights {
    let weights = Weights::open(fixture(name)).unwrap_or_else(|error| panic!("{error}"));
    compare(&weights, name);
    weights
}

fn compare(weights: &Weights, name: &str) {
    let expected = Weights::open(fixture(&format!("{name}.expected.safetensors"))).expect("it is a fixture");
    assert_eq!(weights.names().collect::<Vec<_>>(), expected.names().collect::<Vec<_>>(), "{name}");
    for tensor in expected.names() {
        assert_eq!(weights.shape(tensor), expected.shape(tensor), "{name}: {tensor}");
        let found = weights.require(tensor).expect("it has the same names").values();
        let wanted = expected.require(tensor).expect("it is its own name").values();
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let differ = found.iter().zip(&*wanted).position(|(&a, &b)| !same(a, b));
        if let Some(at) = differ {
            panic!("{name}: {tensor}[{at}] is {} and should be {}", found[at], wanted[at]);
        }
    }
}

#[test]
fn pytorch_zip_files_are_read_as_torch_reads_them() {
    let weights = compared("torch/zip.pt");
    assert!(matches!(weights.format(), Format::Torch));
    let dtype = |name: &str| weights.get(name).expect("it is there").dtype();
    assert_eq!(dtype("kind.bfloat16"), Dtype::Bf16);
    assert_eq!(dtype("kind.uint16"), Dtype::U16);
    assert_eq!(weights.integers("kind.negative"), Some(vec![-128, 127, -1]));
    assert_eq!(weights.integers("expanded"), Some((0..9).collect()));
    // Neighbours in the file are not copied; a transposed matrix is.
    let borrowed = |name: &str| matches!(weights.get(name).expect("it is there").values(), Cow::Borrowed(_));
    assert!(borrowed("shared.rows") && borrowed("linear.weight") && !borrowed("transposed"));
    compared("torch/protocol4.pt");
    compared("torch/alone.pt");
}

#[test]
fn older_pytorch_files_are_read_as_torch_reads_them() {
    let weights = compared("torch/old.pt");
    assert!(matches!(weights.format(), Format::Torch));
}

#[test]
fn nested_checkpoints_are_flattened_and_their_numbers_are_metadata() {
    let weights = compared("torch/nested.pt");
    assert_eq!(weights.shape("model.weight"), Some(&[3, 4][..]));
    assert!(weights.get("optimiser.state.0.exp_avg").is_some() && weights.get("list.1.deep").is_some());
    let metadata = |key: &str| weights.metadata().get(key).map(String::as_str);
    assert_eq!(metadata("epoch"), Some("3"));
    assert_eq!(metadata("rate"), Some("0.25"));
    assert_eq!(metadata("note"), Some("naïve"));
    assert_eq!(metadata("done"), Some("true"));
    assert_eq!(metadata("shape.1"), Some("3"));
    assert_eq!(metadata("nothing"), None);
}

#[test]
fn pytorch_shards_are_one_model() {
    let weights = compared("torch/shards");
    assert_eq!(weights.get("b").map(|view| view.dtype()), Some(Dtype::F16));
}

#[test]
fn gguf_numbers_of_every_type_are_the_references_bit_for_bit() {
    let weights = compared("gguf/all.gguf");
    for quant in Quant::ALL.into_iter().filter(|&quant| quant != Quant::Int4) {
        let name = format!("random.{}", quant.name());
        let view = weights.require(&name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(view.dtype(), Dtype::Blocks(quant), "{name}");
        let blocks = view.blocks().expect("it is stored in blocks");
        assert_eq!((blocks.quant, blocks.per_row), (quant, view.shape()[1] / quant.numbers()), "{name}");
        assert!(matches!(blocks.bytes, Cow::Borrowed(_)), "{name} was copied");
        assert_eq!(blocks.bytes.len(), view.shape()[0] * blocks.per_row * quant.bytes(), "{name}");
        let (widened, values) = (quant.widen(&blocks.bytes), view.values());
        assert!(widened.iter().zip(&*values).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
    }
    let plain = weights.get("plain.float32").expect("it is there");
    assert_eq!(plain.shape(), [2, 3, 5]);
    assert!(plain.blocks().is_none() && matches!(plain.bytes(), Some(Cow::Borrowed(_))));
    assert_eq!(
        weights.get("plain.int64").and_then(|view| view.integers()).map(|numbers| numbers.len()),
        Some(30)
    );
}

#[test]
fn gguf_entries_of_every_kind_are_read_where_they_lie() {
    let weights = Weights::open(fixture("gguf/all.gguf")).expect("it is a fixture");
    let gguf = weights.gguf().expect("it is GGUF");
    assert_eq!(gguf.version(), 3);
    assert_eq!(gguf.string("general.architecture"), Some("llama"));
    assert_eq!(gguf.u32("general.alignment"), Some(64));
    assert_eq!(
        [gguf.u32("kind.u8"), gguf.u32("kind.u16"), gguf.u32("kind.u32")],
        [Some(255), Some(65535), Some(u32::MAX)]
    );
    assert_eq!(
        [gguf.u32("kind.i8"), gguf.u32("kind.u64"), gguf.u32("kind.f32"), gguf.u32("absent")],
        [None; 4]
    );
    assert_eq!([gguf.i64("kind.i8"), gguf.i64("kind.i16")], [Some(-128), Some(-32768)]);
    assert_eq!([gguf.i64("kind.i32"), gguf.i64("kind.i64")], [Some(i32::MIN.into()), Some(i64::MIN)]);
    assert_eq!([gguf.u64("kind.u64"), gguf.u64("kind.i64")], [Some(u64::MAX), None]);
    assert_eq!(
        [gguf.f32("kind.f32"), gguf.f32("kind.f64"), gguf.f32("kind.u8")],
        [Some(0.1), Some(0.1), None]
    );
    assert_eq!([gguf.bool("kind.bool"), gguf.bool("kind.u8")], [Some(true), None]);
    assert_eq!([gguf.string("kind.string"), gguf.string("kind.u8")], [Some("naïve 中文"), None]);
    assert_eq!(gguf.strings("list.strings"), Some(vec!["a", "", "中文", "<|end|>"]));
    assert_eq!(gguf.byte_strings("list.strings").map(|texts| texts[2]), Some("中文".as_bytes()));
    assert_eq!(gguf.i32s("list.i32"), Some(vec![1, -2, 3]));
    assert_eq!(gguf.f32s("list.f32"), Some(vec![0.5, -1.5]));
    assert_eq!(gguf.bools("list.bool"), Some(vec![true, false]));
    assert!(gguf.contains("list.nested") && gguf.i32s("list.nested").is_none());
    assert_eq!(
        (gguf.strings("list.i32"), gguf.string("list.strings"), gguf.strings("kind.string")),
        (None, None, None)
    );
    assert!(gguf.keys().is_sorted() && gguf.keys().len() > 17);
    let metadata = |key: &str| weights.metadata().get(key).map(String::as_str);
    assert_eq!((metadata("kind.f32"), metadata("kind.bool")), (Some("0.1"), Some("true")));
    assert_eq!((metadata("kind.string"), metadata("list.i32")), (Some("naïve 中文"), None));
}

#[test]
fn one_part_of_a_split_gguf_stands_for_all() {
    for part in ["gguf/split-00001-of-00002.gguf", "gguf/split-00002-of-00002.gguf"] {
        let weights = Weights::open(fixture(part)).expect("both parts are there");
        compare(&weights, "gguf/split");
        assert_eq!(
            weights.gguf().and_then(|gguf| gguf.u32("split.no")),
            Some(0),
            "the first part speaks for the model"
        );
    }
    let folder = folder("split");
    let copy = |from: &str, to: &str| {
        fs::copy(fixture(from), folder.join(to)).expect("it can be copied");
    };
    copy("gguf/split-00001-of-00002.gguf", "a-00001-of-00002.gguf");
    let error = Weights::open(&folder).expect_err("the second part is missing").to_string();
    assert!(error.contains("a-00002-of-00002.gguf"), "{error}");
    copy("gguf/split-00002-of-00002.gguf", "a-00002-of-00002.gguf");
    compare(&Weights::open(&folder).expect("a folder with one split model"), "gguf/split");
    copy("gguf/split-00001-of-00002.gguf", "b.gguf");
    let error = Weights::open(&folder).expect_err("two models").to_string();
    assert!(error.contains("several .gguf files: a-00001-of-00002.gguf, "), "{error}");
    let error = Weights::open(folder.join("b.gguf")).expect_err("it is a part").to_string();
    assert!(error.contains("one part of a model"), "{error}");
}

#[test]
fn ctranslate2_variables_are_read_and_scaled() {
    for (quantisation, dtype) in
        [("int8", Dtype::I8), ("int16", Dtype::I16), ("float16", Dtype::F16), ("bfloat16", Dtype::Bf16)]
    {
        let weights = compared(&format!("ctranslate2/{quantisation}"));
        let model = weights.ctranslate2().expect("it is CTranslate2");
        assert_eq!((model.spec(), model.revision()), ("TransformerSpec", 7));
        let weight = weights.require("encoder/layer_0/ffn/linear_0/weight").expect("it is there");
        assert_eq!(weight.dtype(), dtype);
        let scaled = weight.row_scales().map(|scales| scales.len());
        assert_eq!(scaled, matches!(dtype, Dtype::I8 | Dtype::I16).then_some(8), "{quantisation}");
        assert_eq!(weight.bytes().map(|bytes| bytes.len()), Some(8 * 6 * dtype.bytes()));
        assert_eq!(weight.integers().is_some(), scaled.is_some());
        let tokens = model.vocabulary("shared_vocabulary").expect("it can be read").expect("it is there");
        assert_eq!((tokens.len(), tokens[6].as_str()), (9, "中"));
        assert_eq!(model.vocabulary("source_vocabulary").expect("nothing is wrong"), None);
        let config = model.config().expect("it can be read").expect("it is there");
        assert_eq!(config["bos_token"], "<s>");
        let (alias, name) = model.aliases().first_key_value().expect("the embeddings are shared");
        assert_eq!(weights.get(alias).map(|view| view.values()), weights.get(name).map(|view| view.values()));
    }
}

#[test]
fn a_vocabulary_may_be_lines_of_text() {
    let folder = folder("lines");
    fs::copy(fixture("ctranslate2/int8/model.bin"), folder.join("model.bin")).expect("it can be copied");
    fs::write(folder.join("source_vocabulary.txt"), "<s>\n中\n").expect("it can be written");
    fs::write(folder.join("target_vocabulary.json"), "{}").expect("it can be written");
    let weights = Weights::open(&folder).expect("it can be opened");
    let model = weights.ctranslate2().expect("it is CTranslate2");
    let tokens = model.vocabulary("source_vocabulary").expect("it can be read");
    assert_eq!(tokens, Some(vec!["<s>".into(), "中".into()]));
    let error = model.vocabulary("target_vocabulary").expect_err("it is no list").to_string();
    assert!(error.contains("target_vocabulary.json"), "{error}");
    assert_eq!(model.config().expect("nothing is wrong"), None);
}

#[test]
fn the_content_of_a_file_decides_not_its_name() {
    let folder = folder("renamed");
    for (from, to) in
        [("torch/zip.pt", "zip.safetensors"), ("torch/old.pt", "old.gguf"), ("gguf/all.gguf", "all.bin")]
    {
        fs::copy(fixture(from), folder.join(to)).expect("it can be copied");
        compare(&Weights::open(folder.join(to)).unwrap_or_else(|error| panic!("{error}")), from);
    }
    fs::copy(fixture("gguf/all.gguf"), folder.join("pytorch_model.bin")).expect("it can be copied");
    assert!(Weights::open(&folder).expect("it can be opened").gguf().is_some());
}
