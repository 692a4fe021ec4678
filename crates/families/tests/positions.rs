//! Where a checkpoint's positions come from: stored tables, and tokens that are not counted.

use std::collections::BTreeMap;

use glassformer_families::{Checkpoint, Layout, from_parts, open};
use glassformer_formula::{Counting, Formula, Position};
use glassformer_tensor::Tensor;
use glassformer_weights::Weights;
use serde_json::{Map, Value, json};

fn fixture(name: &str) -> Checkpoint {
    open(crate::common::fixtures("hf").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn sides(formula: &Formula) -> Vec<&Position> {
    [&formula.source, &formula.target].into_iter().flatten().map(|side| &side.stack.position).collect()
}

fn of_config(config: Map<String, Value>) -> Result<Formula, String> {
    Layout::of_config(config).map(|layout| layout.formula().clone()).map_err(|error| error.to_string())
}

/// They were passed over, and computed anew: 4e-3 off in files of bf16, and as far as you like where they were changed.
#[test]
fn a_stored_table_counts_where_it_is_not_what_is_computed() {
    for name in ["marian-bf16", "marian-changed", "pegasus-bf16", "pegasus-f16"] {
        let checkpoint = fixture(name);
        for position in sides(checkpoint.model.formula()) {
            assert!(matches!(position, Position::Learned { max: 40, offset: 0, .. }), "{name}: {position:?}");
        }
    }
    for name in ["marian", "marian-legacy", "pegasus", "m2m100"] {
        let checkpoint = fixture(name);
        for position in sides(checkpoint.model.formula()) {
            assert!(matches!(position, Position::Sinusoidal { .. }), "{name}: {position:?}");
        }
    }
}

/// Where only one side has a table, the other is computed.
#[test]
fn each_side_has_its_own_table() {
    let folder = crate::common::fixtures("hf").join("marian-changed");
    let config = std::fs::read_to_string(folder.join("config.json")).expect("it is a fixture");
    let weights = Weights::open(&folder).expect("it opens");
    let tensors = weights.names().filter(|name| !name.contains("encoder.embed_positions"));
    let tensors: BTreeMap<String, Tensor> =
        tensors.filter_map(|name| Some((name.to_owned(), weights.get(name)?.to_f32()))).collect();
    let checkpoint = from_parts(&config, Weights::from_tensors(tensors)).expect("it opens");
    let [source, target] = sides(checkpoint.model.formula())[..] else { panic!("it has two sides") };
    assert!(matches!(source, Position::Sinusoidal { .. }) && matches!(target, Position::Learned { .. }));
}

/// M2M100 computes its positions whatever a file holds, as the reference does.
#[test]
fn a_family_that_computes_its_positions_takes_no_table() {
    let folder = crate::common::fixtures("hf").join("m2m100");
    let config = std::fs::read_to_string(folder.join("config.json")).expect("it is a fixture");
    let weights = Weights::open(&folder).expect("it opens");
    let mut tensors: BTreeMap<String, Tensor> =
        weights.names().filter_map(|name| Some((name.to_owned(), weights.get(name)?.to_f32()))).collect();
    tensors.insert("model.encoder.embed_positions.weights".to_owned(), Tensor::zeros(&[42, 24]));
    tensors.insert("model.decoder.embed_positions.weight".to_owned(), Tensor::zeros(&[42, 24]));
    let checkpoint = from_parts(&config, Weights::from_tensors(tensors)).expect("it opens");
    assert_eq!(checkpoint.model.formula(), fixture("m2m100").model.formula());
}

/// What is written of such a checkpoint has its table, and reads back as the same.
#[test]
fn a_stored_table_is_written_again() {
    let checkpoint = fixture("marian-changed");
    let layout = Layout::of_config(checkpoint.config.clone()).expect("it is known");
    let layout = layout.with_tables_of(checkpoint.model.formula());
    assert_eq!(layout.formula(), checkpoint.model.formula());
    let tensors = layout.tensors(|name| checkpoint.model.tensor(name)).expect("all can be written");
    assert!(tensors.contains_key("model.encoder.embed_positions.weight"));
    let config = Value::Object(layout.config().clone()).to_string();
    let again = from_parts(&config, Weights::from_tensors(tensors)).expect("it opens");
    assert_eq!(again.model.formula(), checkpoint.model.formula());
    for name in ["source.embed.positions", "target.embed.positions"] {
        assert_eq!(again.model.tensor(name), checkpoint.model.tensor(name), "{name}");
    }
}

/// All were counted, padding too.
#[test]
fn families_that_number_positions_by_padding_say_so() {
    let counting = |position: &Position| match position {
        Position::Learned { counting, offset, .. } | Position::Sinusoidal { counting, offset, .. } => {
            Some((*counting, *offset))
        }
        _ => None,
    };
    let cases = [
        ("roberta-mlm", Some(1)),
        ("roberta-padded-3", Some(3)),
        ("xlm-roberta-tags", Some(1)),
        ("camembert-mlm", Some(1)),
        ("longformer", Some(1)),
        ("mpnet", Some(1)),
        ("mpnet-padded", Some(1)), // its configuration says 3
        ("m2m100", Some(1)),
        ("bert", None),
        ("bart", None),
        ("marian", None),
        ("gpt2", None),
    ];
    for (name, padding) in cases {
        let checkpoint = fixture(name);
        for position in sides(checkpoint.model.formula()) {
            let found = position.parts().iter().find_map(counting).expect(name);
            match padding {
                Some(padding) => assert_eq!(found, (Counting::But(padding), padding as usize + 1), "{name}"),
                None => assert_eq!(found.0, Counting::Every, "{name}"),
            }
        }
    }
}

/// The buckets were as many as the configuration says, and padding was what it says.
#[test]
fn mpnet_has_its_own_buckets_and_padding() {
    let config = |more: Value| {
        let mut config: Map<String, Value> = Map::from_iter([("model_type".to_owned(), json!("mpnet"))]);
        config.extend(more.as_object().cloned().unwrap_or_default());
        of_config(config)
    };
    let usual = config(json!({}));
    assert!(usual.is_ok(), "{usual:?}");
    assert_eq!(config(json!({"pad_token_id": 3, "relative_attention_num_buckets": 40})), usual);
    let refused = config(json!({"relative_attention_num_buckets": 16})).expect_err("there are too few");
    assert!(refused.contains("relative_attention_num_buckets is 16"), "{refused}");
}
