//! GGUF and CTranslate2 files that promise more than they hold, and files of no format at all.

use super::common::build::*;
use super::{Case, FETCH_AGAIN};

/// Broken GGUF files.
pub fn gguf_files() -> Vec<Case> {
    let one = |tensor: Vec<u8>| gguf(&[], &[tensor], 64);
    let entry_of = |kind: u32, value: &[u8]| gguf(&[entry("k", kind, value)], &[], 0);
    let huge = (1_u64 << 60).to_le_bytes();
    let list = |kind: u32, count: &[u8; 8]| join(&[&kind.to_le_bytes(), count]);
    let nested = join(&[&list(9, &1_u64.to_le_bytes()).repeat(9), &list(0, &0_u64.to_le_bytes())]);
    let aligned = |alignment: u32| gguf(&[entry("general.alignment", 4, &alignment.to_le_bytes())], &[], 0);
    let f32s = |name: &str, offset: u64| listed(name, &[8], 0, offset);
    vec![
        ("four letters", b"GGUF".to_vec(), &["the version", FETCH_AGAIN]),
        ("version 1", gguf_head(1, 0, 0), &["version 1", "convert it again"]),
        ("version 9", gguf_head(9, 0, 0), &["version 9, where 2 and 3 are known"]),
        ("big-endian", gguf_head(3_u32.swap_bytes(), 0, 0), &["big-endian machines"]),
        ("2^60 tensors", gguf_head(3, 1 << 60, 0), &["1152921504606846976 tensors do not fit the 0 bytes"]),
        ("2^60 entries", gguf_head(3, 0, 1 << 60), &["1152921504606846976 entries do not fit"]),
        ("2^64 of both", gguf_head(3, u64::MAX, u64::MAX), &["do not fit"]),
        (
            "a key of 2^60 letters",
            join(&[&gguf_head(3, 0, 1), &huge, &[0; 32]]),
            &["a key has 1152921504606846976 bytes"],
        ),
        (
            "a key that is no text",
            gguf(&[join(&[&1_u64.to_le_bytes(), &[0xff, 0, 0, 0, 0, 1]])], &[], 0),
            &["a key", "not UTF-8"],
        ),
        (
            "the same key twice",
            gguf(&[entry("k", 0, &[1]), entry("k", 0, &[2])], &[], 0),
            &["\"k\" appears twice"],
        ),
        ("an unknown type of value", entry_of(13, &[0; 8]), &["\"k\"", "unknown type 13"]),
        ("a text of 2^60 letters", entry_of(8, &huge), &["a text", "1152921504606846976"]),
        (
            "a list of 2^60 bytes",
            entry_of(9, &list(0, &huge)),
            &["1152921504606846976 values of \"k\" do not fit"],
        ),
        ("a list of 2^60 numbers", entry_of(9, &list(10, &huge)), &["values of \"k\" do not fit"]),
        ("a list of 2^64 texts", entry_of(9, &list(8, &[0xff; 8])), &["values of \"k\" do not fit"]),
        ("lists in lists in lists of GGUF", entry_of(9, &nested), &["\"k\"", "too deep"]),
        ("alignment 0", aligned(0), &["general.alignment is 0", "power of two"]),
        ("alignment 3", aligned(3), &["general.alignment is 3"]),
        ("alignment 2^31", aligned(1 << 31), &["general.alignment is 2147483648"]),
        (
            "alignment by a text",
            gguf(&[entry("general.alignment", 8, &long_text("32"))], &[], 0),
            &["not a 32-bit number"],
        ),
        (
            "a tensor's name of 2^60 letters",
            join(&[&gguf_head(3, 1, 0), &huge, &[0; 64]]),
            &["a tensor's name has"],
        ),
        ("the same tensor twice", gguf(&[], &[f32s("w", 0), f32s("w", 32)], 64), &["\"w\" appears twice"]),
        ("five dimensions", one(listed("w", &[1; 5], 0, 0)), &["\"w\" has 5 dimensions"]),
        ("2^32 dimensions", one(patch(f32s("w", 0), 9, &[0xff; 4])), &["\"w\" has 4294967295 dimensions"]),
        (
            "a shape beyond all memory",
            one(listed("w", &[1 << 40, 1 << 40], 0, 0)),
            &["\"w\"", "larger than any memory"],
        ),
        ("a giant shape", one(listed("w", &[1 << 50], 0, 0)), &["\"w\"", "which has 64", FETCH_AGAIN]),
        ("data cut short", gguf(&[], &[f32s("w", 0)], 31), &["0 to 32", "which has 31"]),
        ("an offset beyond the data", one(f32s("w", 1 << 60)), &["\"w\"", "which has 64"]),
        ("an offset that overflows", one(f32s("w", u64::MAX - 31)), &["\"w\"", "which has 64"]),
        (
            "an offset that is not aligned",
            one(f32s("w", 4)),
            &["\"w\" lies at 4, which is no multiple of 32"],
        ),
        (
            "tensors that overlap",
            gguf(&[], &[listed("v", &[9], 0, 0), f32s("w", 32)], 96),
            &["\"v\" and \"w\" overlap"],
        ),
        ("an unknown type", one(listed("w", &[8], 999, 0)), &["\"w\"", "number 999", "take the file in"]),
        ("a type that is not read", one(listed("w", &[256], 21, 0)), &["\"w\"", "IQ3_S"]),
        (
            "half a block a row",
            one(listed("w", &[16, 2], 8, 0)),
            &["\"w\" of shape [2, 16]", "Q8_0 blocks of 32"],
        ),
        (
            "a part without the others",
            gguf(&[entry("split.count", 2, &[3, 0])], &[], 0),
            &["one part", "side by side"],
        ),
    ]
}

/// Broken CTranslate2 models.
pub fn ctranslate2_files() -> Vec<Case> {
    let one = |variable: Vec<u8>| ctranslate2(6, &[variable], &[]);
    let good = variable("w", &[2, 2], 0, 16);
    let head = |count: u32| {
        join(&[&6_u32.to_le_bytes(), &short_text("TestSpec"), &[1, 0, 0, 0], &count.to_le_bytes()])
    };
    let length = |bytes: u32| patch(one(good.clone()), head(1).len() + 14, &bytes.to_le_bytes());
    let scaled = [variable("w", &[2, 2], 1, 4), variable("w_scale", &[3], 0, 12)];
    vec![
        (
            "version 7 of CTranslate2",
            ctranslate2(7, &[], &[]),
            &["version 7, where 4 to 6 are known", "convert"],
        ),
        ("version 3 of CTranslate2", ctranslate2(3, &[], &[]), &["version 3"]),
        ("minus one variables", head(u32::MAX), &["4294967295 variables do not fit"]),
        ("minus one bytes", length(u32::MAX), &["a variable", "needs 4294967295 bytes"]),
        ("too few bytes", length(12), &["\"w\" needs 16 bytes", "gives it 12"]),
        ("255 dimensions", one(patch(good.clone(), 4, &[255])), &["\"w\" has 255 dimensions"]),
        (
            "dimensions beyond all memory",
            one(variable("w", &[u32::MAX; 3], 0, 16)),
            &["\"w\"", "larger than any memory"],
        ),
        ("giant dimensions", one(variable("w", &[u32::MAX, 2], 0, 16)), &["\"w\" needs 34359738360 bytes"]),
        (
            "an unknown type of variable",
            one(variable("w", &[2, 2], 6, 16)),
            &["\"w\" has the unknown type 6"],
        ),
        ("a variable cut short", one(good.clone())[..60].to_vec(), &["are left", FETCH_AGAIN]),
        ("a name without its end", one(patch(good.clone(), 3, b"x")), &["does not end in zero"]),
        ("a name that is not text", one(patch(good.clone(), 2, &[0xff])), &["not UTF-8"]),
        (
            "the same variable twice",
            ctranslate2(6, &[good.clone(), good.clone()], &[]),
            &["\"w\" appears twice"],
        ),
        (
            "an alias of nothing",
            ctranslate2(6, std::slice::from_ref(&good), &[("a", "b")]),
            &["\"a\" stands for \"b\""],
        ),
        (
            "an alias of its own name",
            ctranslate2(6, std::slice::from_ref(&good), &[("w", "w")]),
            &["\"w\" is the name of something else"],
        ),
        (
            "no list of aliases",
            one(good.clone())[..one(good.clone()).len() - 4].to_vec(),
            &["the number of aliases"],
        ),
        (
            "minus one aliases",
            patch(one(good.clone()), one(good.clone()).len() - 4, &[0xff; 4]),
            &["4294967295 aliases"],
        ),
        ("bytes at the end of a model", join(&[&one(good.clone()), b"more"]), &["4 bytes follow"]),
        ("scales for other rows", ctranslate2(6, &scaled, &[]), &["\"w\" has not one scale a row"]),
    ]
}

/// Files of no format.
pub fn unknown_files() -> Vec<Case> {
    vec![
        (
            "no bytes",
            vec![],
            &["neither as safetensors", "GGUF", "CTranslate2", "convert it to one of these"],
        ),
        ("some text", b"These are not the weights you are looking for.".to_vec(), &["PyTorch"]),
        (
            "a pointer instead of a file",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".to_vec(),
            &["Git LFS pointer", "git lfs pull"],
        ),
        ("a picture", b"\x89PNG\r\n\x1a\n0000".to_vec(), &["begins neither"]),
        ("zeros", vec![0; 4096], &["begins neither"]),
    ]
}
