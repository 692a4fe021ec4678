//! A machine for the part of pickle that tensors need.
//!
//! A pickle is a program for a machine with a stack and a memo. This one knows the operations that build numbers, texts,
//! tuples, lists, dictionaries and tensors; it can call nothing but the cases of [`Global`], all done by us. Any other
//! operation or name ends the reading with an error that says which. Work and memory are bounded by the length of the
//! program, and by [`MOST`]. <https://github.com/python/cpython/blob/main/Lib/pickletools.py>

use crate::Error;
use crate::contents::DIMENSIONS;
use crate::error::clip;
use crate::reader::Reader;

use super::value::{Global, Object, Storage, Tensor, Value};

/// The most values on the stack, in the memo and in the list of objects: some twenty thousand tensors in one file.
const MOST: usize = 1 << 18;
/// Calls inside calls, when a tensor of a class of its own is made.
const DEEPEST_CALL: usize = 4;

/// What a program left behind.
pub(super) struct Pickle<'a> {
    pub(super) root: Value<'a>,
    pub(super) objects: Vec<Object<'a>>,
}

struct Machine<'r, 'a> {
    reader: &'r mut Reader<'a>,
    stack: Vec<Value<'a>>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: Vec<Option<Value<'a>>>,
    objects: Vec<Object<'a>>,
}

/// Runs the program that begins here, to its end.
pub(super) fn run<'a>(reader: &mut Reader<'a>) -> Result<Pickle<'a>, Error> {
    let (stack, marks, memo, objects) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut machine = Machine { reader, stack, marks, memo, objects };
    loop {
        let at = machine.reader.at();
        let operation = machine.reader.u8("an operation")?;
        if operation == b'.' {
            let root = machine.pop()?;
            return Ok(Pickle { root, objects: machine.objects });
        }
        machine.step(operation, at)?;
        let largest = machine.stack.len().max(machine.objects.len()).max(machine.marks.len());
        if largest > MOST {
            return Err(machine.too_many("has"));
        }
    }
}

impl<'a> Machine<'_, 'a> {
    fn step(&mut self, operation: u8, at: usize) -> Result<(), Error> {
        if let Some(value) = self.literal(operation)? {
            self.stack.push(value);
            return Ok(());
        }
        match operation {
            b'(' => self.marks.push(self.stack.len()),
            // Taking a value off, and setting the attributes of an object: no tensor depends on them.
            b'0' | b'b' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'2' => self.stack.push(self.top()?),
            b')' => self.make(Object::Tuple(Vec::new())),
            b']' => self.make(Object::List(Vec::new())),
            b'}' => self.make(Object::Dict(Vec::new())),
            b't' => {
                let items = self.pop_mark()?;
                self.make(Object::Tuple(items));
            }
            b'l' => {
                let items = self.pop_mark()?;
                self.make(Object::List(items));
            }
            b'd' => {
                let items = self.pop_mark()?;
                let pairs = self.pairs(&items)?;
                self.make(Object::Dict(pairs));
            }
            0x85..=0x87 => {
                let items = self.pop_many(usize::from(operation - 0x84))?;
                self.make(Object::Tuple(items));
            }
            b'a' | b'e' => self.append(operation)?,
            b's' | b'u' => self.insert(operation)?,
            b'q' | b'r' | 0x94 => self.remember(operation)?,
            b'h' | b'j' => self.recall(operation)?,
            b'c' | 0x93 => self.global(operation)?,
            b'Q' => self.persistent()?,
            b'R' | 0x81 => self.call()?,
            0x80 => self.protocol()?,
            0x95 => drop(self.reader.u64("a frame")?),
            _ => {
                return Err(self.refused(format!(
                    "operation {operation:#04x} of the pickle at byte {at} is not allowed"
                )));
            }
        }
        Ok(())
    }

    /// The value of an operation that only pushes one.
    fn literal(&mut self, operation: u8) -> Result<Option<Value<'a>>, Error> {
        let reader = &mut *self.reader;
        Ok(Some(match operation {
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Integer(reader.u8("an integer")?.into()),
            b'M' => Value::Integer(reader.u16("an integer")?.into()),
            b'J' => Value::Integer(reader.u32("an integer")?.cast_signed().into()),
            0x8a => {
                let length = reader.u8("a length")?;
                long(reader.take(length.into(), "an integer")?)
            }
            0x8b => {
                let length = reader.u32("a length")?;
                long(reader.take(length.into(), "an integer")?)
            }
            b'G' => Value::Float(f64::from_bits(reader.u64("a number")?.swap_bytes())),
            b'U' | 0x8c => {
                let length = reader.u8("a length")?;
                Value::Text(reader.text(length.into(), "a text")?)
            }
            b'T' | b'X' => {
                let length = reader.u32("a length")?;
                Value::Text(reader.text(length.into(), "a text")?)
            }
            0x8d => {
                let length = reader.u64("a length")?;
                Value::Text(reader.text(length, "a text")?)
            }
            b'C' => {
                let length = reader.u8("a length")?;
                Value::Bytes(reader.take(length.into(), "bytes")?)
            }
            b'B' => {
                let length = reader.u32("a length")?;
                Value::Bytes(reader.take(length.into(), "bytes")?)
            }
            0x8e => {
                let length = reader.u64("a length")?;
                Value::Bytes(reader.take(length, "bytes")?)
            }
            _ => return Ok(None),
        }))
    }

    fn protocol(&mut self) -> Result<(), Error> {
        match self.reader.u8("the protocol")? {
            2..=5 => Ok(()),
            other => Err(self
                .reader
                .unsupported(format!("pickle protocol {other}"), "save it again with protocol 2")),
        }
    }

    fn append(&mut self, operation: u8) -> Result<(), Error> {
        let items = if operation == b'a' { self.pop_many(1)? } else { self.pop_mark()? };
        match self.object()? {
            Object::List(list) => list.extend(items),
            _ => return Err(self.damaged("the pickle appends to what is no list")),
        }
        Ok(())
    }

    fn insert(&mut self, operation: u8) -> Result<(), Error> {
        let items = if operation == b's' { self.pop_many(2)? } else { self.pop_mark()? };
        let pairs = self.pairs(&items)?;
        match self.object()? {
            Object::Dict(dict) => dict.extend(pairs),
            _ => return Err(self.damaged("the pickle sets items of what is no dictionary")),
        }
        Ok(())
    }

    fn remember(&mut self, operation: u8) -> Result<(), Error> {
        let slot = match operation {
            b'q' => self.reader.u8("a memo")?.into(),
            b'r' => self.reader.u32("a memo")? as usize,
            _ => self.memo.len(),
        };
        if slot >= MOST {
            return Err(self.too_many("remembers"));
        }
        if slot >= self.memo.len() {
            self.memo.resize(slot + 1, None);
        }
        self.memo[slot] = Some(self.top()?);
        Ok(())
    }

    fn recall(&mut self, operation: u8) -> Result<(), Error> {
        let slot = if operation == b'h' {
            self.reader.u8("a memo")?.into()
        } else {
            self.reader.u32("a memo")? as usize
        };
        match self.memo.get(slot) {
            Some(&Some(value)) => self.stack.push(value),
            _ => return Err(self.damaged(format!("the pickle recalls {slot}, which it never remembered"))),
        }
        Ok(())
    }

    fn global(&mut self, operation: u8) -> Result<(), Error> {
        let (module, name) = if operation == b'c' {
            (self.line()?, self.line()?)
        } else {
            match self.pop_many(2)?[..] {
                [Value::Text(module), Value::Text(name)] => (module, name),
                _ => return Err(self.damaged("the pickle names something by what is no text")),
            }
        };
        let Some(global) = Global::named(module, name) else {
            let name = clip(&format!("{module}.{name}"));
            return Err(
                self.refused(format!("the pickle asks for {name:?}, which is not among what tensors need"))
            );
        };
        self.stack.push(Value::Global(global));
        Ok(())
    }

    /// Text up to the end of the line.
    fn line(&mut self) -> Result<&'a str, Error> {
        let length = self.reader.rest().iter().position(|&byte| byte == b'\n');
        let Some(length) = length else { return Err(self.damaged("a name in the pickle has no end")) };
        let text = self.reader.text(length as u64, "a name")?;
        self.reader.take(1, "the end of a line")?;
        Ok(text)
    }

    /// A storage outside the pickle: a tuple of the word, its type, key, device and count and, in the old format, a part.
    fn persistent(&mut self) -> Result<(), Error> {
        let id = self.pop()?;
        let storage = match self.tuple(id)? {
            &[
                Value::Text("storage"),
                Value::Global(Global::Storage(dtype)),
                Value::Text(key),
                _,
                count,
                ref part @ ..,
            ] => {
                let part = match part {
                    [] | [Value::None] => None,
                    &[Value::Object(part)] => match self.tuple(Value::Object(part))? {
                        &[_, start, count] => Some((self.size(start)?, self.size(count)?)),
                        _ => return Err(self.damaged("a part of a storage is not three values")),
                    },
                    _ => return Err(self.damaged("a storage has too many values")),
                };
                Storage { key, dtype, count: self.size(count)?, part }
            }
            _ => return Err(self.refused("the pickle refers to something outside that is no storage")),
        };
        self.make(Object::Storage(Box::new(storage)));
        Ok(())
    }

    fn call(&mut self) -> Result<(), Error> {
        let [Value::Global(mut function), mut arguments] = self.pop_many(2)?[..] else {
            return Err(self.refused("the pickle calls what is no function"));
        };
        for _ in 0..DEEPEST_CALL {
            let given = self.tuple(arguments)?;
            match (function, given) {
                (Global::Call, &[Value::Global(inner), _, values, ..]) => {
                    (function, arguments) = (inner, values);
                }
                (Global::Same, &[first, ..]) => {
                    self.stack.push(first);
                    return Ok(());
                }
                (Global::Rebuild | Global::RebuildTyped, given) => {
                    let tensor = self.tensor(function, given)?;
                    self.make(Object::Tensor(Box::new(tensor)));
                    return Ok(());
                }
                (Global::Dict, given) => {
                    let pairs = self.dict(given)?;
                    self.make(Object::Dict(pairs));
                    return Ok(());
                }
                (Global::Aside, _) => {
                    self.stack.push(Value::None);
                    return Ok(());
                }
                (Global::Call | Global::Same | Global::Storage(_) | Global::Dtype(_), _) => {
                    return Err(
                        self.refused(format!("the pickle calls {function:?} in a way that makes no tensor"))
                    );
                }
            }
        }
        Err(self.refused("the pickle calls functions inside functions"))
    }

    /// A tensor from the arguments of the function that rebuilds it.
    fn tensor(&self, function: Global, arguments: &[Value<'a>]) -> Result<Tensor, Error> {
        let dtype = match (function, arguments.get(6)) {
            (Global::RebuildTyped, Some(&Value::Global(Global::Dtype(dtype)))) => Some(dtype),
            (Global::RebuildTyped, _) => return Err(self.damaged("a tensor has no type")),
            _ => None,
        };
        let &[Value::Object(storage), start, shape, strides, ..] = arguments else {
            return Err(self.damaged("a tensor is not made of a storage, a start, a shape and strides"));
        };
        if !matches!(self.objects.get(storage), Some(Object::Storage(_))) {
            return Err(self.damaged("a tensor is made of what is no storage"));
        }
        let sizes =
            |value| self.tuple(value)?.iter().map(|&size| self.size(size)).collect::<Result<Vec<_>, _>>();
        let (shape, strides) = (sizes(shape)?, sizes(strides)?);
        if shape.len() > DIMENSIONS || shape.len() != strides.len() {
            let (shape, strides) = (shape.len(), strides.len());
            return Err(self.damaged(format!("a tensor has {shape} dimensions and {strides} strides")));
        }
        Ok(Tensor { storage, start: self.size(start)?, shape, strides, dtype })
    }

    /// The pairs of a dictionary made from nothing, or from a list of pairs.
    fn dict(&self, arguments: &[Value<'a>]) -> Result<Vec<(Value<'a>, Value<'a>)>, Error> {
        let items = match arguments {
            [] => return Ok(Vec::new()),
            &[Value::Object(list)] => self.objects.get(list),
            _ => None,
        };
        let Some(Object::List(items)) = items else {
            return Err(self.damaged("a dictionary is made of what is no list"));
        };
        let pair = |&item| match self.items(item) {
            Some(&[key, value]) => Ok((key, value)),
            _ => Err(self.damaged("a dictionary is made of what are no pairs")),
        };
        items.iter().map(pair).collect()
    }

    fn pairs(&self, items: &[Value<'a>]) -> Result<Vec<(Value<'a>, Value<'a>)>, Error> {
        match items.as_chunks() {
            (pairs, []) => Ok(pairs.iter().map(|&[key, value]| (key, value)).collect()),
            _ => Err(self.damaged("a dictionary has a key without a value")),
        }
    }

    fn make(&mut self, object: Object<'a>) {
        self.stack.push(Value::Object(self.objects.len()));
        self.objects.push(object);
    }

    /// The values of a tuple.
    fn tuple(&self, value: Value) -> Result<&[Value<'a>], Error> {
        match value {
            Value::Object(index) => match self.objects.get(index) {
                Some(Object::Tuple(items)) => Ok(items),
                _ => Err(self.damaged("the pickle has something else where a tuple should be")),
            },
            _ => Err(self.damaged("the pickle has something else where a tuple should be")),
        }
    }

    /// The values of a tuple or a list.
    fn items(&self, value: Value) -> Option<&[Value<'a>]> {
        let Value::Object(index) = value else { return None };
        match self.objects.get(index)? {
            Object::Tuple(items) | Object::List(items) => Some(items),
            Object::Dict(_) | Object::Storage(_) | Object::Tensor(_) => None,
        }
    }

    fn size(&self, value: Value) -> Result<usize, Error> {
        match value {
            Value::Integer(size) if size >= 0 => Ok(size as usize),
            other => Err(self.damaged(format!("the pickle has {other:?} where a size should be"))),
        }
    }

    /// The object on top of the stack.
    fn object(&mut self) -> Result<&mut Object<'a>, Error> {
        let Value::Object(index) = self.top()? else {
            return Err(self.damaged("the pickle changes what cannot be changed"));
        };
        Ok(&mut self.objects[index])
    }

    fn top(&self) -> Result<Value<'a>, Error> {
        match self.stack.last() {
            Some(&value) if self.marks.last().is_none_or(|&mark| mark < self.stack.len()) => Ok(value),
            _ => Err(self.damaged("the pickle takes a value from an empty stack")),
        }
    }

    fn pop(&mut self) -> Result<Value<'a>, Error> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    /// The upper `count` values, the uppermost last.
    fn pop_many(&mut self, count: usize) -> Result<Vec<Value<'a>>, Error> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= floor => Ok(self.stack.drain(start..).collect()),
            _ => Err(self.damaged("the pickle takes a value from an empty stack")),
        }
    }

    /// Everything above the last mark, and the mark.
    fn pop_mark(&mut self) -> Result<Vec<Value<'a>>, Error> {
        match self.marks.pop() {
            // Not `split_off`, which may hand out the whole capacity of the stack each time.
            Some(mark) => Ok(self.stack.drain(mark..).collect()),
            None => Err(self.damaged("the pickle looks for a mark that is not there")),
        }
    }

    fn damaged(&self, reason: impl AsRef<str>) -> Error {
        self.reader.damaged(reason)
    }

    fn too_many(&self, does: &str) -> Error {
        self.reader
            .unsupported(format!("the pickle {does} more than {MOST} values"), "save it as safetensors")
    }

    fn refused(&self, reason: impl AsRef<str>) -> Error {
        Error::Refused { path: self.reader.path().into(), reason: clip(reason.as_ref()) }
    }
}

/// An integer in two's complement, little-endian, of any length.
fn long(bytes: &[u8]) -> Value<'_> {
    let mut eight = if bytes.last().is_some_and(|byte| byte >> 7 == 1) { [0xff; 8] } else { [0; 8] };
    match eight.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            Value::Integer(i64::from_le_bytes(eight))
        }
        None => Value::Long(bytes),
    }
}
