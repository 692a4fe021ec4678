//! Keys of published configurations: those that say what a family does anyway are read, and those that are missing mean what
//! they mean there.

mod common;

use glassformer_families::Layout;
use glassformer_formula::Formula;
use serde_json::{Map, Value, json};

/// The formula of a fixture whose configuration is changed.
fn formula(fixture: &str, change: impl Fn(&mut Map<String, Value>)) -> Result<Formula, String> {
    let path = common::fixtures("hf").join(fixture).join("config.json");
    let text = std::fs::read_to_string(path).expect("it is a fixture");
    let mut config = serde_json::from_str(&text).expect("it is an object");
    change(&mut config);
    Layout::of_config(config).map(|layout| layout.formula().clone()).map_err(|error| error.to_string())
}

fn with(fixture: &str, more: &Value) -> Result<Formula, String> {
    formula(fixture, |config| config.extend(more.as_object().cloned().unwrap_or_default()))
}

/// As in `bart-large`, `mbart-large-cc25`, `pegasus-xsum`, `opus-mt`, `longformer-base-4096`, `Qwen2.5-0.5B` and `ModernBERT-base`.
#[test]
fn keys_that_say_what_a_family_does_anyway_are_understood() {
    let cases = [
        ("bart", json!({"add_bias_logits": false, "add_final_layer_norm": false, "normalize_before": false})),
        ("bart", json!({"normalize_embedding": true, "force_bos_token_to_be_generated": true})),
        ("mbart", json!({"add_bias_logits": false, "add_final_layer_norm": true, "normalize_before": true})),
        ("mbart", json!({"normalize_embedding": true, "static_position_embeddings": false})),
        ("pegasus", json!({"add_bias_logits": false, "add_final_layer_norm": true})),
        ("pegasus", json!({"normalize_before": true, "normalize_embedding": false})),
        ("pegasus", json!({"static_position_embeddings": true, "force_bos_token_to_be_generated": false})),
        ("marian", json!({"add_bias_logits": false, "add_final_layer_norm": false})),
        ("marian", json!({"normalize_before": false, "normalize_embedding": false})),
        ("marian", json!({"static_position_embeddings": true, "force_bos_token_to_be_generated": false})),
        ("longformer", json!({"attention_mode": "longformer", "ignore_attention_mask": false})),
        ("qwen2", json!({"use_mrope": false})),
        ("modernbert-mlm", json!({"layer_norm_eps": 1e-3, "position_embedding_type": "absolute"})),
    ];
    for (fixture, more) in cases {
        assert_eq!(with(fixture, &more), with(fixture, &json!({})), "{fixture} with {more}");
    }
}

#[test]
fn keys_that_say_what_a_family_does_not_do_are_refused() {
    let cases = [
        ("bart", "normalize_before", json!(true)),
        ("mbart", "normalize_before", json!(false)),
        ("mbart", "add_final_layer_norm", json!(false)),
        ("pegasus", "normalize_embedding", json!(true)),
        ("marian", "add_bias_logits", json!(true)),
        ("longformer", "attention_mode", json!("n2")),
        ("qwen2", "use_mrope", json!(true)),
        // Rules were made for each cut before they were counted: five for each, in a file of two megabytes.
        ("transfo-xl", "cutoffs", json!(vec![1; 65])),
    ];
    for (fixture, key, value) in cases {
        let refused = with(fixture, &json!({key: value})).expect_err(fixture);
        assert!(refused.contains(key), "{fixture}: {refused}");
    }
}

/// The model was silently another: M2M100 had GELU and embeddings as they are, Mistral saw all, and ALBERT had BERT's GELU.
#[test]
fn keys_that_are_missing_mean_what_the_reference_takes() {
    let cases = [
        ("m2m100", "activation_function", json!("relu")),
        ("m2m100", "scale_embedding", json!(true)),
        ("mbart", "activation_function", json!("gelu")),
        ("mbart", "scale_embedding", json!(false)),
        ("mistral", "sliding_window", json!(4096)),
        ("albert-mlm", "hidden_act", json!("gelu_new")),
        ("bert-mlm", "hidden_act", json!("gelu")),
    ];
    for (fixture, key, meant) in cases {
        let missing = formula(fixture, |config| _ = config.remove(key));
        assert_eq!(missing, with(fixture, &json!({key: meant})), "{fixture} without {key}");
    }
    let all = with("mistral", &json!({"sliding_window": null}));
    assert_ne!(all, with("mistral", &json!({"sliding_window": 4096})), "null is no window");
}
