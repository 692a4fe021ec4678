//! Vocabularies without a `tokenizer.json`, written as one.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::words::Words;
use crate::config::{Config, Token};

/// BERT's vocabulary.
pub(crate) struct WordPiece {
    pub vocabulary: Map<String, Value>,
    pub lowercase: bool,
    /// `None`: as `lowercase` says.
    pub strip_accents: Option<bool>,
    pub chinese: bool,
    pub around: Around,
}

/// A vocabulary over bytes that are spelled as characters, and the pairs that are joined, the best first.
pub(crate) struct ByteLevel {
    pub vocabulary: Map<String, Value>,
    pub merges: Vec<(String, String)>,
    pub words: Words,
    pub add_prefix_space: bool,
    pub around: Around,
}

/// What is put around a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// RoBERTa and BART: `<s>` and `</s>`, and `</s></s>` between the texts of a pair.
    Roberta,
    /// BERT: `[CLS]` and `[SEP]`, one of which also stands between the texts of a pair.
    Bert,
    /// The begin token, the end token, both or none.
    Marks { begin: bool, end: bool },
}

impl WordPiece {
    /// From the lines of a `vocab.txt`: a token's id is the number of its line.
    pub fn read(text: &str, around: Around, config: &Config) -> Self {
        let lines = (0_u32..).zip(text.lines());
        Self {
            vocabulary: lines.map(|(id, line)| (line.trim_end().to_owned(), id.into())).collect(),
            lowercase: config.flag("do_lower_case").unwrap_or(true),
            strip_accents: config.flag("strip_accents"),
            chinese: config.flag("tokenize_chinese_chars").unwrap_or(true),
            around,
        }
    }

    /// As the reference's classes for BERT and MPNet build it.
    pub fn json(self, config: &Config) -> Value {
        let ids = Ids::new(&self.vocabulary, config);
        json!({
            "version": "1.0",
            "added_tokens": ids.added(),
            "normalizer": {
                "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": self.chinese,
                "strip_accents": self.strip_accents, "lowercase": self.lowercase,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": self.around.json(&ids, &Spaces { trim: true, add: false }),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
            "model": {
                "type": "WordPiece", "unk_token": ids.named("unk_token").0, "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100, "vocab": self.vocabulary,
            },
        })
    }
}

impl ByteLevel {
    /// The lines of a `merges.txt`.
    pub fn read_merges(text: &str) -> Result<Vec<(String, String)>, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with("#version"));
        lines
            .map(|(number, line)| match line.split(' ').collect::<Vec<_>>().as_slice() {
                [left, right] => Ok(((*left).to_owned(), (*right).to_owned())),
                _ => Err(format!("line {}: a pair of tokens is expected, not {line:?}", number + 1)),
            })
            .collect()
    }

    /// As the reference's classes for GPT-2 and RoBERTa build it.
    pub fn json(self, config: &Config) -> Value {
        let ids = Ids::new(&self.vocabulary, config);
        let bytes = |regex: bool| {
            json!({
                "type": "ByteLevel", "add_prefix_space": self.add_prefix_space, "trim_offsets": true, "use_regex": regex,
            })
        };
        let pre_tokenizer = if self.words.patterns == Words::GPT2.patterns {
            bytes(true)
        } else {
            let cut = |pattern: &&str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
            let steps: Vec<Value> = self.words.patterns.iter().map(cut).chain([bytes(false)]).collect();
            json!({"type": "Sequence", "pretokenizers": steps})
        };
        let trim = config.flag("trim_offsets").unwrap_or(true);
        let post_processor = self.around.json(&ids, &Spaces { trim, add: self.add_prefix_space });
        json!({
            "version": "1.0",
            "added_tokens": ids.added(),
            "normalizer": if self.words.compose { json!({"type": "NFC"}) } else { Value::Null },
            "pre_tokenizer": pre_tokenizer,
            "post_processor": post_processor,
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": self.words.whole, "vocab": self.vocabulary, "merges": self.merges,
            },
        })
    }
}

/// What is done with spaces around a text.
struct Spaces {
    /// Whether a token's place in the text leaves them out.
    trim: bool,
    /// Whether one is put before the text.
    add: bool,
}

impl Around {
    fn json(self, ids: &Ids<'_>, spaces: &Spaces) -> Value {
        let (cls, sep) = (ids.named("cls_token"), ids.named("sep_token"));
        match self {
            Self::Roberta => json!({
                "type": "RobertaProcessing", "sep": sep, "cls": cls,
                "trim_offsets": spaces.trim, "add_prefix_space": spaces.add,
            }),
            Self::Bert => {
                let single = vec![Part::Mark(&cls, 0), Part::First, Part::Mark(&sep, 0)];
                let second = vec![Part::Second, Part::Mark(&sep, 1)];
                template([single.clone(), [single, second].concat()])
            }
            Self::Marks { begin, end } => {
                let (bos, eos) = (ids.named("bos_token"), ids.named("eos_token"));
                let around = |part: Part<'static>, number: u32| {
                    let begin = begin.then_some(Part::Mark(&bos, number));
                    let end = end.then_some(Part::Mark(&eos, number));
                    [begin, Some(part), end].into_iter().flatten().collect::<Vec<_>>()
                };
                let first = around(Part::First, 0);
                template([first.clone(), [first, around(Part::Second, 1)].concat()])
            }
        }
    }
}

/// The ids that special tokens have, or will get where the vocabulary has none for them.
struct Ids<'a> {
    config: &'a Config,
    tokens: Vec<(&'a Token, u32)>,
}

impl<'a> Ids<'a> {
    fn new(vocabulary: &Map<String, Value>, config: &'a Config) -> Self {
        // As the library does it: after the last one, counting tokens and not ids.
        let mut next = vocabulary.len() as u32;
        let mut seen: HashMap<&str, u32> = HashMap::new();
        let mut tokens = Vec::new();
        for token in config.tokens() {
            let id = *seen.entry(&token.content).or_insert_with(|| {
                let known = vocabulary.get(&token.content).and_then(Value::as_u64);
                known.map_or_else(
                    || {
                        next += 1;
                        next - 1
                    },
                    |id| id as u32,
                )
            });
            tokens.push((token, id));
        }
        Self { config, tokens }
    }

    /// A special token's text and id; an empty text where there is none of that name.
    fn named(&self, name: &str) -> (String, u32) {
        let content = self.config.named(name).map(|token| token.content.as_str());
        let found = self.tokens.iter().find(|(token, _)| Some(token.content.as_str()) == content);
        found.map_or((String::new(), 0), |(token, id)| (token.content.clone(), *id))
    }

    fn added(&self) -> Vec<Value> {
        let json = |(token, id): &(&Token, u32)| {
            json!({
                "id": id, "content": token.content, "single_word": token.single_word, "lstrip": token.lstrip,
                "rstrip": token.rstrip, "normalized": token.normalized, "special": token.special,
            })
        };
        self.tokens.iter().map(json).collect()
    }
}

/// A part of a template.
#[derive(Clone, Copy)]
enum Part<'a> {
    First,
    Second,
    /// A special token, and the type that it has.
    Mark(&'a (String, u32), u32),
}

/// What is put around one text, and around a pair.
fn template(parts: [Vec<Part<'_>>; 2]) -> Value {
    let mut tokens = Map::new();
    for part in parts.iter().flatten() {
        if let Part::Mark((text, id), _) = part {
            tokens.insert(text.clone(), json!({"id": text, "ids": [id], "tokens": [text]}));
        }
    }
    let json = |part: &Part<'_>| match part {
        Part::First => json!({"Sequence": {"id": "A", "type_id": 0}}),
        Part::Second => json!({"Sequence": {"id": "B", "type_id": 1}}),
        Part::Mark((text, _), kind) => json!({"SpecialToken": {"id": text, "type_id": kind}}),
    };
    let [single, pair] = parts.map(|parts| parts.iter().map(json).collect::<Vec<_>>());
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
}
