//! Keys of published configurations: those that say what a family does anyway are read, and those that are missing mean what
//! they mean there.

use glassformer_families::Layout;
use glassformer_formula::Formula;
use serde_json::{Map, Value, json};

/// The formula of a fixture whose configuration is changed.
fn formula(fixture: &str, change: impl Fn(&mut Map<String, Value>)) -> Result<Formula, String> {
    let path = crate::common::fixtures("hf").join(fixture).join("config.json");
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
        // Old keys beside new ones, which count more.
        ("modernbert-mlm", json!({"global_rope_theta": 5.0, "local_rope_theta": 7.0})),
        ("gpt2", json!({"vocab_size_or_config_json_file": 3, "_flash_attn_2_enabled": true})),
        ("modernbert-mlm", json!({"layer_norm_eps": 1e-3, "position_embedding_type": "absolute"})),
        // What other programs write into configurations: converters, trainers, browsers.
        ("llama", json!({"is_llama_config": true, "rope_interleaved": false, "max_sequence_length": 9})),
        ("llama", json!({"transformers.js_config": {"dtype": "q4"}, "is_causal": true})),
        ("llama", json!({"unsloth_version": "1", "unsloth_fixed": true, "neftune_noise_alpha": 5})),
        ("llama", json!({"layer_types": ["full_attention", "full_attention"]})),
        ("mistral", json!({"use_sliding_window": false, "max_window_layers": 28, "attention_bias": true})),
        ("qwen2", json!({"attention_bias": false})),
        ("gpt-neox", json!({"partial_rotary_factor": 1.0, "rotary_pct": 0.5, "rope_theta": 5.0})),
        ("mt5", json!({"scale_decoder_outputs": true})),
        ("gemma", json!({"hidden_activation": "relu"})),
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
        ("llama", "rope_interleaved", json!(true)),
        ("llama", "is_causal", json!(false)),
        ("llama", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("llama", "layer_types", json!(["full_attention", "chunked_attention"])),
        ("qwen2", "layer_types", json!(["full_attention", "chunked_attention"])),
        ("qwen2", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("qwen2", "layer_types", json!(["full_attention"])),
        ("modernbert-mlm", "layer_types", json!(["full_attention"])),
        ("modernbert-mlm", "rope_parameters", json!({"rope_type": "default", "rope_theta": 5.0})),
        ("t5", "is_gated_act", json!(true)),
        // Rules were made for each cut before they were counted: five for each, in a file of two megabytes.
        ("transfo-xl", "cutoffs", json!(vec![1; 65])),
    ];
    for (fixture, key, value) in cases {
        let refused = with(fixture, &json!({key: value})).expect_err(fixture);
        assert!(refused.contains(key), "{fixture}: {refused}");
    }
}

/// The model was silently another: M2M100 had GELU and embeddings as they are, Mistral saw all, and ALBERT had BERT's GELU.
/// A number was passed over, and the model ran without any scaling.
#[test]
fn rotary_parameters_that_are_no_object_are_refused() {
    let error = with("llama", &json!({"rope_scaling": 5})).expect_err("it is a number");
    assert_eq!(error, "config.json: rope_scaling is 5, and should be an object");
}

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
        ("mistral", "num_key_value_heads", json!(8)),
        ("qwen2", "num_key_value_heads", json!(32)),
        ("qwen3", "num_key_value_heads", json!(32)),
        ("gemma", "num_key_value_heads", json!(16)),
        ("qwen3", "head_dim", json!(128)),
        ("gemma", "head_dim", json!(256)),
        ("gemma", "hidden_act", json!("gelu_pytorch_tanh")),
        ("qwen2-sliding", "sliding_window", json!(4096)),
        ("llama", "num_key_value_heads", json!(3)),
        ("roberta-mlm", "max_position_embeddings", json!(512)),
        ("roberta-mlm", "type_vocab_size", json!(2)),
        ("longformer", "type_vocab_size", json!(2)),
        ("mpnet-mlm", "max_position_embeddings", json!(512)),
        ("bart-classes", "id2label", json!({"0": "a", "1": "b", "2": "c"})),
        ("mt5", "feed_forward_proj", json!("gated-gelu")),
    ];
    for (fixture, key, meant) in cases {
        let missing = formula(fixture, |config| _ = config.remove(key));
        assert_eq!(missing, with(fixture, &json!({key: meant})), "{fixture} without {key}");
    }
    let all = with("mistral", &json!({"sliding_window": null}));
    assert_ne!(all, with("mistral", &json!({"sliding_window": 4096})), "null is no window");
}

/// What `more` makes of a fixture is what `same` makes of it.
fn equals(fixture: &str, more: &Value, same: &Value) {
    let (found, wanted) = (with(fixture, more), with(fixture, same));
    assert_eq!(found, wanted, "{fixture} with {more}");
    assert!(found.is_ok(), "{fixture} with {more}: {found:?}");
}

/// The new key hid the old one, an empty one too; the inner number of positions hid the outer one; and a base that GPT-NeoX does
/// not know turned its angles.
#[test]
fn angles_are_those_that_the_reference_takes_of_several() {
    let linear = json!({"rope_type": "linear", "factor": 4.0});
    let yarn = |more: Value| {
        let mut all = json!({"rope_type": "yarn", "factor": 4.0});
        all.as_object_mut().expect("it is one").extend(more.as_object().cloned().unwrap_or_default());
        json!({"rope_parameters": all})
    };
    let both = json!({"rope_scaling": linear, "rope_parameters": {"rope_type": "default", "rope_theta": 7.0}, "rope_theta": 9.0});
    equals(
        "llama",
        &both,
        &json!({"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 9.0}}),
    );
    equals(
        "llama",
        &json!({"rope_parameters": {}, "rope_scaling": linear}),
        &json!({"rope_parameters": linear}),
    );
    let mut outer = yarn(json!({"original_max_position_embeddings": 8}));
    outer["original_max_position_embeddings"] = json!(16);
    equals("llama", &outer, &yarn(json!({"original_max_position_embeddings": 16})));
    equals("llama", &yarn(json!({"truncate": null})), &yarn(json!({"truncate": false})));
    assert_ne!(with("llama", &yarn(json!({"truncate": null}))), with("llama", &yarn(json!({}))));
    let neox = |more: &Value| {
        formula("gpt-neox-legacy", |config| {
            config.remove("rotary_pct");
            config.remove("rotary_emb_base");
            config.extend(more.as_object().cloned().unwrap_or_default());
        })
    };
    assert_eq!(neox(&json!({"rope_theta": 5.0})), neox(&json!({"rotary_emb_base": 10_000})));
    let inner = json!({"rope_scaling": {"rope_type": "default", "rope_theta": 7.0, "partial_rotary_factor": 0.5}, "rotary_pct": 0.25, "rotary_emb_base": 8.0});
    assert_eq!(neox(&inner), neox(&json!({"rotary_pct": 0.5, "rotary_emb_base": 7.0})));
    let outer =
        json!({"rope_parameters": {"rope_type": "default"}, "rotary_pct": 0.5, "rotary_emb_base": 8.0});
    assert_eq!(neox(&outer), neox(&json!({"rotary_pct": 0.5, "rotary_emb_base": 8.0})));
}

/// All were taken for LLaMA's 2048.
#[test]
fn positions_that_are_missing_are_the_familys_own() {
    for (fixture, meant) in
        [("llama", 2048), ("mistral", 131_072), ("qwen2", 32_768), ("qwen3", 32_768), ("gemma", 8192)]
    {
        let scaled = |positions: Option<usize>| {
            formula(fixture, |config| {
                config.remove("max_position_embeddings");
                config.extend(
                    positions.map(|positions| ("max_position_embeddings".to_owned(), json!(positions))),
                );
                config.insert("rope_parameters".to_owned(), json!({"rope_type": "dynamic", "factor": 2.0}));
            })
        };
        assert_eq!(scaled(None), scaled(Some(meant)), "{fixture}");
        assert_ne!(scaled(None), scaled(Some(meant + 1)), "{fixture}");
    }
}

#[test]
fn gpt2_knows_the_names_that_others_have_for_its_sizes() {
    let renamed = formula("gpt2", |config| {
        let names = [
            ("n_embd", "hidden_size"),
            ("n_head", "num_attention_heads"),
            ("n_layer", "num_hidden_layers"),
            ("n_positions", "max_position_embeddings"),
        ];
        for (own, other) in names {
            let value = config.remove(own).expect(own);
            config.insert(other.to_owned(), value);
        }
    });
    assert_eq!(renamed, with("gpt2", &json!({})));
}

/// Gemma was always bent by the tanh form, and T5 by what `feed_forward_proj` implies.
#[test]
fn activations_are_those_that_the_reference_takes() {
    equals("gemma", &json!({"hidden_act": "gelu"}), &json!({"hidden_act": "gelu_pytorch_tanh"}));
    let acts = |fixture: &str, key: &str| {
        ["relu", "silu"].map(|act| with(fixture, &json!({key: act})).expect(fixture))
    };
    for (fixture, key) in [("gemma", "hidden_act"), ("t5", "dense_act_fn")] {
        let [one, other] = acts(fixture, key);
        assert_ne!(one, other, "{fixture}");
    }
    equals(
        "mt5",
        &json!({"dense_act_fn": "silu"}),
        &json!({"feed_forward_proj": "gated-silu", "dense_act_fn": null}),
    );
}

/// The formula's check refused a window that reaches nothing but the row itself.
#[test]
fn a_window_of_one_row_sees_the_row_itself() {
    let narrow = with("mistral", &json!({"sliding_window": 1})).expect("it is understood");
    narrow.check().expect("it can work");
}
