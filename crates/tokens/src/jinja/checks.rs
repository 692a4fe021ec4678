//! Tests: `x is defined`.

use std::cmp::Ordering;

use super::args::Args;
use super::call::FUNCTIONS;
use super::exec::Renderer;
use super::meter::{Outcome, wrong};
use super::value::{Number, Value};

impl Renderer<'_> {
    /// Whether a test holds of a value.
    pub(super) fn check(&self, name: &str, input: &Value, args: &Args) -> Outcome<bool> {
        let meter = self.meter;
        let other = || args.need(0, "other");
        let ordered = |wanted: fn(Ordering) -> bool| -> Outcome<bool> {
            Ok(input.order(&other()?, meter)?.is_some_and(wanted))
        };
        let remainder = |number: i128| match input.number() {
            Some(Number::Int(value)) if number != 0 => Ok(value.checked_rem_euclid(number).unwrap_or(0)),
            Some(Number::Float(value)) if number != 0 => Ok(value.rem_euclid(number as f64) as i128),
            _ => wrong(format!("the test '{name}' wants a number, not a {}", input.kind())),
        };
        Ok(match name {
            "defined" => !matches!(input, Value::Undefined(_)),
            "undefined" => matches!(input, Value::Undefined(_)),
            "none" => matches!(input, Value::None),
            "boolean" => matches!(input, Value::Bool(_)),
            "true" => matches!(input, Value::Bool(true)),
            "false" => matches!(input, Value::Bool(false)),
            "integer" => matches!(input, Value::Int(_)),
            "float" => matches!(input, Value::Float(_)),
            "number" => matches!(input, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
            "string" => matches!(input, Value::Text(_)),
            "mapping" => matches!(input, Value::Dict(_)),
            "sequence" => {
                matches!(
                    input,
                    Value::Text(_)
                        | Value::List(_)
                        | Value::Tuple(_)
                        | Value::Dict(_)
                        | Value::Range(..)
                        | Value::Undefined(_)
                )
            }
            "iterable" => matches!(input, Value::Text(_) | Value::Iterator(_)) || input.length().is_some(),
            "callable" => {
                matches!(input, Value::Macro(_) | Value::Method(_) | Value::Function(_) | Value::Joiner(_))
            }
            "escaped" => false,
            "even" => remainder(2)? == 0,
            "odd" => remainder(2)? == 1,
            "divisibleby" => match other()?.integer() {
                Some(number) => remainder(number)? == 0,
                None => return wrong("divisibleby wants a whole number"),
            },
            "lower" => {
                let text = self.as_text(input)?;
                meter.read(&text)?;
                text.chars().all(|c| !c.is_uppercase()) && text.chars().any(char::is_lowercase)
            }
            "upper" => {
                let text = self.as_text(input)?;
                meter.read(&text)?;
                text.chars().all(|c| !c.is_lowercase()) && text.chars().any(char::is_uppercase)
            }
            "eq" | "equalto" | "==" => input.equals(&other()?, meter)?,
            "ne" | "!=" => !input.equals(&other()?, meter)?,
            "lt" | "lessthan" | "<" => ordered(Ordering::is_lt)?,
            "le" | "<=" => ordered(Ordering::is_le)?,
            "gt" | "greaterthan" | ">" => ordered(Ordering::is_gt)?,
            "ge" | ">=" => ordered(Ordering::is_ge)?,
            "in" => other()?.contains(input, meter)?,
            "sameas" => match (input, other()?) {
                (Value::None, Value::None) => true,
                (Value::Bool(a), Value::Bool(b)) => *a == b,
                (Value::Text(_), other @ Value::Text(_)) => input.equals(&other, meter)?,
                (Value::Int(a), Value::Int(b)) => *a == b,
                (Value::Namespace(a), Value::Namespace(b)) => std::rc::Rc::ptr_eq(a, &b),
                _ => false,
            },
            "filter" => matches!(input, Value::Text(name) if FILTERS.contains(&&**name)),
            "test" => matches!(input, Value::Text(name) if TESTS.contains(&&**name)),
            "function" => matches!(input, Value::Text(name) if FUNCTIONS.contains(&&**name)),
            other => return wrong(format!("there is no test '{other}'")),
        })
    }
}

/// The names of filters, for templates that ask before they use one.
const FILTERS: [&str; 49] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
];

/// The names of tests.
const TESTS: [&str; 36] = [
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
    "==",
    "!=",
    "<",
];
