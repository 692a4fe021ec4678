//! Keys of configurations that nothing here reads because they have no effect on a forward pass, and those that have none at one
//! value: all that Hugging Face transformers writes or has written since 1.0, and what other programs leave in files. Any other
//! key is refused.

use serde_json::Value;

/// When a key may be ignored.
enum Ignored {
    /// Whatever it says.
    Always,
    /// While it is false.
    False,
    /// While it is true.
    True,
    /// While it is an empty list or object.
    Empty,
    /// While it is a list of ones.
    Ones,
}

impl Ignored {
    fn at(&self, value: &Value) -> bool {
        match self {
            Self::Always => true,
            Self::False => *value == Value::Bool(false),
            Self::True => *value == Value::Bool(true),
            Self::Empty => {
                value.as_object().is_some_and(serde_json::Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            }
            Self::Ones => value.as_array().is_some_and(|list| list.iter().all(|x| *x == 1)),
        }
    }

    fn wanted(&self) -> &'static str {
        match self {
            Self::Always => "anything",
            Self::False => "false",
            Self::True => "true",
            Self::Empty => "empty",
            Self::Ones => "a list of ones",
        }
    }
}

/// Keys of one group: when they are ignored, and in which families (none listed: in all).
struct Group {
    ignored: Ignored,
    kinds: &'static [&'static str],
    keys: &'static [&'static str],
}

const fn always(keys: &'static [&'static str]) -> Group {
    Group { ignored: Ignored::Always, kinds: &[], keys }
}

const fn while_(ignored: Ignored, keys: &'static [&'static str]) -> Group {
    Group { ignored, kinds: &[], keys }
}

const fn within(kinds: &'static [&'static str], keys: &'static [&'static str]) -> Group {
    Group { ignored: Ignored::Always, kinds, keys }
}

const DECODERS: &[&str] = &["gemma", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "transfo-xl"];

const GROUPS: &[Group] = &[
    // What a checkpoint is called, where it came from, and which program reads it.
    always(&[
        "_auto_class",
        "_commit_hash",
        "_configuration_file",
        "_from_auto",
        "_from_pipeline",
        "_name_or_path",
        "architectures",
        "auto_map",
        "custom_pipelines",
        "language",
        "model_type",
        "name",
        "name_or_path",
        "pretrained_config_archive_map",
        "tags",
        "tokenizer_class",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_version",
    ]),
    // How it is computed or stored there, and what else is told.
    always(&[
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_attn_implementation_internal",
        "_experts_implementation",
        "_flash_attn_2_enabled",
        "_experts_implementation_internal",
        "_output_attentions",
        "attn_implementation",
        "chunk_size_feed_forward",
        "deterministic_flash_attn",
        "dtype",
        "experts_implementation",
        "has_no_defaults_at_init",
        "ignore_keys_at_rope_validation",
        "is_composition",
        "keys_to_ignore_at_inference",
        "onnx_export",
        "output_attentions",
        "output_hidden_states",
        "output_past",
        "pretraining_tp",
        "reference_compile",
        "reorder_and_upcast_attn",
        "repad_logits_with_grad",
        "return_dict",
        "tie_last_hidden_states",
        "torch_dtype",
        "torchscript",
        "use_bfloat16",
        "use_cache",
        "use_return_dict",
        "xla_device",
    ]),
    // Training: how numbers begin, what is left out, how losses are made. Dropout is known by its name (`is_dropout`).
    always(&[
        "dropatt",
        "ext_len",
        "finetuning_task",
        "force_bos_token_to_be_generated",
        "gradient_checkpointing",
        "init",
        "init_range",
        "init_std",
        "initializer_cutoff_factor",
        "initializer_factor",
        "initializer_range",
        "layers_to_keep",
        "neftune_noise_alpha",
        "proj_init_std",
        "replacing_rate",
        "save_step",
        "sparse_pred_ignore_index",
        "sparse_prediction",
        "student_decoder_layers",
        "student_encoder_layers",
        "summary_first_dropout",
        "summary_last_dropout",
        "tf_legacy_loss",
        "tgt_len",
        "tie_encoder_decoder",
        "tie_weight",
        "tie_weights_",
        "trainer_compatible",
    ]),
    // Labels and tasks; those who carry out tasks read what they need.
    always(&[
        "_num_labels",
        "id2label",
        "is_encoder_decoder",
        "label2id",
        "num_labels",
        "problem_type",
        "sbert_ce_default_activation_function",
        "sentence_transformers",
        "task_specific_params",
        "uniem_embedding_strategy",
    ]),
    // Tokens and texts.
    always(&[
        "add_bos_token",
        "add_eos_token",
        "additional_special_tokens",
        "additional_special_tokens_ids",
        "bos_token",
        "cls_token_id",
        "eos_token",
        "eos_token_ids",
        "mask_token_id",
        "max_sequence_length",
        "model_max_length",
        "pad_token",
        "prefix",
        "sep_token_id",
        "unk_token",
        "unk_token_id",
    ]),
    // Generation, besides what `generation` reads or knows.
    always(&["predict_special_tokens"]),
    // Parts that no architecture here has any more, or that only other heads than these read.
    always(&[
        "adapters",
        "add_cross_attention",
        "condition_on_chain",
        "condition_on_species",
        "cross_attention_hidden_size",
        "directionality",
        "extra_pos_embeddings",
        "gen_head",
        "is_llama_config",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
        "static_position_embeddings",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
    ]),
    // Sizes that many configurations have and some families do not read.
    always(&["max_position_embeddings", "n_positions", "num_hidden_layers", "vocab_size"]),
    // What the first versions called `vocab_size` in code, beside which it lies in files.
    always(&["vocab_size_or_config_json_file"]),
    within(&["albert"], &["down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks"]),
    within(&["distilbert"], &["sinusoidal_pos_embds"]), // the table is in the file either way
    within(&["gpt2"], &["n_ctx"]),
    within(&["gpt_neox"], &["partial_rotary_factor", "rope_theta"]), // it has names of its own for both
    within(&["mistral"], &["attention_bias", "max_window_layers", "use_sliding_window"]),
    within(&["modernbert"], &["layer_norm_eps"]), // the norms have `norm_eps`
    within(&["mpnet"], &["relative_attention_max_distance", "type_vocab_size"]),
    within(&["qwen2"], &["attention_bias"]),
    // What would need other code if it said something else.
    while_(
        Ignored::False,
        &["autoregressive", "do_blenderbot_90_layernorm", "rope_interleaved", "use_mrope"],
    ),
    Group { ignored: Ignored::True, kinds: DECODERS, keys: &["is_causal"] },
    while_(Ignored::Empty, &["per_layer_config", "pruned_heads"]),
    while_(Ignored::Ones, &["attention_dilation"]),
];

/// Whether `key` is about what is left out in training: nothing is left out here.
fn is_dropout(key: &str) -> bool {
    key.contains("dropout") || key.contains("layerdrop") || key.ends_with("pdrop") || key.ends_with("_drop")
}

/// What is to be done with a key that nobody read.
pub(crate) enum Unread {
    /// Nothing: it has no effect.
    Harmless,
    /// It is known, and has none only where it is this.
    Only(&'static str),
    /// It is not known.
    Unknown,
}

/// What is known of `key` in a configuration of `kind`, where it says `value`.
pub(crate) fn unread(kind: &str, key: &str, value: &Value) -> Unread {
    if value.is_null() || is_dropout(key) || crate::generation::is_known(key) {
        return Unread::Harmless;
    }
    let here =
        |group: &&Group| group.keys.contains(&key) && (group.kinds.is_empty() || group.kinds.contains(&kind));
    match GROUPS.iter().find(here) {
        Some(group) if group.ignored.at(value) => Unread::Harmless,
        Some(group) => Unread::Only(group.ignored.wanted()),
        None => Unread::Unknown,
    }
}
