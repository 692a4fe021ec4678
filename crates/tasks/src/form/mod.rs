//! Texts of a given form: JSON, what a regular expression matches, what a grammar describes.
//!
//! llguidance says which bytes may follow. What is ours: the bytes of each tokenizer's tokens, limits for forms that are not trusted,
//! and that each sequence of a search has its own place in the form.

mod forms;
mod matcher;

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

use crate::Error;

pub(crate) use forms::Forms;

/// The largest schema, written as JSON, and the largest grammar, in bytes.
const LARGEST: usize = 64 << 10;

/// The longest regular expression, in bytes.
const LONGEST: usize = 4 << 10;

/// How deep a schema may be nested.
const DEEPEST: usize = 64;

/// How many references a schema may have: each can lead to the next, and they are followed one within the other.
const REFERENCES: usize = 128;

/// Between the parts of JSON: a space, or a line break and what indents a line. A model that knows nothing better must not write spaces
/// for ever.
const GAP: &str = r" |\n {0,16}|\n\t{0,6}";

/// The form that a text must have: all of it, from its first character to its last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Form {
    /// A JSON object, whatever is in it.
    Json,
    /// JSON that this schema describes. What of JSON Schema cannot be kept to is an error.
    JsonSchema(Value),
    /// What this regular expression matches. It has no anchors, no look-around and no references to what was matched before.
    Regex(String),
    /// What this grammar describes, in the notation of Lark as llguidance reads it: `start: "yes" | "no"`.
    Grammar(String),
}

impl Form {
    /// The option that errors name.
    fn option(&self) -> &'static str {
        match self {
            Self::Json => "json object",
            Self::JsonSchema(_) => "schema",
            Self::Regex(_) => "regex",
            Self::Grammar(_) => "grammar",
        }
    }

    fn refused(&self, what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Option { option: self.option(), what: what.into(), hint: hint.into() }
    }

    /// Refuses what is too large to be looked at.
    fn check(&self) -> Result<(), Error> {
        let too_large = |most: usize| {
            let what = format!("is larger than {most} bytes");
            Err(self.refused(what, "describe less of the text"))
        };
        match self {
            Self::JsonSchema(schema) if !is_shallow(schema, DEEPEST) => {
                Err(self.refused(format!("is nested deeper than {DEEPEST}"), "name parts of it in $defs"))
            }
            Self::JsonSchema(schema) if schema.to_string().len() > LARGEST => too_large(LARGEST),
            Self::JsonSchema(schema) if references(schema) > REFERENCES => {
                Err(self.refused(format!("has more than {REFERENCES} references"), "write some of them out"))
            }
            Self::Regex(pattern) if pattern.len() > LONGEST => too_large(LONGEST),
            Self::Grammar(grammar) if grammar.len() > LARGEST => too_large(LARGEST),
            // A schema within a grammar would be under no limit of ours.
            Self::Grammar(grammar) if grammar.contains("%json") => {
                Err(self.refused("has a JSON schema in it", "give the schema by itself"))
            }
            Self::Json | Self::JsonSchema(_) | Self::Regex(_) | Self::Grammar(_) => Ok(()),
        }
    }

    /// As llguidance has it; `after` is what stands before the form.
    fn grammar(&self, after: After) -> TopLevelGrammar {
        let mut grammar = match self {
            Self::Json => GrammarWithLexer::from_json_schema(spaced(json!({ "type": "object" }))),
            Self::JsonSchema(schema) => GrammarWithLexer::from_json_schema(spaced(schema.clone())),
            Self::Regex(pattern) => GrammarWithLexer::from_regex(pattern),
            Self::Grammar(grammar) => GrammarWithLexer::from_lark(grammar.clone()),
        };
        match after {
            After::Nothing => TopLevelGrammar::from_grammar(grammar),
            After::Space => {
                grammar.name = Some("form".to_owned());
                let first = GrammarWithLexer::from_lark("start: \" \" @form".to_owned());
                TopLevelGrammar { grammars: vec![first, grammar], max_tokens: None }
            }
        }
    }
}

/// What stands before a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    /// A space that the text then loses, as SentencePiece has it.
    Space,
}

/// Whether a value is nested at most `most` deep.
fn is_shallow(value: &Value, most: usize) -> bool {
    let Some(less) = most.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, less)),
        Value::Object(fields) => fields.values().all(|field| is_shallow(field, less)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// How many references there are in a schema that [`is_shallow`].
fn references(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(references).sum(),
        Value::Object(fields) => {
            usize::from(fields.contains_key("$ref")) + fields.values().map(references).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// A schema with [`GAP`], unless it says itself how its parts stand apart.
fn spaced(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.entry("x-guidance").or_insert_with(|| json!({ "whitespace_pattern": GAP }));
    }
    schema
}
