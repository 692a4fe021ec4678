//! `config.json`, read key by key, so that what nobody read can be refused.

use std::cell::RefCell;
use std::collections::BTreeSet;

use glassformer_formula::check::limits;
use serde_json::{Map, Value};

use crate::keys::{self, Unread};
use crate::{Error, reference};

/// A configuration that remembers which of its keys were read.
#[derive(Debug)]
pub struct Config {
    keys: Map<String, Value>,
    /// Whose class of the reference says what missing keys mean.
    kind: String,
    defaults: Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
}

impl Config {
    /// The configuration in `text`.
    ///
    /// # Errors
    /// If it is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: String| Error::File { path: "config.json".into(), why };
        match serde_json::from_str(text) {
            Ok(Value::Object(keys)) => Ok(Self::of(keys)),
            Ok(_) => Err(bad("is not a JSON object".into())),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// The configuration of these keys, of the `model_type` that they say.
    pub(crate) fn of(keys: Map<String, Value>) -> Self {
        let kind = keys.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::of_kind(&kind, keys)
    }

    /// The configuration of these keys, where missing ones mean what they mean in the reference's class of `kind`.
    pub(crate) fn of_kind(kind: &str, keys: Map<String, Value>) -> Self {
        Self { keys, kind: kind.to_owned(), defaults: reference::defaults(kind), read: RefCell::default() }
    }

    /// The same configuration without a head: the rows are the result.
    pub(crate) fn without_head(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.remove("architectures");
        Self::of_kind(&self.kind, keys)
    }

    /// The value of `key` or of its other name, marked as read; what the reference takes where both are missing, and nothing for
    /// null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).1
    }

    /// The name under which a file has `key`, and its value.
    fn find<'k>(&self, key: &'k str) -> (&'k str, Option<&Value>) {
        let given = |name: &str| {
            self.read.borrow_mut().insert(name.to_owned());
            self.keys.get(name)
        };
        let own = given(key);
        for alias in reference::aliases(&self.kind).iter().filter(|alias| alias.key == key) {
            if let Some(value) = given(alias.other).filter(|value| !value.is_null()) {
                return (alias.other, Some(value));
            }
        }
        match own {
            Some(value) => (key, Some(value).filter(|value| !value.is_null())),
            None => (key, self.defaults.get(key)),
        }
    }

    /// Whether `key` is there, be it null: what is missing may mean something else.
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    fn wrong(key: &str, found: &Value, wanted: &str) -> Error {
        let mut shown = found.to_string();
        shown.truncate(shown.char_indices().nth(60).map_or(shown.len(), |(at, _)| at));
        Error::Key { key: key.to_owned(), why: format!("is {shown}, and should be {wanted}") }
    }

    /// What `of` makes of the value of `key`, or of the reference's own where it is missing or null.
    fn must<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        of: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<T, Error> {
        let (name, value) = self.find(key);
        match value.or_else(|| self.defaults.get(key)) {
            Some(value) => of(value).ok_or_else(|| Self::wrong(name, value, wanted)),
            None => Err(Error::Key { key: key.to_owned(), why: "is missing".into() }),
        }
    }

    /// A whole number.
    ///
    /// # Errors
    /// If it is missing and the reference has none either, or it is not a whole number.
    pub fn size(&self, key: &str) -> Result<usize, Error> {
        self.must(key, "a whole number", whole)
    }

    /// A whole number as the file has it under this name, whatever it says under another.
    ///
    /// # Errors
    /// As [`Config::size`].
    pub fn own_size(&self, key: &str) -> Result<usize, Error> {
        match self.keys.get(key).and_then(whole).or_else(|| self.defaults.get(key).and_then(whole)) {
            Some(size) => Ok(size),
            None => self.size(key),
        }
    }

    /// A number of layers, low enough that they can be counted out one by one.
    ///
    /// # Errors
    /// As [`Config::size`], or if it is more than any formula may have.
    pub fn layers(&self, key: &str) -> Result<usize, Error> {
        let layers = self.size(key)?;
        if layers > limits::LAYERS {
            let name = self.find(key).0;
            return Err(Self::wrong(name, &layers.into(), &format!("at most {}", limits::LAYERS)));
        }
        Ok(layers)
    }

    /// A whole number, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not a whole number.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize, Error> {
        Ok(self.optional_size(key)?.unwrap_or(default))
    }

    /// A whole number, if it is there and not null, or if the reference has one where it is missing.
    ///
    /// # Errors
    /// If it is not a whole number.
    pub fn optional_size(&self, key: &str) -> Result<Option<usize>, Error> {
        if self.get(key).is_none() { Ok(None) } else { self.size(key).map(Some) }
    }

    /// A number.
    ///
    /// # Errors
    /// If it is missing and the reference has none either, or it is not a number.
    pub fn float(&self, key: &str) -> Result<f64, Error> {
        self.must(key, "a number", Value::as_f64)
    }

    /// A number, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not a number.
    pub fn float_or(&self, key: &str, default: f64) -> Result<f64, Error> {
        if self.get(key).is_none() { Ok(default) } else { self.float(key) }
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is missing and the reference has none either, or it is neither.
    pub fn flag(&self, key: &str) -> Result<bool, Error> {
        self.must(key, "true or false", Value::as_bool)
    }

    /// True or false, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and neither.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        if self.get(key).is_none() { Ok(default) } else { self.flag(key) }
    }

    /// Text.
    ///
    /// # Errors
    /// If it is missing and the reference has none either, or it is not text.
    pub fn text(&self, key: &str) -> Result<&str, Error> {
        self.must(key, "text", Value::as_str)
    }

    /// Text, or `default` where it is missing.
    ///
    /// # Errors
    /// If it is there and not text.
    pub fn text_or<'a>(&'a self, key: &'a str, default: &'a str) -> Result<&'a str, Error> {
        if self.get(key).is_none() { Ok(default) } else { self.text(key) }
    }

    /// Demands that `key`, if it is there, is one of `allowed`: other values would need code that is not there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn only(&self, key: &str, allowed: &[Value]) -> Result<(), Error> {
        match self.find(key) {
            (name, Some(value)) if !allowed.contains(value) => {
                let list = allowed.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
                Err(Self::wrong(name, value, &format!("{list}: nothing else is supported")))
            }
            _ => Ok(()),
        }
    }

    /// The first name in `architectures`, such as `BertForMaskedLM`.
    pub fn architecture(&self) -> &str {
        let names = self.get("architectures").and_then(Value::as_array);
        names.and_then(|names| names.first()).and_then(Value::as_str).unwrap_or("")
    }

    /// How many labels a classifier has: as many as `id2label` names, `num_labels`, or the reference's own: three for BART, which
    /// tells entailment, and else two.
    pub fn labels(&self) -> usize {
        let named = self.get("id2label").and_then(Value::as_object).map(Map::len);
        let counted = || self.get("num_labels").and_then(Value::as_u64).map(|n| n as usize);
        let usual = if self.get("model_type").is_some_and(|kind| kind == "bart") { 3 } else { 2 };
        named.or_else(counted).unwrap_or(usual)
    }

    /// The names of `count` labels, in order; `LABEL_0`… where they have none.
    pub fn label_names(&self, count: usize) -> Vec<String> {
        let named = self.get("id2label").and_then(Value::as_object);
        let name = |i: usize| {
            let given = named.and_then(|names| names.get(&i.to_string())).and_then(Value::as_str);
            given.map_or_else(|| format!("LABEL_{i}"), str::to_owned)
        };
        (0..count).map(name).collect()
    }

    /// All keys.
    pub fn into_keys(self) -> Map<String, Value> {
        self.keys
    }

    /// Refuses keys that nobody read and that are not known to have no effect (the table in `keys`); null says nothing.
    ///
    /// # Errors
    /// The first key that is known and would have one, or else all that are not known.
    pub fn finish(&self) -> Result<(), Error> {
        let read = self.read.borrow();
        let mut unknown = Vec::new();
        for (key, value) in self.keys.iter().filter(|(key, _)| !read.contains(*key)) {
            match keys::unread(&self.kind, key, value) {
                Unread::Harmless => {}
                Unread::Only(wanted) => {
                    return Err(Self::wrong(key, value, &format!("{wanted}: nothing else is supported")));
                }
                Unread::Unknown => unknown.push(key.clone()),
            }
        }
        if unknown.is_empty() { Ok(()) } else { Err(Error::Unread(unknown)) }
    }
}

fn whole(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}
