//! `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`: what is said of a tokenizer beside it.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::error::Error;
use crate::files::Folder;

/// A token that is found in a text as it stands.
#[allow(clippy::struct_excessive_bools)] // the fields of the files, under their names
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub content: String,
    /// Only between spaces.
    pub single_word: bool,
    /// With the spaces before it.
    pub lstrip: bool,
    /// With the spaces after it.
    pub rstrip: bool,
    /// In the text after it was prepared, not before.
    pub normalized: bool,
    /// Not part of what was said.
    pub special: bool,
}

impl Token {
    /// A special token without further wishes.
    pub fn special(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: true,
        }
    }

    /// From a text, or an object with the wishes.
    fn from_json(value: &Value, special: bool) -> Option<Self> {
        if let Some(content) = value.as_str() {
            return Some(Self { special, normalized: !special, ..Self::special(content) });
        }
        let flag = |key: &str| value.get(key).and_then(Value::as_bool);
        let special = special || flag("special").unwrap_or(false);
        Some(Self {
            content: value.get("content")?.as_str()?.to_owned(),
            single_word: flag("single_word").unwrap_or(false),
            lstrip: flag("lstrip").unwrap_or(false),
            rstrip: flag("rstrip").unwrap_or(false),
            normalized: flag("normalized").unwrap_or(!special),
            special,
        })
    }
}

/// The names of special tokens, in the order in which the reference adds those that are missing.
pub(crate) const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The file that nearly all of it stands in.
const FILE: &str = "tokenizer_config.json";

/// The most bytes of a special token: far more than any has, and few enough to be looked for in texts.
const LONGEST_TOKEN: usize = 1 << 12;

/// The key of `tokenizer_config.json` that lists the tokens that were added to the vocabulary.
const ADDED: &str = "added_tokens_decoder";

/// What is said of a tokenizer beside it.
#[derive(Debug, Default)]
pub(crate) struct Config {
    values: Map<String, Value>,
    /// Which program's class it is for, as far as it is known: `LlamaTokenizer`.
    pub class: Option<String>,
    /// The model's type in `config.json`.
    pub model_type: Option<String>,
    /// Tokens that were added to the vocabulary, in the order of their ids.
    added: Vec<(u32, Token)>,
    /// Where each of these is in that list: a file may hold very many.
    places: HashMap<String, usize>,
    /// Special tokens with a name.
    named: Vec<(String, Token)>,
    /// Special tokens without one.
    extra: Vec<Token>,
}

impl Config {
    /// Of a folder; empty where it has none of the files.
    pub fn open(folder: Folder<'_>) -> Result<Self, Error> {
        let mut values: Map<String, Value> = folder.json(FILE)?.unwrap_or_default();
        let model: Map<String, Value> = folder.json("config.json")?.unwrap_or_default();
        let mut added = Vec::new();
        if !values.contains_key(ADDED) {
            // Files of before: they overrule the first.
            values.extend(folder.json::<Map<_, _>>("special_tokens_map.json")?.unwrap_or_default());
            let tokens: Map<String, Value> = folder.json("added_tokens.json")?.unwrap_or_default();
            let token = |content: &str| Token { special: false, normalized: true, ..Token::special(content) };
            let read =
                |(content, id): (&String, &Value)| Some((u32::try_from(id.as_u64()?).ok()?, token(content)));
            added.extend(tokens.iter().filter_map(read));
        }
        Self::of(values, &model, added)
    }

    /// What `tokenizer_config.json` alone says.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let values = serde_json::from_str(text).map_err(|error| Error::broken(FILE, error))?;
        Self::of(values, &Map::new(), Vec::new())
    }

    fn of(
        values: Map<String, Value>,
        model: &Map<String, Value>,
        mut added: Vec<(u32, Token)>,
    ) -> Result<Self, Error> {
        if let Some(Value::Object(tokens)) = values.get(ADDED) {
            let read =
                |(id, token): (&String, &Value)| Some((id.parse().ok()?, Token::from_json(token, false)?));
            added.extend(tokens.iter().filter_map(read));
        }
        added.sort_by_key(|&(id, _)| id);
        let text = |map: &Map<String, Value>, key| map.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut config = Self {
            class: text(&values, "tokenizer_class").or_else(|| text(model, "tokenizer_class")),
            model_type: text(model, "model_type"),
            places: added.iter().enumerate().map(|(at, (_, token))| (token.content.clone(), at)).collect(),
            added,
            named: Vec::new(),
            extra: Vec::new(),
            values,
        };
        config.read_special();
        let longest = config.tokens().map(|token| token.content.len()).max().unwrap_or(0);
        if longest > LONGEST_TOKEN {
            return Err(Error::broken(FILE, format!("a special token has {longest} bytes")));
        }
        Ok(config)
    }

    fn read_special(&mut self) {
        for (key, value) in &self.values {
            let many = key == "additional_special_tokens" || key == "extra_special_tokens";
            let read =
                |(name, token): (&String, &Value)| Some((name.clone(), Token::from_json(token, true)?));
            match value {
                Value::Array(list) if many => {
                    self.extra.extend(list.iter().filter_map(|token| Token::from_json(token, true)));
                }
                Value::Object(map) if many => self.named.extend(map.iter().filter_map(read)),
                _ if key.ends_with("_token") => self.named.extend(read((key, value))),
                _ => {}
            }
        }
        // The wishes of a token stand where it was added.
        for token in self.named.iter_mut().map(|(_, token)| token).chain(&mut self.extra) {
            if let Some(&at) = self.places.get(&token.content) {
                let (_, added) = &mut self.added[at];
                added.special = true;
                *token = added.clone();
            }
        }
        self.sort();
    }

    fn sort(&mut self) {
        let place = |name: &str| NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len());
        self.named.sort_by_key(|(name, _)| place(name));
    }

    /// Gives a name to a special token where the files give none.
    pub fn name_by_default(&mut self, name: &str, token: Token) {
        if self.named(name).is_none() && self.values.get(name).is_none_or(|value| !value.is_null()) {
            self.named.push((name.to_owned(), token));
            self.sort();
        }
    }

    /// Adds tokens without a name; those that are there already stay as they are.
    pub fn extend(&mut self, tokens: impl IntoIterator<Item = Token>) {
        let mut known: HashSet<String> = self.tokens().map(|token| token.content.clone()).collect();
        self.extra.extend(tokens.into_iter().filter(|token| known.insert(token.content.clone())));
    }

    /// The special token of a name.
    pub fn named(&self, name: &str) -> Option<&Token> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, token)| token)
    }

    /// Every token that is found in a text as it stands, in the order in which those without an id get one.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        let added = self.added.iter().map(|(_, token)| token);
        added.chain(self.named.iter().map(|(_, token)| token)).chain(&self.extra)
    }

    /// The id that a token was added with.
    pub fn added_id(&self, content: &str) -> Option<u32> {
        self.places.get(content).map(|&at| self.added[at].0)
    }

    /// Names and texts of the special tokens, as chat templates get them.
    pub fn special_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(name, token)| (name.as_str(), token.content.as_str()))
    }

    /// A flag that is true or false.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.values.get(key)?.as_bool()
    }

    /// Whether a file says anything of this, if only that it is nothing.
    pub fn says(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.values.get(key)?.as_u64()
    }

    /// Anything.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Whether it is for a class or type of model whose name contains one of these, whatever the case.
    pub fn is_for(&self, names: &[&str]) -> bool {
        // The class of the tokenizer counts before the type of the model: it is more particular.
        let name = self.class.as_deref().filter(|class| !class.contains("PreTrainedTokenizer"));
        let name = name.or(self.model_type.as_deref()).unwrap_or("").to_lowercase();
        names.iter().any(|known| name.contains(known))
    }
}
