//! Configurations as the reference's classes write them and have written them: all of their keys are understood, and keys that are
//! missing mean what those classes take. `fixtures/hf/configurations.py` wrote down what that is.

use glassformer_families::{Layout, known};
use glassformer_formula::Formula;
use serde_json::{Map, Value, json};

fn fixture() -> Map<String, Value> {
    let path = crate::common::fixtures("hf").join("configurations.json");
    let text = std::fs::read_to_string(path).expect("it is a fixture");
    serde_json::from_str(&text).expect("it is an object")
}

/// What the reference's class of `kind` writes where nothing is said, without null: that says nothing.
fn written(kind: &str) -> Map<String, Value> {
    fixture()[kind]["keys"].as_object().expect("keys").clone()
}

fn read(config: &Map<String, Value>) -> Result<Formula, String> {
    Layout::of_config(config.clone())
        .map(|layout| layout.formula().clone())
        .map_err(|error| error.to_string())
}

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("{value} is no object") };
    object
}

/// `n_heads` of DistilBERT, `num_heads` of mT5, `n_head` of GPT-2 and others were said to be missing.
#[test]
fn every_missing_key_means_what_the_reference_takes() {
    for kind in known() {
        let all = read(&written(kind)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let none = object(json!({"model_type": kind}));
        assert_eq!(read(&none).as_ref(), Ok(&all), "{kind} without any key");
        for key in written(kind).keys().filter(|key| *key != "model_type") {
            let mut config = written(kind);
            config.remove(key);
            let left = read(&config).unwrap_or_else(|error| panic!("{kind} without {key}: {error}"));
            assert_eq!(left, all, "{kind} without {key}");
        }
    }
}

/// Which keys count is seen where their values are others: all whole numbers of a formula, and what tells its kind.
#[test]
fn a_key_that_is_there_counts_and_not_the_default() {
    let cases = [
        ("distilbert", "n_heads", json!(6)),
        ("mt5", "num_heads", json!(2)),
        ("gpt2", "n_head", json!(6)),
        ("bart", "decoder_ffn_dim", json!(80)),
        ("marian", "scale_embedding", json!(true)),
        ("modernbert", "local_attention", json!(64)),
        ("transfo-xl", "d_embed", json!(512)),
        ("qwen3", "head_dim", json!(64)),
        ("llama", "num_key_value_heads", json!(8)),
    ];
    for (kind, key, value) in cases {
        let config = |value: Option<Value>| {
            let mut config = object(json!({"model_type": kind}));
            config.extend(value.map(|value| (key.to_owned(), value)));
            read(&config).unwrap_or_else(|error| panic!("{kind}: {error}"))
        };
        assert_ne!(config(Some(value)), config(None), "{kind}, {key}");
    }
}

/// Such names were refused, or passed over while the reference took them.
#[test]
fn the_other_name_of_a_key_counts() {
    for (kind, known) in fixture() {
        for (other, key) in object(known["other"].clone()) {
            let key = key.as_str().expect("a name");
            let (few, many) = match key {
                "vocab_size" => (300_000, 400_000),
                key if key.contains("head") => (2, 4),
                _ => (48, 96),
            };
            // T5's decoder would otherwise have as many layers as the first name alone says: it is asked before the other.
            let base = || {
                let mut base = object(json!({"model_type": kind}));
                base.extend((key == "num_layers").then(|| ("num_decoder_layers".to_owned(), json!(5))));
                base
            };
            let with = |name: &str| {
                let mut config = base();
                config.insert(name.to_owned(), json!(many));
                read(&config).unwrap_or_else(|error| panic!("{kind} with {name}: {error}"))
            };
            assert_eq!(with(&other), with(key), "{kind}: {other} for {key}");
            let mut both = base();
            both.extend([(key.to_owned(), json!(few)), (other.clone(), json!(many))]);
            assert_eq!(read(&both), Ok(with(key)), "{kind}: {other} wins over {key}");
        }
    }
    let t5 = |more: Value| {
        let mut config = object(json!({"model_type": "t5"}));
        config.extend(object(more));
        read(&config)
    };
    let (other, both) = (json!({"num_hidden_layers": 4}), json!({"num_layers": 4, "num_decoder_layers": 6}));
    assert_eq!(t5(other), t5(both));
}

/// Keys that the base class and those of the families wrote in releases from 1.0 on, with what they then said; and what lies in
/// files on hubs beside them. `"name": "Roberta"`, `"replacing_rate": 0` and others made readable models fail.
#[test]
fn keys_without_an_effect_are_passed_over() {
    let all = json!({
        "_auto_class": null, "_commit_hash": "0", "_name_or_path": "x", "_num_labels": 3, "add_cross_attention": false,
        "additional_special_tokens_ids": [5, 6], "architectures": null, "attn_implementation": "sdpa",
        "auto_map": {"AutoModel": "x.Y"}, "bad_words_ids": [[1]], "begin_suppress_tokens": [1], "bos_token_id": 0,
        "chunk_size_feed_forward": 4, "cls_token_id": 1, "cross_attention_hidden_size": 768,
        "custom_pipelines": {}, "decoder_start_token_id": 0, "diversity_penalty": 0.0,
        "do_blenderbot_90_layernorm": false, "do_sample": false, "dtype": "float16", "early_stopping": true,
        "encoder_no_repeat_ngram_size": 0, "eos_token_ids": 0, "exponential_decay_length_penalty": null,
        "finetuning_task": "mnli", "force_bos_token_to_be_generated": false, "forced_bos_token_id": 0,
        "forced_eos_token_id": 2, "gradient_checkpointing": true, "has_no_defaults_at_init": false,
        "initializer_factor": 1.0, "initializer_range": 0.02, "is_composition": false, "keys_to_ignore_at_inference": [],
        "language": "english", "length_penalty": 2.0, "max_length": 142, "max_new_tokens": 9, "min_length": 56,
        "model_max_length": 512, "name": "Roberta", "no_repeat_ngram_size": 3, "num_beam_groups": 1, "num_beams": 4,
        "num_return_sequences": 1, "onnx_export": false, "output_attentions": true, "output_hidden_states": true,
        "output_past": true, "output_scores": false, "per_layer_config": {}, "predict_special_tokens": true,
        "prefix": " ", "pretrained_config_archive_map": {}, "problem_type": "regression", "pruned_heads": {},
        "remove_invalid_values": false, "renormalize_logits": true, "repetition_penalty": 1.1, "replacing_rate": 0,
        "return_dict": false, "return_dict_in_generate": false, "save_step": 58, "sep_token_id": 2,
        "student_decoder_layers": null, "student_encoder_layers": 3, "suppress_tokens": [], "tags": ["a"],
        "task_specific_params": {"summarization": {}}, "temperature": 0.7, "tf_legacy_loss": true,
        "tie_encoder_decoder": false, "tie_last_hidden_states": true, "tokenizer_class": "X", "top_k": 50, "top_p": 0.9,
        "torch_dtype": "float32", "torchscript": true, "transformers_version": "2.8.0", "typical_p": 1.0,
        "use_bfloat16": true, "use_cache": false, "use_return_dict": true, "xla_device": true,
        "attention_probs_dropout_prob": 0.1, "classif_dropout": 0.0, "classifier_dropout": 0.1, "embd_pdrop": 0.1,
        "encoder_layerdrop": 0.2, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "summary_first_dropout": 0.1,
        "directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
        "pooler_size_per_head": 128, "pooler_type": "first_token_transform", "summary_activation": "gelu",
        "summary_proj_to_labels": true, "summary_type": "first", "summary_use_proj": true, "pretraining_tp": 2,
        "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity",
        "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"},
    });
    for kind in known() {
        let mut config = object(json!({"model_type": kind}));
        let usual = read(&config);
        config.extend(object(all.clone()));
        assert_eq!(read(&config), usual, "{kind}");
        assert!(usual.is_ok(), "{kind}: {usual:?}");
    }
}

/// What only some families wrote, and nothing reads any more or nothing ever read.
#[test]
fn keys_without_an_effect_in_a_family_are_passed_over_there() {
    let cases = [
        (
            "albert",
            json!({"down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0}),
        ),
        ("albert", json!({"layers_to_keep": [], "position_embedding_type": "absolute"})),
        (
            "bart",
            json!({"extra_pos_embeddings": 2, "static_position_embeddings": false, "normalize_before": false}),
        ),
        ("bert", json!({"position_embedding_type": "absolute", "is_decoder": false, "is_causal": null})),
        ("distilbert", json!({"sinusoidal_pos_embds": true, "tie_weights_": true})),
        ("gpt2", json!({"n_ctx": 1024, "reorder_and_upcast_attn": true, "scale_attn_weights": true})),
        ("gpt_neox", json!({"partial_rotary_factor": 1.0, "rope_theta": 5.0, "hidden_dropout_prob": 0.1})),
        ("llama", json!({"is_causal": true, "is_llama_config": true, "rope_interleaved": false})),
        ("longformer", json!({"attention_dilation": [1, 1], "autoregressive": false, "onnx_export": true})),
        ("mistral", json!({"attention_bias": true, "max_window_layers": 28, "use_sliding_window": true})),
        (
            "modernbert",
            json!({"layer_norm_eps": 1e-3, "reference_compile": true, "repad_logits_with_grad": true}),
        ),
        (
            "modernbert",
            json!({"sparse_prediction": true, "sparse_pred_ignore_index": 0, "deterministic_flash_attn": true}),
        ),
        ("mpnet", json!({"type_vocab_size": 2, "relative_attention_max_distance": 64})),
        ("qwen2", json!({"attention_bias": true, "use_mrope": false})),
        ("t5", json!({"n_positions": 512, "output_past": true})),
        (
            "transfo-xl",
            json!({"dropatt": 0.0, "ext_len": 0, "init": "normal", "tgt_len": 128, "tie_weight": true}),
        ),
        ("transfo-xl", json!({"init_range": 0.01, "proj_init_std": 0.01, "trainer_compatible": true})),
    ];
    for (kind, more) in cases {
        let mut config = object(json!({"model_type": kind}));
        let usual = read(&config).expect(kind);
        config.extend(object(more.clone()));
        let found = read(&config).unwrap_or_else(|error| panic!("{kind} with {more}: {error}"));
        assert_eq!(found, usual, "{kind} with {more}");
    }
}

/// A key that would change results is named, whatever else a file says.
#[test]
fn keys_with_an_effect_are_refused_by_name() {
    let cases = [
        ("bart", "do_blenderbot_90_layernorm", json!(true)),
        ("bert", "pruned_heads", json!({"0": [1]})),
        ("llama", "per_layer_config", json!({"0": {"hidden_act": "relu"}})),
        ("llama", "is_causal", json!(false)),
        ("llama", "rope_interleaved", json!(true)),
        ("longformer", "attention_dilation", json!([1, 2])),
        ("longformer", "autoregressive", json!(true)),
        ("bert", "position_embedding_type", json!("relative_key")),
        ("bert", "quantization_config", json!({"quant_method": "gptq"})),
        ("bert", "layer_types", json!(["full_attention"])),
        ("llama", "final_logit_softcapping", json!(30.0)),
        ("llama", "residual_multiplier", json!(0.2)),
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true)),
        ("distilbert", "gap_size", json!(1)), // ALBERT's
        ("bert", "attention_bias", json!(true)),
    ];
    for (kind, key, value) in cases {
        let config = object(json!({"model_type": kind, key: value}));
        let refused = read(&config).expect_err(key);
        assert!(refused.contains(key), "{kind}: {refused}");
    }
}

/// Another type than the one that a key has is told under the name that the file has.
#[test]
fn a_wrong_value_is_told_under_the_name_in_the_file() {
    let config = object(json!({"model_type": "bart", "d_model": 8, "hidden_size": "wide"}));
    let refused = read(&config).expect_err("it is no number");
    assert_eq!(refused, "config.json: hidden_size is \"wide\", and should be a whole number");
}
