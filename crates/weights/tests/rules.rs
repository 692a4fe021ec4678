//! Rules: names, cuts and layouts, on every kind of storage.

mod common;

use std::borrow::Cow;
use std::fs;

use common::build::{gguf, listed};
use common::{fixture, folder};
use glassformer_tensor::Tensor;
use glassformer_weights::{Error, Pairing, Rules, Weights};

/// Weights in memory whose numbers count up from zero.
fn counting(tensors: &[(&str, &[usize])]) -> Weights {
    let tensor = |shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        Tensor::new(shape, (0..count).map(|n| n as f32).collect()).expect("as many numbers as the shape says")
    };
    Weights::from_tensors(tensors.iter().map(|(name, shape)| ((*name).to_owned(), tensor(shape))))
}

fn values(weights: &Weights, name: &str) -> Vec<f32> {
    weights.require(name).unwrap_or_else(|error| panic!("{error}")).values().into_owned()
}

#[test]
fn a_fused_transposed_matrix_becomes_three() {
    // GPT-2: [in, 3 · out], here 2 and 3 · 2.
    let weights = counting(&[("h.0.attn.weight", &[2, 6]), ("h.0.attn.bias", &[6])]);
    let rules = Rules::new()
        .transpose("h.*.attn.weight")
        .split("h.*.attn.**", ["layer.*.query.**", "layer.*.key.**", "layer.*.value.**"]);
    let new = weights.remap(&rules).expect("it can be done").weights;
    assert_eq!(new.len(), 6);
    assert_eq!(new.shape("layer.0.key.weight"), Some(&[2, 2][..]));
    assert_eq!(values(&new, "layer.0.query.weight"), [0.0, 6.0, 1.0, 7.0]);
    assert_eq!(values(&new, "layer.0.key.weight"), [2.0, 8.0, 3.0, 9.0]);
    assert_eq!(values(&new, "layer.0.value.bias"), [4.0, 5.0]);
}

#[test]
fn parts_that_lie_together_are_not_copied() {
    let weights = counting(&[("qkv", &[6, 3])]);
    let new = weights.remap(&Rules::new().split("qkv", ["q", "k", "v"])).expect("it can be done").weights;
    for (name, first) in [("q", 0.0), ("k", 6.0), ("v", 12.0)] {
        let values = new.get(name).expect("it is there").values();
        assert!(matches!(values, Cow::Borrowed(_)) && values[0] == first, "{name}");
    }
}

#[test]
fn interleaved_heads_are_dealt_out() {
    // GPT-NeoX: [heads, (query, key, value), size], here 2, 3 and 2 rows of one number.
    let weights = counting(&[("query_key_value", &[12, 1])]);
    let rules = Rules::new().split_groups("query_key_value", 2, &[("q", 1), ("k", 1), ("v", 1)]);
    let new = weights.remap(&rules).expect("it can be done").weights;
    assert_eq!(values(&new, "q"), [0.0, 1.0, 6.0, 7.0]);
    assert_eq!(values(&new, "k"), [2.0, 3.0, 8.0, 9.0]);
    assert_eq!(values(&new, "v"), [4.0, 5.0, 10.0, 11.0]);
    // Grouped heads: two queries for each key and value.
    let weights = counting(&[("wqkv", &[8])]);
    let rules = Rules::new().split_groups("wqkv", 2, &[("q", 2), ("k", 1), ("v", 1)]);
    let new = weights.remap(&rules).expect("it can be done").weights;
    assert_eq!(values(&new, "q"), [0.0, 1.0, 4.0, 5.0]);
    assert_eq!(values(&new, "v"), [3.0, 7.0]);
}

#[test]
fn rotary_rows_change_between_neighbours_and_halves() {
    let weights = counting(&[("q", &[8, 1])]);
    let to = |weights: &Weights, pairing| {
        let rules = Rules::new().keep("q").rotary("q", 2, pairing);
        weights.remap(&rules).expect("it can be done").weights
    };
    let halves = to(&weights, Pairing::Halves);
    assert_eq!(values(&halves, "q"), [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    assert_eq!(values(&to(&halves, Pairing::Neighbours), "q"), values(&weights, "q"));
    // As the conversion to GGUF does it: reshape (heads, 2, 3), exchange, reshape.
    let weights = counting(&[("q", &[6])]);
    let rules = Rules::new().keep("q").rotary("q", 1, Pairing::Neighbours);
    let new = weights.remap(&rules).expect("it can be done").weights;
    assert_eq!(values(&new, "q"), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}

#[test]
fn a_constant_is_added_when_the_values_are_read() {
    let weights = counting(&[("norm", &[3])]);
    let new = weights.remap(&Rules::new().keep("norm").add("norm", 1.0)).expect("it can be done").weights;
    assert_eq!(values(&new, "norm"), [1.0, 2.0, 3.0]);
    assert_eq!(values(&weights, "norm"), [0.0, 1.0, 2.0]);
}

#[test]
fn a_tie_is_a_second_name_and_wins_over_a_first() {
    let weights = counting(&[("embed", &[2, 2]), ("head", &[1])]);
    let rules = Rules::new().keep("**").tie("embed", "head");
    let remapped = weights.remap(&rules).expect("it can be done");
    assert_eq!(remapped.weights.shape("head"), Some(&[2, 2][..]));
    assert_eq!(
        (remapped.used, remapped.dropped, remapped.left),
        (vec!["embed".into()], vec!["head".into()], vec![])
    );
}

#[test]
fn a_tensor_that_only_a_tie_names_is_used_and_not_left_over() {
    let weights = counting(&[("a", &[2])]);
    let remapped = weights.remap(&Rules::new().tie("a", "b")).expect("it can be done");
    assert_eq!(remapped.weights.names().collect::<Vec<_>>(), ["b"]);
    assert_eq!((remapped.used, remapped.left), (vec!["a".into()], vec![]));
}

#[test]
fn what_no_rule_is_for_is_left_over_and_reported() {
    let weights = counting(&[("a.w", &[1]), ("a.mask", &[1]), ("b.w", &[2]), ("c", &[1])]);
    let rules = Rules::new().drop("*.mask").rename("a.*", "x.*").split("b.w", ["y.0", "y.1"]).transpose("c");
    let error = weights.remap(&rules).expect_err("one dimension cannot be transposed");
    assert!(matches!(error, Error::Rule { .. }), "{error}");
    let rules = Rules::new().drop("*.mask").rename("a.*", "x.*").split("b.w", ["y.0", "y.1"]).add("c", 1.0);
    let remapped = weights.remap(&rules).expect("it can be done");
    assert_eq!(remapped.weights.names().collect::<Vec<_>>(), ["x.w", "y.0", "y.1"]);
    assert_eq!((remapped.used, remapped.dropped), (vec!["a.w".into(), "b.w".into()], vec!["a.mask".into()]));
    assert_eq!(remapped.left, ["c"], "it was changed, but nothing named it");
}

#[test]
fn rules_that_cannot_be_followed_say_why() {
    let weights = counting(&[("a", &[5, 2]), ("b", &[5, 2])]);
    let cases: [(Rules, &str); 8] = [
        (Rules::new().rename("*", "same"), "\"a\" made another tensor \"same\""),
        (Rules::new().keep("b").rename("a", "b"), "there already is a tensor \"b\""),
        (Rules::new().rename("a", "x.*"), "more marks than the pattern"),
        (Rules::new().split("a", ["x", "y"]), "not 1 groups of 2 shares"),
        (Rules::new().split_groups("a", 0, &[("x", 1)]), "not 0 groups"),
        (Rules::new().split_groups("a", usize::MAX, &[("x", 2)]), "groups of 2 shares"),
        (Rules::new().rotary("a", 1, Pairing::Halves), "not 1 heads of pairs"),
        (Rules::new().rotary("a", 0, Pairing::Neighbours), "not 0 heads of pairs"),
    ];
    for (rules, words) in cases {
        let error = weights.remap(&rules).expect_err(words).to_string();
        assert!(error.contains(words) && error.contains("check that the rules"), "{error}");
    }
    let none = weights.remap(&Rules::new()).expect("no rules cannot fail");
    assert!(none.weights.is_empty() && none.left == ["a", "b"]);
}

#[test]
fn blocks_stay_blocks_where_rows_move_and_become_numbers_where_columns_do() {
    // Eight rows of two Q8_0 blocks, as a query of two heads. Some scales are NaN, so bits are compared.
    let path = folder("blocks").join("rows.gguf");
    fs::write(&path, gguf(&[], &[listed("q", &[64, 8], 8, 0)], 8 * 2 * 34)).expect("it can be written");
    let weights = Weights::open(&path).expect("it is good");
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let before = bits(&weights.require("q").expect("it is there").values());
    let rows = |order: &[usize]| {
        order.iter().flat_map(|row| before[row * 64..(row + 1) * 64].to_vec()).collect::<Vec<_>>()
    };
    let rules = Rules::new()
        .tie("q", "halves")
        .rotary("halves", 2, Pairing::Halves)
        .tie("q", "turned")
        .transpose("turned");
    let new = weights
        .remap(&rules.split_groups("q", 2, &[("first", 1), ("second", 1)]))
        .expect("it can be done")
        .weights;
    for (name, order) in
        [("halves", &[0, 2, 1, 3, 4, 6, 5, 7][..]), ("first", &[0, 1, 4, 5]), ("second", &[2, 3, 6, 7])]
    {
        let view = new.require(name).expect("it is there");
        assert!(bits(&view.values()) == rows(order), "{name}");
        let blocks = view.blocks().expect("rows are whole blocks");
        assert!(blocks.per_row == 2 && bits(&blocks.quant.widen(&blocks.bytes)) == rows(order), "{name}");
    }
    let turned = new.require("turned").expect("it is there");
    assert_eq!(turned.shape(), [64, 8]);
    assert!(turned.blocks().is_none() && turned.bytes().is_none());
    let values = bits(&turned.values());
    assert!((0..64).all(|column| (0..8).all(|row| values[column * 8 + row] == before[row * 64 + column])));
}

#[test]
fn scales_follow_their_rows() {
    let weights = Weights::open(fixture("ctranslate2/int8")).expect("it is a fixture");
    let name = "encoder/layer_0/ffn/linear_0/weight"; // [8, 6]
    let before = weights.require(name).expect("it is there");
    let (values, scales) = (before.values(), before.row_scales().expect("it has scales"));
    let rules = Rules::new()
        .tie(name, "turned")
        .transpose("turned")
        .tie(name, "rows")
        .rotary("rows", 2, Pairing::Halves)
        .split("rows", ["upper", "lower"]);
    let new = weights.remap(&rules).expect("it can be done").weights;
    let lower = new.require("lower").expect("it is there");
    let order = [4, 6, 5, 7];
    assert_eq!(
        *lower.values(),
        order.iter().flat_map(|row| values[row * 6..(row + 1) * 6].to_vec()).collect::<Vec<_>>()
    );
    assert_eq!(lower.row_scales(), Some(order.map(|row| scales[row]).to_vec()));
    assert_eq!(lower.integers().map(|numbers| numbers.len()), Some(24));
    let turned = new.require("turned").expect("it is there");
    let found = turned.values();
    assert!((0..6).all(|column| (0..8).all(|row| found[column * 8 + row] == values[row * 6 + column])));
    assert_eq!(turned.row_scales(), None);
}

#[test]
fn remapped_weights_still_know_where_they_came_from() {
    let weights = Weights::open(fixture("gguf/all.gguf")).expect("it is a fixture");
    let new = weights.remap(&Rules::new().rename("plain.*", "*")).expect("it can be done");
    assert_eq!(new.weights.gguf().and_then(|gguf| gguf.string("general.architecture")), Some("llama"));
    assert!(new.weights.get("vector").is_some() && new.left.iter().all(|name| !name.starts_with("plain.")));
    drop(weights);
    assert_eq!(values(&new.weights, "vector"), [0.0, 1.0, 2.0, 3.0, 4.0], "the file stays mapped");
}
