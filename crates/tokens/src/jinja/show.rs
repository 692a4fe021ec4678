//! Values as text: as Python prints them, as `repr` does, and as JSON.

use std::fmt::Write;
use std::sync::LazyLock;

use regex_automata::meta::Regex;

use super::meter::{Fault, Meter, Outcome, wrong};
use super::value::Value;

/// What Python's `repr` does not print as it is.
static UNPRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}--\x20]").ok());

/// Text that is being written, whose growth is counted.
pub(super) struct Writer<'m> {
    pub text: String,
    meter: &'m Meter,
}

impl<'m> Writer<'m> {
    pub fn new(meter: &'m Meter) -> Self {
        Self { text: String::new(), meter }
    }

    pub fn push(&mut self, text: &str) -> Outcome<()> {
        self.meter.grow(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// As `str()` has it.
    pub fn value(&mut self, value: &Value) -> Outcome<()> {
        match value {
            Value::Undefined(_) => Ok(()),
            Value::Text(text) => self.push(text),
            other => self.repr(other),
        }
    }

    /// As `repr()` has it.
    fn repr(&mut self, value: &Value) -> Outcome<()> {
        self.meter.step(1)?;
        match value {
            Value::Undefined(_) => self.push("Undefined"),
            Value::None => self.push("None"),
            Value::Bool(true) => self.push("True"),
            Value::Bool(false) => self.push("False"),
            Value::Int(number) => self.push(&number.to_string()),
            Value::Float(number) => self.push(&float(*number)),
            Value::Text(text) => self.quoted(text),
            Value::List(items) => self.sequence("[", &items.items, "]"),
            Value::Tuple(items) => {
                self.sequence("(", &items.items, if items.items.len() == 1 { ",)" } else { ")" })
            }
            Value::Dict(dict) => {
                self.push("{")?;
                for (at, (key, value)) in dict.entries().iter().enumerate() {
                    self.push(if at == 0 { "" } else { ", " })?;
                    self.repr(key)?;
                    self.push(": ")?;
                    self.repr(value)?;
                }
                self.push("}")
            }
            Value::Range(start, stop, 1) => self.push(&format!("range({start}, {stop})")),
            Value::Range(start, stop, step) => self.push(&format!("range({start}, {stop}, {step})")),
            Value::Namespace(_) => self.push("<Namespace>"),
            Value::Macro(found) => self.push(&format!("<Macro '{}'>", found.definition.name)),
            other => self.push(&format!("<{} object>", other.kind())),
        }
    }

    fn sequence(&mut self, open: &str, items: &[Value], close: &str) -> Outcome<()> {
        self.push(open)?;
        for (at, item) in items.iter().enumerate() {
            self.push(if at == 0 { "" } else { ", " })?;
            self.repr(item)?;
        }
        self.push(close)
    }

    fn quoted(&mut self, text: &str) -> Outcome<()> {
        self.meter.step(text.len() / 8)?; // looking characters up is slow
        let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
        let mut out = String::from(quote);
        for c in text.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c == quote => out.extend(['\\', c]),
                ' '..='~' => out.push(c),
                c if is_printable(c) => out.push(c),
                c => {
                    let code = u32::from(c);
                    let _ = match code {
                        0..=0xff => write!(out, "\\x{code:02x}"),
                        0x100..=0xffff => write!(out, "\\u{code:04x}"),
                        _ => write!(out, "\\U{code:08x}"),
                    };
                }
            }
        }
        out.push(quote);
        self.push(&out)
    }
}

fn is_printable(c: char) -> bool {
    let mut bytes = [0; 4];
    let text: &str = c.encode_utf8(&mut bytes);
    UNPRINTABLE.as_ref().is_none_or(|regex| !regex.is_match(text))
}

/// A number with a fraction as Python prints it: the shortest digits that read back, an exponent from 1e16 and below
/// 1e-4.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = number.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// How JSON is laid out.
pub(super) struct Layout {
    /// What a level is indented by; everything stands on one line where it is `None`.
    pub indent: Option<String>,
    pub item: String,
    pub key: String,
    pub sort: bool,
    pub ascii: bool,
}

impl Layout {
    /// A value as JSON, as Python's `json.dumps` writes it.
    pub fn write(&self, value: &Value, meter: &Meter) -> Outcome<String> {
        let mut out = Writer::new(meter);
        self.value(value, 0, &mut out)?;
        Ok(out.text)
    }

    fn value(&self, value: &Value, level: usize, out: &mut Writer<'_>) -> Outcome<()> {
        match value {
            Value::None => out.push("null"),
            Value::Bool(flag) => out.push(if *flag { "true" } else { "false" }),
            Value::Int(number) => out.push(&number.to_string()),
            Value::Float(number) => out.push(&json_float(*number)),
            Value::Text(text) => out.push(&self.text(text)),
            Value::List(items) | Value::Tuple(items) => {
                self.container('[', items.items.len(), level, out, |at, out| {
                    self.value(&items.items[at], level + 1, out)
                })?;
                out.push("]")
            }
            Value::Dict(dict) => {
                let mut entries: Vec<(String, &Value)> = dict
                    .entries()
                    .iter()
                    .map(|(key, value)| Ok((json_key(key)?, value)))
                    .collect::<Outcome<_>>()?;
                if self.sort {
                    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.container('{', entries.len(), level, out, |at, out| {
                    let (key, value) = &entries[at];
                    out.push(&self.text(key))?;
                    out.push(&self.key)?;
                    self.value(value, level + 1, out)
                })?;
                out.push("}")
            }
            Value::Undefined(why) => wrong(format!("{why}: it cannot be written as JSON")),
            other => wrong(format!("Object of type {} is not JSON serializable", other.kind())),
        }
    }

    fn container(
        &self,
        open: char,
        count: usize,
        level: usize,
        out: &mut Writer<'_>,
        mut each: impl FnMut(usize, &mut Writer<'_>) -> Outcome<()>,
    ) -> Outcome<()> {
        out.push(open.encode_utf8(&mut [0; 4]))?;
        let line = |level: usize, out: &mut Writer<'_>| match &self.indent {
            Some(indent) => {
                out.push("\n")?;
                (0..level).try_for_each(|_| out.push(indent))
            }
            None => Ok(()),
        };
        for at in 0..count {
            out.push(if at == 0 { "" } else { &self.item })?;
            line(level + 1, out)?;
            each(at, out)?;
        }
        if count > 0 {
            line(level, out)?;
        }
        Ok(())
    }

    fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 2);
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
        out
    }
}

fn json_float(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        float(number)
    }
}

fn json_key(key: &Value) -> Outcome<String> {
    Ok(match key {
        Value::Text(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => json_float(*number),
        Value::Bool(flag) => if *flag { "true" } else { "false" }.to_owned(),
        Value::None => "null".to_owned(),
        other => {
            return Err(Fault::Wrong(format!(
                "keys must be str, int, float, bool or None, not {}",
                other.kind()
            )));
        }
    })
}

/// A value as `str()` has it.
pub(super) fn text(value: &Value, meter: &Meter) -> Outcome<String> {
    let mut out = Writer::new(meter);
    out.value(value)?;
    Ok(out.text)
}

/// A value as `repr()` has it.
pub(super) fn repr(value: &Value, meter: &Meter) -> Outcome<String> {
    let mut out = Writer::new(meter);
    out.repr(value)?;
    Ok(out.text)
}

#[cfg(test)]
mod tests {
    use super::{float, is_printable};

    #[test]
    fn numbers_are_printed_as_python_prints_them() {
        let cases = [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-0.0, "-0.0"),
            (1.5e300, "1.5e+300"),
        ];
        for (number, text) in cases {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_not_printable() {
        assert!(is_printable(' ') && is_printable('é') && is_printable('你'));
        assert!(!is_printable('\u{a0}') && !is_printable('\u{200b}') && !is_printable('\u{7}'));
    }
}
