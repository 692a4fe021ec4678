//! The values of a template, which behave as Python's do.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::exec::{Loop, Macro};
use super::meter::{Meter, Outcome, wrong};

/// A value. Lists and dictionaries never change: the reference's sandbox forbids it, so they are shared freely.
#[derive(Clone)]
pub(super) enum Value {
    /// A name that has no value: printed as nothing, an error in nearly every operation. The text says why.
    Undefined(Rc<str>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Rc<str>),
    List(Rc<Items>),
    Tuple(Rc<Items>),
    Dict(Rc<Dict>),
    /// `range(start, stop, step)`
    Range(i128, i128, i128),
    /// Can be gone through once.
    Iterator(Rc<RefCell<VecDeque<Value>>>),
    /// `namespace(…)`: the one thing whose contents a template may change.
    Namespace(Rc<RefCell<Names>>),
    Macro(Rc<Macro>),
    /// A method of a value, by its name.
    Method(Rc<(Value, String)>),
    /// A function that is always there, by its name.
    Function(&'static str),
    Loop(Rc<Loop>),
    /// `joiner(…)`: nothing the first time, its text after that.
    Joiner(Rc<(Rc<str>, RefCell<bool>)>),
    /// `cycler(…)`: its values in turn.
    Cycler(Rc<(Vec<Value>, RefCell<usize>)>),
}

/// The contents of a namespace.
pub(super) type Names = Vec<(Rc<str>, Value)>;

/// The items of a list or tuple.
pub(super) struct Items {
    pub items: Vec<Value>,
    depth: u32,
}

/// Keys and values, in the order in which they were put in.
pub(super) struct Dict {
    entries: Vec<(Value, Value)>,
    places: HashMap<Key, usize>,
    depth: u32,
}

/// What a key is equal to: true is 1 is 1.0, as in Python.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    None,
    Int(i128),
    Float(u64),
    Text(Rc<str>),
    Tuple(Vec<Key>),
}

impl Key {
    fn new(value: &Value) -> Outcome<Self> {
        Ok(match value {
            Value::None => Self::None,
            Value::Bool(flag) => Self::Int((*flag).into()),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) if *number == number.trunc() && number.abs() < 1e30 => {
                Self::Int(*number as i128)
            }
            Value::Float(number) => Self::Float(number.to_bits()),
            Value::Text(text) => Self::Text(text.clone()),
            Value::Tuple(items) => Self::Tuple(items.items.iter().map(Self::new).collect::<Outcome<_>>()?),
            other => return wrong(format!("a {} cannot be a key", other.kind())),
        })
    }
}

impl Dict {
    pub fn new(pairs: impl IntoIterator<Item = (Value, Value)>, meter: &Meter) -> Outcome<Self> {
        let mut dict = Self { entries: Vec::new(), places: HashMap::new(), depth: 0 };
        for (key, value) in pairs {
            let place = Key::new(&key)?;
            meter.grow(4 * size_of::<Value>())?;
            if let Some(&at) = dict.places.get(&place) {
                dict.entries[at].1 = value;
            } else {
                dict.places.insert(place, dict.entries.len());
                dict.entries.push((key, value));
            }
        }
        dict.depth = meter.hold(dict.entries.iter().map(|(_, value)| value))?;
        Ok(dict)
    }

    pub fn get(&self, key: &Value) -> Option<&Value> {
        let at = *self.places.get(&Key::new(key).ok()?)?;
        Some(&self.entries[at].1)
    }

    pub fn get_text(&self, key: &str) -> Option<&Value> {
        let at = *self.places.get(&Key::Text(key.into()))?;
        Some(&self.entries[at].1)
    }

    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }
}

impl Value {
    /// A name without a value.
    pub fn undefined(name: &str) -> Self {
        Self::Undefined(format!("'{name}' is undefined").into())
    }

    pub fn list(items: Vec<Value>, meter: &Meter) -> Outcome<Self> {
        let depth = meter.hold(items.iter())?;
        Ok(Self::List(Rc::new(Items { items, depth })))
    }

    pub fn tuple(items: Vec<Value>, meter: &Meter) -> Outcome<Self> {
        let depth = meter.hold(items.iter())?;
        Ok(Self::Tuple(Rc::new(Items { items, depth })))
    }

    pub fn dict(pairs: impl IntoIterator<Item = (Value, Value)>, meter: &Meter) -> Outcome<Self> {
        Ok(Self::Dict(Rc::new(Dict::new(pairs, meter)?)))
    }

    /// What a filter gives out one by one.
    pub fn iterator(items: Vec<Value>, meter: &Meter) -> Outcome<Self> {
        meter.hold(items.iter())?;
        Ok(Self::Iterator(Rc::new(RefCell::new(items.into()))))
    }

    /// From JSON.
    pub fn from_json(json: &serde_json::Value, meter: &Meter) -> Outcome<Self> {
        use serde_json::Value as Json;
        Ok(match json {
            Json::Null => Self::None,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Self::Int(number.into()),
                (None, Some(number)) => Self::Int(number.into()),
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::Text(text.as_str().into()),
            Json::Array(items) => Self::list(
                items.iter().map(|item| Self::from_json(item, meter)).collect::<Outcome<_>>()?,
                meter,
            )?,
            Json::Object(map) => {
                let pair = |(key, value): (&String, &Json)| {
                    Ok((Self::Text(key.as_str().into()), Self::from_json(value, meter)?))
                };
                Self::dict(map.iter().map(pair).collect::<Outcome<Vec<_>>>()?, meter)?
            }
        })
    }

    /// How many values lie within each other.
    pub fn depth(&self) -> u32 {
        match self {
            Self::List(items) | Self::Tuple(items) => items.depth,
            Self::Dict(dict) => dict.depth,
            _ => 0,
        }
    }

    /// What Python calls its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "str",
            Self::List(_) => "list",
            Self::Tuple(_) => "tuple",
            Self::Dict(_) => "dict",
            Self::Range(..) => "range",
            Self::Iterator(_) => "generator",
            Self::Namespace(_) => "Namespace",
            Self::Macro(_) => "Macro",
            Self::Method(_) | Self::Function(_) => "function",
            Self::Loop(_) => "LoopContext",
            Self::Joiner(_) => "Joiner",
            Self::Cycler(_) => "Cycler",
        }
    }

    /// Whether it counts as true.
    pub fn truth(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(flag) => *flag,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(items) | Self::Tuple(items) => !items.items.is_empty(),
            Self::Dict(dict) => !dict.entries.is_empty(),
            Self::Range(..) => self.length().is_some_and(|length| length > 0),
            _ => true,
        }
    }

    /// How many items it has, where it has items.
    pub fn length(&self) -> Option<usize> {
        Some(match self {
            Self::Undefined(_) => 0,
            Self::Text(text) => text.chars().count(),
            Self::List(items) | Self::Tuple(items) => items.items.len(),
            Self::Dict(dict) => dict.entries.len(),
            Self::Range(start, stop, step) => {
                let distance = if *step > 0 { stop - start } else { start - stop };
                if distance <= 0 { 0 } else { ((distance - 1) / step.abs() + 1) as usize }
            }
            Self::Loop(state) => state.items.len(),
            _ => return None,
        })
    }

    /// The items to go through, of anything that can be gone through.
    pub fn items(&self, meter: &Meter) -> Outcome<Vec<Value>> {
        let count = self.length().unwrap_or(0);
        meter.grow(count.saturating_mul(size_of::<Value>()))?;
        Ok(match self {
            Self::Undefined(_) => Vec::new(),
            Self::Text(text) => text.chars().map(|c| Self::Text(c.encode_utf8(&mut [0; 4]).into())).collect(),
            Self::List(items) | Self::Tuple(items) => items.items.clone(),
            Self::Dict(dict) => dict.entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Range(start, _, step) => (0..count as i128).map(|k| Self::Int(start + k * step)).collect(),
            Self::Iterator(items) => items.borrow_mut().drain(..).collect(),
            other => return wrong(format!("'{}' object is not iterable", other.kind())),
        })
    }

    /// A number, of true and false too.
    pub fn number(&self) -> Option<Number> {
        Some(match self {
            Self::Bool(flag) => Number::Int((*flag).into()),
            Self::Int(number) => Number::Int(*number),
            Self::Float(number) => Number::Float(*number),
            _ => return None,
        })
    }

    /// An integer.
    pub fn integer(&self) -> Option<i128> {
        match self.number() {
            Some(Number::Int(number)) => Some(number),
            _ => None,
        }
    }

    /// Whether two values are equal. Values may share parts, so that a small one has endlessly many: each is counted.
    pub fn equals(&self, other: &Self, meter: &Meter) -> Outcome<bool> {
        meter.step(1)?;
        Ok(match (self, other) {
            (Self::Undefined(_), Self::Undefined(_)) | (Self::None, Self::None) => true,
            (Self::Text(a), Self::Text(b)) => {
                meter.step(a.len().min(b.len()) / 64)?;
                a == b
            }
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                let same = a.items.len() == b.items.len();
                same && all(a.items.iter().zip(&b.items), |(a, b)| a.equals(b, meter))?
            }
            (Self::Dict(a), Self::Dict(b)) => {
                let same = a.entries.len() == b.entries.len();
                same && all(&a.entries, |(key, value)| match b.get(key) {
                    Some(other) => value.equals(other, meter),
                    None => Ok(false),
                })?
            }
            (Self::Range(a, b, c), Self::Range(d, e, f)) => (a, b, c) == (d, e, f),
            (Self::Namespace(a), Self::Namespace(b)) => Rc::ptr_eq(a, b),
            (Self::Macro(a), Self::Macro(b)) => Rc::ptr_eq(a, b),
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a.order(b) == Some(Ordering::Equal),
                _ => false,
            },
        })
    }

    /// Which of two values is smaller.
    pub fn order(&self, other: &Self, meter: &Meter) -> Outcome<Option<Ordering>> {
        meter.step(1)?;
        match (self, other) {
            (Self::Undefined(why), _) | (_, Self::Undefined(why)) => wrong(&**why),
            (Self::Text(a), Self::Text(b)) => {
                meter.step(a.len().min(b.len()) / 64)?;
                Ok(Some(a.cmp(b)))
            }
            (Self::List(a), Self::List(b)) | (Self::Tuple(a), Self::Tuple(b)) => {
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.equals(b, meter)? {
                        return a.order(b, meter);
                    }
                }
                Ok(Some(a.items.len().cmp(&b.items.len())))
            }
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => Ok(a.order(b)),
                _ => wrong(format!("'{}' and '{}' cannot be ordered", self.kind(), other.kind())),
            },
        }
    }

    /// Whether this contains another.
    pub fn contains(&self, item: &Self, meter: &Meter) -> Outcome<bool> {
        match self {
            Self::Text(text) => match item {
                Self::Text(part) => {
                    meter.step(text.len() / 16)?;
                    Ok(text.contains(&**part))
                }
                Self::Undefined(why) => wrong(&**why),
                other => {
                    wrong(format!("'in <string>' requires string as left operand, not {}", other.kind()))
                }
            },
            Self::Dict(dict) => {
                Key::new(item)?;
                Ok(dict.get(item).is_some())
            }
            Self::List(items) | Self::Tuple(items) => any(&items.items, |other| item.equals(other, meter)),
            other => any(&other.items(meter)?, |other| item.equals(other, meter)),
        }
    }
}

/// A number of either kind.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn float(self) -> f64 {
        match self {
            Self::Int(number) => number as f64,
            Self::Float(number) => number,
        }
    }

    pub fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

/// Whether something holds of all, which may fail.
pub(super) fn all<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Outcome<bool>,
) -> Outcome<bool> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether something holds of any, which may fail.
pub(super) fn any<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Outcome<bool>,
) -> Outcome<bool> {
    Ok(!all(items, |item| Ok(!holds(item)?))?)
}
