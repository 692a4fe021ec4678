//! `'%s' % x` and `'{}'.format(x)`: the parts of Python's formatting that templates use.

use super::args::Args;
use super::meter::{Meter, Outcome, wrong};
use super::show::{self, Writer};
use super::value::{Number, Value};

/// How one value is written.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
    comma: bool,
    kind: Option<char>,
}

/// Wider than any honest template asks for, and the most that Rust writes.
const WIDEST: usize = u16::MAX as usize;

impl Spec {
    fn write(&self, value: &Value, out: &mut Writer<'_>, meter: &Meter) -> Outcome<()> {
        let (text, number) = match (self.kind, value.number()) {
            (None | Some('s'), None) | (Some('s'), Some(_)) => (show::text(value, meter)?, false),
            (Some('r'), _) => (show::repr(value, meter)?, false),
            (None, Some(_)) if matches!(value, Value::Bool(_)) => (show::text(value, meter)?, false),
            (kind, Some(number)) => (self.number(kind, number)?, true),
            (Some(kind), None) => {
                return wrong(format!("%{kind} format: a number is required, not {}", value.kind()));
            }
        };
        let text = match self.precision {
            Some(precision) if !number => text.chars().take(precision).collect(),
            _ => text,
        };
        let missing = self.width.saturating_sub(text.chars().count());
        let fill = self.fill.unwrap_or(' ').to_string();
        let left = match self.align {
            Some('<') => 0,
            Some('^') => missing / 2,
            Some(_) => missing,
            None if number => missing,
            None => 0,
        };
        // Zeros go between the sign and the digits.
        let sign = if self.align == Some('=') { usize::from(text.starts_with(['-', '+'])) } else { 0 };
        meter.grow(text.len() + missing * fill.len())?;
        out.push(&text[..sign])?;
        out.push(&fill.repeat(left))?;
        out.push(&text[sign..])?;
        out.push(&fill.repeat(missing - left))
    }

    fn number(&self, kind: Option<char>, number: Number) -> Outcome<String> {
        let precision = self.precision.unwrap_or(6);
        let text = match (kind, number) {
            (None, Number::Float(number)) if self.precision.is_none() => show::float(number),
            (None | Some('d' | 'i' | 'u'), Number::Int(number)) => number.to_string(),
            (Some('d' | 'i' | 'u'), Number::Float(number)) => format!("{:.0}", number.trunc()),
            (Some('x'), Number::Int(number)) => radix(number, |n| format!("{n:x}")),
            (Some('X'), Number::Int(number)) => radix(number, |n| format!("{n:X}")),
            (Some('o'), Number::Int(number)) => radix(number, |n| format!("{n:o}")),
            (Some('b'), Number::Int(number)) => radix(number, |n| format!("{n:b}")),
            (Some('f' | 'F'), number) => format!("{:.precision$}", number.float()),
            (Some('%'), number) => format!("{:.precision$}%", number.float() * 100.0),
            (kind, _) => return wrong(format!("the format '{}' is not supported", kind.unwrap_or('g'))),
        };
        let text = if self.comma { grouped(&text) } else { text };
        Ok(match self.sign {
            Some(sign @ ('+' | ' ')) if !text.starts_with('-') => format!("{sign}{text}"),
            _ => text,
        })
    }
}

fn radix(number: i128, digits: impl Fn(u128) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, digits(number.unsigned_abs()))
}

/// Commas between thousands.
fn grouped(text: &str) -> String {
    let begin = usize::from(text.starts_with('-'));
    let end = text.find('.').unwrap_or(text.len());
    let mut out = text[..begin].to_owned();
    for (at, digit) in text[begin..end].chars().enumerate() {
        if at > 0 && (end - begin - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + &text[end..]
}

fn width(text: &str) -> Outcome<usize> {
    match text.parse() {
        Ok(width) if width <= WIDEST => Ok(width),
        _ => wrong("the width of a format is too large"),
    }
}

/// Digits at the beginning of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `pattern % values`
pub(super) fn percent(pattern: &str, values: &Value, meter: &Meter) -> Outcome<Value> {
    let mut places = match values {
        Value::Tuple(items) => items.items.clone(),
        other => vec![other.clone()],
    }
    .into_iter();
    let mut out = Writer::new(meter);
    let mut rest = pattern;
    let mut named = false;
    while let Some((before, after)) = rest.split_once('%') {
        out.push(before)?;
        let mut spec = Spec { align: Some('>'), ..Spec::default() };
        let mut value = None;
        let mut body = after;
        if let Some(inside) = body.strip_prefix('(') {
            let Some((name, after)) = inside.split_once(')') else { return wrong("incomplete format key") };
            let Value::Dict(dict) = values else { return wrong("format requires a mapping") };
            named = true;
            value = dict.get_text(name).cloned();
            body = after;
        }
        while let Some(flag) = body.chars().next().filter(|c| "-+ 0#".contains(*c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '0' if spec.align != Some('<') => (spec.fill, spec.align) = (Some('0'), Some('=')),
                '+' | ' ' => spec.sign = Some(flag),
                _ => {}
            }
            body = &body[1..];
        }
        let (number, after) = digits(body);
        if !number.is_empty() {
            spec.width = width(number)?;
        }
        body = after;
        if let Some(after) = body.strip_prefix('.') {
            let (number, after) = digits(after);
            spec.precision = Some(if number.is_empty() { 0 } else { width(number)? });
            body = after;
        }
        let Some(kind) = body.chars().next() else { return wrong("incomplete format") };
        rest = &body[kind.len_utf8()..];
        if kind == '%' {
            out.push("%")?;
            continue;
        }
        spec.kind = Some(kind);
        let Some(value) = value.or_else(|| if named { None } else { places.next() }) else {
            return wrong("not enough arguments for format string");
        };
        spec.write(&value, &mut out, meter)?;
    }
    out.push(rest)?;
    if !named && places.next().is_some() && !matches!(values, Value::Dict(_)) {
        return wrong("not all arguments converted during string formatting");
    }
    Ok(Value::Text(out.text.into()))
}

/// `pattern.format(…)`
pub(super) fn braces(pattern: &str, args: &Args, meter: &Meter) -> Outcome<Value> {
    let mut out = Writer::new(meter);
    let mut next = 0;
    let mut rest = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at])?;
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            out.push(brace)?;
            rest = after;
            continue;
        }
        let Some((field, after)) = after.split_once('}').filter(|_| brace == "{") else {
            return wrong("a single brace in a format string");
        };
        rest = after;
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = field.split_once('!').unwrap_or((field, ""));
        let value = if name.is_empty() {
            next += 1;
            args.places.get(next - 1).cloned()
        } else if let Ok(place) = name.parse::<usize>() {
            args.places.get(place).cloned()
        } else {
            args.names.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let Some(value) = value else {
            return wrong(format!("the format string asks for {name:?}, which is not given"));
        };
        let mut spec = brace_spec(spec)?;
        if conversion == "r" {
            spec.kind = Some('r');
        }
        spec.write(&value, &mut out, meter)?;
    }
    out.push(rest)?;
    Ok(Value::Text(out.text.into()))
}

/// `[[fill]align][sign][0][width][,][.precision][type]`
fn brace_spec(text: &str) -> Outcome<Spec> {
    let mut spec = Spec::default();
    let mut rest = text;
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    if let (Some(fill), Some(align)) = (first, second.filter(|c| "<>^=".contains(*c))) {
        (spec.fill, spec.align) = (Some(fill), Some(align));
        rest = chars.as_str();
    } else if let Some(align) = first.filter(|c| "<>^=".contains(*c)) {
        spec.align = Some(align);
        rest = &text[1..];
    }
    if let Some(sign) = rest.chars().next().filter(|c| "+- ".contains(*c)) {
        spec.sign = Some(sign);
        rest = &rest[1..];
    }
    if rest.starts_with('0') && spec.align.is_none() {
        (spec.fill, spec.align) = (Some('0'), Some('='));
    }
    let (number, after) = digits(rest);
    if !number.is_empty() {
        spec.width = width(number)?;
    }
    rest = after;
    if let Some(after) = rest.strip_prefix(',') {
        spec.comma = true;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('.') {
        let (number, after) = digits(after);
        spec.precision = Some(width(number)?);
        rest = after;
    }
    spec.kind = rest.chars().next();
    if rest.chars().count() > 1 {
        return wrong(format!("the format {text:?} is not supported"));
    }
    Ok(spec)
}
