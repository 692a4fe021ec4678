//! What a GGUF file says about text, for the tokenizer and the chat template.

use glassformer_tokens::GgufVocabulary;
use glassformer_weights::Gguf;

/// The vocabulary in `file`.
pub(crate) fn vocabulary(file: &Gguf) -> GgufVocabulary {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| file.u32(&key(&format!("{name}_token_id")));
    let texts = |name: &str| -> Vec<String> {
        let bytes = file.byte_strings(&key(name)).unwrap_or_default();
        bytes.into_iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    };
    let types = file.i32s(&key("token_type")).unwrap_or_default();
    GgufVocabulary {
        model: file.string(&key("model")).unwrap_or_default().to_owned(),
        pre: file.string(&key("pre")).map(str::to_owned),
        tokens: texts("tokens"),
        scores: file.f32s(&key("scores")).unwrap_or_default(),
        token_types: types.into_iter().map(i32::unsigned_abs).collect(),
        merges: texts("merges"),
        bos: id("bos"),
        eos: id("eos"),
        unknown: id("unknown"),
        separator: id("seperator").or_else(|| id("separator")), // llama.cpp writes it so
        padding: id("padding"),
        cls: id("cls"),
        mask: id("mask"),
        add_bos: file.bool(&key("add_bos_token")),
        add_eos: file.bool(&key("add_eos_token")),
        add_space_prefix: file.bool(&key("add_space_prefix")),
        remove_extra_whitespaces: file.bool(&key("remove_extra_whitespaces")),
        precompiled_charsmap: file
            .i32s(&key("precompiled_charsmap"))
            .unwrap_or_default()
            .into_iter()
            .map(|byte| byte as u8)
            .collect(),
    }
}
