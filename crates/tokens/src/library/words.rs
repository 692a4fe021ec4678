//! How byte-level vocabularies cut texts into words, by the name that GGUF files give (`tokenizer.ggml.pre`).

use super::pattern::GPT2;

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// How texts are cut, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Patterns, each cutting what the one before it has left.
    pub patterns: &'static [&'static str],
    /// A word that is in the vocabulary is one token, whatever the pairs say.
    pub whole: bool,
    /// A text begins with the begin token where the file does not say.
    pub begin: bool,
    /// Letters and their marks are composed first (NFC).
    pub compose: bool,
}

const fn words(patterns: &'static [&'static str]) -> Words {
    Words { patterns, whole: false, begin: false, compose: false }
}

impl Words {
    /// GPT-2's own.
    pub const GPT2: Self = words(&[GPT2]);
    /// Qwen's, whose Python class composes characters first.
    pub const QWEN2: Self = Self { compose: true, ..words(&[QWEN2]) };

    /// By GGUF's name; `None` where it is not known. Without a name it is GPT-2's, as the reference has it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "" | "default" | "gpt-2" | "gpt2" | "phi-2" | "mpt" | "olmo" | "jais" | "jina-es" | "jina-de"
            | "jina-v2-es" | "jina-v2-de" | "jina-v2-code" | "roberta-bpe" | "gigachat" | "a.x-4.0"
            | "mellum" | "exaone4" | "trillion" | "granite-docling" => Self::GPT2,
            "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
            | "lfm2" | "jina-v5-nano" => Self { whole: true, begin: true, ..words(&[LLAMA3]) },
            "dbrx" | "smaug-bpe" => words(&[LLAMA3]),
            "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" | "stablelm2" | "hunyuan" => {
                words(&[QWEN2])
            }
            "qwen35" => words(&[QWEN35]),
            "tekken" => Self { whole: true, begin: true, ..words(&[TEKKEN]) },
            "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => words(&[GPT4O]),
            "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
                words(&[r"\p{N}", GPT2])
            }
            "deepseek-coder" => {
                words(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\u{d7ff}]+", r"\p{N}"])
            }
            "deepseek-v3" => words(&[r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", DEEPSEEK3]),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{Pattern, Room};
    use super::Words;

    #[test]
    fn every_pattern_compiles_to_a_linear_form() {
        for name in [
            "gpt-2",
            "llama-bpe",
            "qwen2",
            "qwen35",
            "tekken",
            "gpt-4o",
            "smollm",
            "deepseek-coder",
            "deepseek-v3",
        ] {
            for pattern in Words::named(name).unwrap().patterns {
                assert!(
                    Pattern::new(pattern, &mut Room::default()).unwrap().is_linear(),
                    "{name}: {pattern}"
                );
            }
        }
        assert_eq!(Words::named("no-such"), None);
    }
}
