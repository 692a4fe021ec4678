//! What the reference's configuration class of each `model_type` takes for keys that a file does not have, and the names that
//! a key has besides. This is data: `fixtures/hf/configurations.py` reads the same out of Hugging Face transformers, and
//! `tests/configurations.rs` compares them.

use serde_json::{Map, Value, json};

/// Another name of a key. Where a file has both, it counts (the reference's `attribute_map`).
pub(crate) struct Alias {
    pub key: &'static str,
    pub other: &'static str,
}

const fn alias(key: &'static str, other: &'static str) -> Alias {
    Alias { key, other }
}

/// The other names of keys of `kind`.
pub(crate) fn aliases(kind: &str) -> &'static [Alias] {
    const PAIRS: &[Alias] = &[
        alias("d_model", "hidden_size"),
        alias("encoder_attention_heads", "num_attention_heads"),
        alias("encoder_layers", "num_hidden_layers"),
    ];
    const DISTILBERT: &[Alias] = &[
        alias("dim", "hidden_size"),
        alias("n_heads", "num_attention_heads"),
        alias("n_layers", "num_hidden_layers"),
    ];
    const GPT2: &[Alias] = &[
        alias("n_embd", "hidden_size"),
        alias("n_head", "num_attention_heads"),
        alias("n_layer", "num_hidden_layers"),
        alias("n_positions", "max_position_embeddings"),
    ];
    const T5: &[Alias] = &[
        alias("d_model", "hidden_size"),
        alias("d_kv", "head_dim"),
        alias("num_heads", "num_attention_heads"),
        alias("num_layers", "num_hidden_layers"),
    ];
    const TRANSFO_XL: &[Alias] = &[
        alias("d_model", "hidden_size"),
        alias("n_head", "num_attention_heads"),
        alias("n_layer", "num_hidden_layers"),
        alias("vocab_size", "n_token"),
    ];
    match kind {
        "bart" | "m2m_100" | "marian" | "mbart" | "pegasus" => PAIRS,
        "distilbert" => DISTILBERT,
        "gpt2" => GPT2,
        "t5" | "mt5" => T5,
        "transfo-xl" => TRANSFO_XL,
        _ => &[],
    }
}

/// What the class of `kind` takes for keys that are missing. Keys whose value then follows from others are not listed.
pub(crate) fn defaults(kind: &str) -> Map<String, Value> {
    let table = encoder(kind).or_else(|| decoder(kind)).or_else(|| pair(kind));
    match table {
        Some(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// How many positions a model of `kind` has where its configuration does not say.
pub(crate) fn positions(kind: &str) -> Option<usize> {
    let table = defaults(kind);
    let given = table.get("max_position_embeddings").or_else(|| table.get("n_positions"))?;
    given.as_u64().and_then(|positions| usize::try_from(positions).ok())
}

/// The value of `base` with the keys of `more` in place of its own.
fn but(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

fn bert() -> Value {
    json!({
        "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "hidden_act": "gelu", "max_position_embeddings": 512, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "tie_word_embeddings": true,
    })
}

fn encoder(kind: &str) -> Option<Value> {
    let padded = || but(bert(), json!({"pad_token_id": 1}));
    Some(match kind {
        "bert" => bert(),
        "roberta" => but(padded(), json!({"vocab_size": 50265})),
        "camembert" | "xlm-roberta" => padded(),
        "longformer" => but(padded(), json!({"attention_window": 512})),
        "mpnet" => but(padded(), json!({"vocab_size": 30527, "relative_attention_num_buckets": 32})),
        "albert" => but(
            bert(),
            json!({
                "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_groups": 1,
                "num_attention_heads": 64, "intermediate_size": 16384, "inner_group_num": 1, "hidden_act": "gelu_new",
            }),
        ),
        "electra" => but(
            bert(),
            json!({"embedding_size": 128, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}),
        ),
        "distilbert" => json!({
            "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6, "n_heads": 12, "dim": 768,
            "hidden_dim": 3072, "activation": "gelu", "pad_token_id": 0, "tie_word_embeddings": true,
        }),
        "modernbert" => json!({
            "vocab_size": 50368, "hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
            "num_attention_heads": 12, "hidden_activation": "gelu", "max_position_embeddings": 8192, "norm_eps": 1e-5,
            "norm_bias": false, "pad_token_id": 50283, "attention_bias": false,
            "local_attention": 128, "mlp_bias": false, "decoder_bias": true, "classifier_pooling": "cls",
            "classifier_bias": false, "classifier_activation": "gelu", "tie_word_embeddings": true,
        }),
        _ => return None,
    })
}

fn decoder(kind: &str) -> Option<Value> {
    let llama = json!({
        "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "hidden_act": "silu", "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false,
    });
    let qwen = json!({
        "vocab_size": 151_936, "intermediate_size": 22016, "num_key_value_heads": 32, "max_position_embeddings": 32768,
        "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
    });
    Some(match kind {
        "llama" => llama,
        "mistral" => but(
            llama,
            json!({
                "intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
                "sliding_window": 4096,
            }),
        ),
        "qwen2" => but(llama, qwen),
        "qwen3" => but(but(llama, qwen), json!({"head_dim": 128})),
        "gemma" => but(
            llama,
            json!({
                "vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
                "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
                "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 8192, "pad_token_id": 0,
                "tie_word_embeddings": true,
            }),
        ),
        "gpt2" => json!({
            "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
            "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true,
        }),
        "gpt_neox" => json!({
            "vocab_size": 50432, "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64,
            "intermediate_size": 24576, "hidden_act": "gelu", "max_position_embeddings": 2048, "layer_norm_eps": 1e-5,
            "use_parallel_residual": true, "attention_bias": true, "tie_word_embeddings": false,
        }),
        "transfo-xl" => json!({
            "vocab_size": 267_735, "cutoffs": [20000, 40000, 200_000], "d_model": 1024, "d_embed": 1024, "n_head": 16,
            "d_head": 64, "d_inner": 4096, "div_val": 4, "pre_lnorm": false, "n_layer": 18, "mem_len": 1600,
            "clamp_len": 1000, "same_length": true, "proj_share_all_but_first": true, "untie_r": true,
            "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true,
        }),
        _ => return None,
    })
}

fn pair(kind: &str) -> Option<Value> {
    let bart = json!({
        "vocab_size": 50265, "max_position_embeddings": 1024, "d_model": 1024, "encoder_layers": 12,
        "encoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_layers": 12, "decoder_ffn_dim": 4096,
        "decoder_attention_heads": 16, "activation_function": "gelu", "scale_embedding": false, "pad_token_id": 1,
        "tie_word_embeddings": true,
    });
    let t5 = json!({
        "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
        "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": "relu", "pad_token_id": 0, "tie_word_embeddings": true,
    });
    Some(match kind {
        "bart" | "mbart" => bart,
        "m2m_100" => {
            but(bart, json!({"vocab_size": 128_112, "activation_function": "relu", "scale_embedding": true}))
        }
        "marian" => but(
            bart,
            json!({"vocab_size": 58101, "pad_token_id": 58100, "share_encoder_decoder_embeddings": true}),
        ),
        "pegasus" => but(bart, json!({"pad_token_id": 0})),
        "t5" => t5,
        "mt5" => but(
            t5,
            json!({
                "vocab_size": 250_112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
            }),
        ),
        _ => return None,
    })
}
