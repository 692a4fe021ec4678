//! What surrounds the tokens of a learned vocabulary: how texts are cleaned, cut, marked and put together again.

use serde_json::{Map, Value, json};
use tokenizers::AddedToken;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use super::{Marks, Pieces};

/// The most characters of a token.
pub(super) const LONGEST: usize = 16;

/// Runs of Chinese and Japanese characters, and every digit and every mark of their punctuation, are words of their own:
/// pieces that join a full stop with the word after it help nobody.
const WORDS: &str = r"▁?[\p{Han}\p{Hiragana}\p{Katakana}]+|[0-9]|[，。！？；：、（）《》【】「」“”‘’…—·]";

/// What a byte that has no piece scores: lower than any sum of pieces, so that text that looks like one is not taken for it.
const BYTE_SCORE: f64 = -1000.0;

/// All of a `tokenizer.json` but the model.
pub(super) struct Shape {
    pieces: Pieces,
    around: Marks,
    /// The special tokens, the first of which have the first ids: name and text.
    pub special: Vec<(&'static str, &'static str)>,
    /// The tokens that spell bytes.
    pub bytes: Vec<String>,
    /// Characters that have a token whatever the text.
    pub alphabet: Vec<char>,
    pub normalizer: Value,
    pub splits: Value,
    decoder: Value,
}

impl Shape {
    pub fn of(pieces: Pieces, around: Marks) -> Self {
        let special = match around {
            Marks::End | Marks::None => {
                vec![("pad_token", "<pad>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]
            }
            Marks::Around => vec![
                ("pad_token", "[PAD]"),
                ("unk_token", "[UNK]"),
                ("cls_token", "[CLS]"),
                ("sep_token", "[SEP]"),
                ("mask_token", "[MASK]"),
            ],
        };
        let spells = matches!(pieces, Pieces::Unigram | Pieces::Pairs);
        let bytes =
            if spells { (0..=255_u8).map(|byte| format!("<0x{byte:02X}>")).collect() } else { vec![] };
        let alphabet = match pieces {
            Pieces::BytePairs => {
                let mut all: Vec<char> = ByteLevel::alphabet().into_iter().collect();
                all.sort_unstable();
                all
            }
            Pieces::Unigram | Pieces::Pairs | Pieces::Characters => Vec::new(),
        };
        let (normalizer, splits, decoder) = match pieces {
            Pieces::Unigram | Pieces::Pairs => spaced(),
            Pieces::BytePairs => {
                let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
                (Value::Null, bytes.clone(), bytes)
            }
            Pieces::Characters => (Value::Null, Value::Null, json!({"type": "Fuse"})),
        };
        Self { pieces, around, special, bytes, alphabet, normalizer, splits, decoder }
    }

    /// The token for what is in no token.
    pub fn unknown(&self) -> &'static str {
        self.special.iter().find(|(name, _)| *name == "unk_token").map_or("<unk>", |(_, text)| text)
    }

    /// The special tokens, as the library wants them.
    pub fn added(&self) -> Vec<AddedToken> {
        self.special.iter().map(|(_, text)| AddedToken::from(*text, true)).collect()
    }

    /// The model of these pieces and scores, the bytes among them with a score of their own.
    pub fn unigram(&self, mut pieces: Vec<(String, f64)>) -> Value {
        let marks = self.special.len();
        for (_, score) in &mut pieces[marks..marks + self.bytes.len()] {
            *score = BYTE_SCORE;
        }
        let unknown = self.special.iter().position(|(name, _)| *name == "unk_token");
        json!({"type": "Unigram", "unk_id": unknown, "vocab": pieces, "byte_fallback": true})
    }

    /// The model with a token for each character.
    pub fn characters(&self, known: &[char]) -> Value {
        let special = self.special.iter().map(|(_, text)| (*text).to_owned());
        let all = special.chain(known.iter().map(char::to_string));
        let vocabulary: Map<String, Value> = (0_u32..).zip(all).map(|(id, text)| (text, id.into())).collect();
        json!({
            "type": "BPE", "dropout": null, "unk_token": self.unknown(), "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        })
    }

    /// The whole `tokenizer.json` around `model`.
    pub fn json(&self, model: &Value) -> Value {
        let added: Vec<Value> = (0_u32..)
            .zip(&self.special)
            .map(|(id, (_, text))| {
                json!({
                    "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true,
                })
            })
            .collect();
        json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
            "normalizer": self.normalizer, "pre_tokenizer": self.splits, "post_processor": self.template(),
            "decoder": self.decoder, "model": model,
        })
    }

    fn template(&self) -> Value {
        let (single, pair, marks): (&[&str], &[&str], &[&str]) = match self.around {
            Marks::None => return Value::Null,
            Marks::End => (&["A", "</s>"], &["A", "</s>", "B", "</s>"], &["</s>"]),
            Marks::Around => {
                (&["[CLS]", "A", "[SEP]"], &["[CLS]", "A", "[SEP]", "B", "[SEP]"], &["[CLS]", "[SEP]"])
            }
        };
        let parts = |parts: &[&str]| {
            let mut kind = 0;
            let part = |part: &&str| match *part {
                "A" | "B" => {
                    kind = u32::from(*part == "B");
                    json!({"Sequence": {"id": part, "type_id": kind}})
                }
                mark => json!({"SpecialToken": {"id": mark, "type_id": kind}}),
            };
            parts.iter().map(part).collect::<Vec<Value>>()
        };
        let id = |mark: &str| self.special.iter().position(|(_, text)| *text == mark);
        let tokens: Map<String, Value> = marks
            .iter()
            .map(|mark| ((*mark).to_owned(), json!({"id": mark, "ids": [id(mark)], "tokens": [mark]})))
            .collect();
        json!({
            "type": "TemplateProcessing", "single": parts(single), "pair": parts(pair), "special_tokens": tokens,
        })
    }

    /// The `tokenizer_config.json` beside it.
    pub fn config(&self) -> Value {
        let mut config = Map::new();
        config.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
        config.insert("clean_up_tokenization_spaces".into(), false.into());
        // Whoever pads and asks for token types gets none where the template knows of none.
        let inputs: &[&str] = match self.around {
            Marks::Around => &["input_ids", "token_type_ids", "attention_mask"],
            Marks::End | Marks::None => &["input_ids", "attention_mask"],
        };
        config.insert("model_input_names".into(), json!(inputs));
        config.extend(self.special.iter().map(|(name, text)| ((*name).to_owned(), (*text).into())));
        Value::Object(config)
    }
}

impl std::fmt::Debug for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shape({:?}, {:?})", self.pieces, self.around)
    }
}

/// Texts as people write them: spaces are one `▁` each and belong to the word after them, as SentencePiece has it.
fn spaced() -> (Value, Value, Value) {
    let normalizer = json!({"type": "Sequence", "normalizers": [
        {"type": "NFC"},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
        {"type": "Strip", "strip_left": true, "strip_right": true},
    ]});
    let splits = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": false},
    ]});
    let decoder = json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]});
    (normalizer, splits, decoder)
}
