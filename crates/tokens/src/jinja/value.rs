//! The values of a template, which behave as Python's do.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Definition, For};
use super::meter::{Fault, Meter, Outcome, wrong};

/// Lists, tuples and dictionaries within each other. Printing and dropping them recurses.
const DEEPEST_VALUE: u32 = 200;

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
    Iterator(Rc<Series>),
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
    Cycler(Rc<(Items, Cell<usize>)>),
}

/// The contents of a namespace.
pub(super) type Names = Vec<(Rc<str>, Value)>;

/// The items of a list or tuple.
pub(super) struct Items {
    pub items: Vec<Value>,
    depth: u32,
}

/// The items that an iterator has not given out.
pub(super) struct Series {
    left: RefCell<VecDeque<Value>>,
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

/// A macro, with the names around its definition.
pub(super) struct Macro {
    pub definition: Arc<Definition>,
    pub scope: Scope,
}

/// The loop that a body is in.
pub(super) struct Loop {
    pub items: Vec<Value>,
    /// How deep they are.
    pub within: u32,
    pub index: Cell<usize>,
    pub depth: usize,
    /// For loops that call themselves.
    pub recursion: Option<(Arc<For>, Scope)>,
    /// What `loop.changed` was given last.
    pub last: RefCell<Option<Value>>,
}

/// Names and their values, inside other names.
#[derive(Clone)]
pub(super) struct Scope(Rc<Frame>);

struct Frame {
    names: RefCell<HashMap<Rc<str>, Value>>,
    parent: Option<Scope>,
}

impl Scope {
    pub fn new(parent: Option<&Self>) -> Self {
        Self(Rc::new(Frame { names: RefCell::default(), parent: parent.cloned() }))
    }

    pub fn set(&self, name: &str, value: Value) {
        self.0.names.borrow_mut().insert(name.into(), value);
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let mut scope = Some(self);
        while let Some(Self(frame)) = scope {
            if let Some(value) = frame.names.borrow().get(name) {
                return Some(value.clone());
            }
            scope = frame.parent.as_ref();
        }
        None
    }

    /// Lets go of all values.
    pub fn clear(&self) {
        self.0.names.take();
    }
}

impl Key {
    /// Of a tuple all parts are looked at, which may share parts and so be endlessly many: each is counted.
    fn new(value: &Value, meter: &Meter) -> Outcome<Self> {
        meter.step(1)?;
        Ok(match value {
            Value::None => Self::None,
            Value::Bool(flag) => Self::Int((*flag).into()),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) if *number == number.trunc() && number.abs() < 1e30 => {
                Self::Int(*number as i128)
            }
            Value::Float(number) => Self::Float(number.to_bits()),
            Value::Text(text) => {
                meter.read(text)?;
                Self::Text(text.clone())
            }
            Value::Tuple(items) => {
                meter.grow(items.items.len().saturating_mul(size_of::<Self>()))?;
                Self::Tuple(items.items.iter().map(|item| Self::new(item, meter)).collect::<Outcome<_>>()?)
            }
            other => return wrong(format!("a {} cannot be a key", other.kind())),
        })
    }
}

impl Dict {
    pub fn new(pairs: impl IntoIterator<Item = (Value, Value)>, meter: &Meter) -> Outcome<Self> {
        let mut dict = Self { entries: Vec::new(), places: HashMap::new(), depth: 0 };
        for (key, value) in pairs {
            let place = Key::new(&key, meter)?;
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

    /// The value of a key; nothing for what cannot be one.
    pub fn get(&self, key: &Value, meter: &Meter) -> Outcome<Option<&Value>> {
        match Key::new(key, meter) {
            Ok(key) => Ok(self.places.get(&key).map(|&at| &self.entries[at].1)),
            Err(Fault::Wrong(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Whether it has this key; an error for what cannot be one.
    pub fn holds(&self, key: &Value, meter: &Meter) -> Outcome<bool> {
        Ok(self.places.contains_key(&Key::new(key, meter)?))
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
        let depth = meter.hold(items.iter())?;
        Ok(Self::Iterator(Rc::new(Series { left: RefCell::new(items.into()), depth })))
    }

    /// These in turn, again and again.
    pub fn cycler(items: Vec<Value>, meter: &Meter) -> Outcome<Self> {
        let depth = meter.hold(items.iter())?;
        Ok(Self::Cycler(Rc::new((Items { items, depth }, Cell::new(0)))))
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

    /// How many values lie within each other. What a namespace, a macro or `loop.changed` holds does not count: it is let go
    /// of at the end, one by one.
    pub fn depth(&self) -> u32 {
        match self {
            Self::List(items) | Self::Tuple(items) => items.depth,
            Self::Dict(dict) => dict.depth,
            Self::Iterator(series) => series.depth,
            Self::Cycler(cycler) => cycler.0.depth,
            Self::Loop(state) => state.within,
            Self::Method(method) => method.0.depth(),
            Self::Undefined(_)
            | Self::None
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Range(..)
            | Self::Namespace(_)
            | Self::Macro(_)
            | Self::Function(_)
            | Self::Joiner(_) => 0,
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
            Self::Iterator(series) => series.left.borrow_mut().drain(..).collect(),
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
}

impl Meter {
    /// A text.
    pub fn text(&self, text: impl Into<Rc<str>> + AsRef<str>) -> Outcome<Value> {
        self.grow(text.as_ref().len())?;
        Ok(Value::Text(text.into()))
    }

    /// The depth of a value that holds these, once the room for them was counted.
    pub fn hold<'v>(&self, items: impl ExactSizeIterator<Item = &'v Value>) -> Outcome<u32> {
        self.grow(items.len().saturating_mul(size_of::<Value>()))?;
        let depth = items.map(Value::depth).max().unwrap_or(0) + 1;
        if depth > DEEPEST_VALUE {
            return Err(Fault::Exhausted(format!("{DEEPEST_VALUE} values within each other")));
        }
        Ok(depth)
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
