//! What is said of an architecture that is not known.

use glassformer_families::{Config, Layout, known, nearest};
use serde_json::{Map, Value, json};

fn refused(model_type: &Value) -> String {
    let config: Map<String, Value> = Map::from_iter([("model_type".to_owned(), model_type.clone())]);
    Layout::of_config(config).expect_err("it is not known").to_string()
}

/// The nearest known name of whisper was said to be albert.
#[test]
fn a_name_is_suggested_only_where_it_is_near() {
    for (name, near) in
        [("berd", "bert"), ("gpt3", "gpt2"), ("xlm_roberta", "xlm-roberta"), ("gpt-neox", "gpt_neox")]
    {
        assert_eq!(nearest(known(), name), Some(near));
        assert!(refused(&json!(name)).ends_with(&format!("the nearest known one is {near:?}")));
    }
    for name in ["whisper", "clip", "phi", "vit", "bloom", "falcon", "wav2vec2", "x", ""] {
        assert_eq!(nearest(known(), name), None, "{name}");
        assert_eq!(refused(&json!(name)), format!("the architecture {name:?} is not known"));
    }
}

/// The nearest known name of `WhisperModel` was said to be `BertModel`, and that of a head of MPNet `RobertaModel`.
#[test]
fn a_head_that_a_family_does_not_have_is_answered_with_those_that_it_has() {
    let refused = |kind: &str, head: &str| {
        let config = json!({"model_type": kind, "architectures": [head]});
        Layout::of_config(config.as_object().cloned().expect("it is one")).expect_err(head).to_string()
    };
    let bert = refused("bert", "WhisperModel");
    assert!(!bert.contains("nearest"), "{bert}");
    assert!(
        bert.contains("architectures is \"WhisperModel\", and should be BertModel, BertForMaskedLM, "),
        "{bert}"
    );
    let mpnet = refused("mpnet", "MPNetForMultipleChoice");
    assert!(mpnet.contains("should be MPNetModel, MPNetForMaskedLM, "), "{mpnet}");
}

#[test]
fn a_configuration_that_names_no_architecture_says_so() {
    let error = Layout::of_config(Map::new()).expect_err("it names none").to_string();
    assert_eq!(error, "config.json: model_type is missing");
    assert_eq!(refused(&json!(3)), "config.json: model_type is 3, and should be text");
}

#[test]
fn no_message_names_a_type_of_this_program() {
    for text in ["[]", "3", "{", "null", "\"x\""] {
        let error = Config::parse(text).expect_err(text).to_string();
        assert!(!["struct", "usize", "Map"].iter().any(|name| error.contains(name)), "{error}");
    }
}
