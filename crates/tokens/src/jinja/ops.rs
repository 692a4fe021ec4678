//! Operators, as Python has them.

use super::ast::Operator;
use super::exec::Renderer;
use super::format;
use super::meter::{Outcome, wrong};
use super::value::{Number, Value};

pub(super) fn negative(value: &Value) -> Outcome<Value> {
    match (value, value.number()) {
        (Value::Undefined(why), _) => wrong(&**why),
        (_, Some(Number::Int(number))) => match number.checked_neg() {
            Some(number) => Ok(Value::Int(number)),
            None => wrong("the number is too large"),
        },
        (_, Some(Number::Float(number))) => Ok(Value::Float(-number)),
        (other, None) => wrong(format!("bad operand type for unary -: '{}'", other.kind())),
    }
}

impl Renderer<'_> {
    pub(super) fn binary(&self, operator: Operator, left: &Value, right: &Value) -> Outcome<Value> {
        if let (Value::Undefined(why), _) | (_, Value::Undefined(why)) = (left, right) {
            // a text takes whatever stands after its %
            if !(operator == Operator::Modulo && matches!(left, Value::Text(_))) {
                return wrong(&**why);
            }
        }
        match (operator, left, right) {
            (Operator::Add, Value::Text(a), Value::Text(b)) => {
                self.meter.grow(a.len() + b.len())?;
                Ok(Value::Text([&**a, &**b].concat().into()))
            }
            (Operator::Add, Value::List(a), Value::List(b)) => {
                self.meter.grow((a.items.len() + b.items.len()) * size_of::<Value>())?;
                Value::list([&a.items[..], &b.items[..]].concat(), self.meter)
            }
            (Operator::Add, Value::Tuple(a), Value::Tuple(b)) => {
                self.meter.grow((a.items.len() + b.items.len()) * size_of::<Value>())?;
                Value::tuple([&a.items[..], &b.items[..]].concat(), self.meter)
            }
            (Operator::Multiply, Value::Text(_) | Value::List(_) | Value::Tuple(_), _)
                if right.integer().is_some() =>
            {
                self.repeated(left, right.integer().unwrap_or(0))
            }
            (Operator::Multiply, _, Value::Text(_) | Value::List(_) | Value::Tuple(_))
                if left.integer().is_some() =>
            {
                self.repeated(right, left.integer().unwrap_or(0))
            }
            (Operator::Modulo, Value::Text(pattern), _) => format::percent(pattern, right, self.meter),
            _ => match (left.number(), right.number()) {
                (Some(a), Some(b)) => arithmetic(operator, a, b),
                _ => wrong(format!(
                    "unsupported operand type(s) for {}: '{}' and '{}'",
                    sign(operator),
                    left.kind(),
                    right.kind()
                )),
            },
        }
    }

    fn repeated(&self, value: &Value, times: i128) -> Outcome<Value> {
        let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
        match value {
            Value::Text(text) => {
                self.meter.grow(text.len().saturating_mul(times))?;
                Ok(Value::Text(text.repeat(times).into()))
            }
            Value::List(items) | Value::Tuple(items) => {
                self.meter
                    .grow(items.items.len().saturating_mul(times).saturating_mul(size_of::<Value>()))?;
                let count = items.items.len().saturating_mul(times);
                let items = items.items.iter().cycle().take(count).cloned().collect();
                match value {
                    Value::List(_) => Value::list(items, self.meter),
                    _ => Value::tuple(items, self.meter),
                }
            }
            other => wrong(format!("a {} cannot be repeated", other.kind())),
        }
    }

    /// `value[start:stop:step]`
    pub(super) fn slice(&self, value: &Value, parts: &[Value; 3]) -> Outcome<Value> {
        if let Value::Undefined(why) = value {
            return wrong(&**why);
        }
        let mut numbers = [None; 3];
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = match part {
                Value::None => None,
                part => match part.integer() {
                    Some(number) => Some(number.clamp(-(1 << 62), 1 << 62)),
                    None => return wrong("slice indices must be integers or None"),
                },
            };
        }
        let sliceable = matches!(value, Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Range(..));
        let Some(length) = value.length().filter(|_| sliceable) else {
            return Ok(Value::Undefined(format!("a {} cannot be sliced", value.kind()).into()));
        };
        let [start, stop, step] = numbers;
        let step = step.unwrap_or(1);
        if step == 0 {
            return wrong("slice step cannot be zero");
        }
        let mut indices = indices(start, stop, step, length as i128);
        if let Value::Text(text) = value {
            if step == 1 {
                self.meter.grow(text.len())?;
                let (count, from) = (indices.len(), indices.next().unwrap_or(0));
                return self.meter.text(text.chars().skip(from).take(count).collect::<String>());
            }
            self.meter.grow(length.saturating_mul(size_of::<char>()))?;
            let chars: Vec<char> = text.chars().collect();
            return self.meter.text(indices.map(|at| chars[at]).collect::<String>());
        }
        let items = value.items(self.meter)?;
        let items = indices.map(|at| items[at].clone()).collect();
        match value {
            Value::Tuple(_) => Value::tuple(items, self.meter),
            _ => Value::list(items, self.meter),
        }
    }
}

/// The places that a slice takes, one after the other.
fn indices(
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
    length: i128,
) -> impl ExactSizeIterator<Item = usize> {
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let place = |at: Option<i128>, missing: i128| match at {
        None => missing,
        Some(at) if at < 0 => (at + length).max(low),
        Some(at) => at.min(high),
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (begin, end) = (place(start, first), place(stop, last));
    let distance = if step > 0 { end - begin } else { begin - end };
    let count = if distance <= 0 { 0 } else { (distance - 1) / step.abs() + 1 };
    (0..count as usize).map(move |at| (begin + at as i128 * step) as usize)
}

fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Modulo => "%",
        Operator::Power => "**",
    }
}

fn arithmetic(operator: Operator, left: Number, right: Number) -> Outcome<Value> {
    let zero = match right {
        Number::Int(number) => number == 0,
        Number::Float(number) => number == 0.0,
    };
    if zero && matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Modulo) {
        return wrong("division by zero");
    }
    if let (Number::Int(a), Number::Int(b)) = (left, right) {
        let result = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide => return Ok(Value::Float(a as f64 / b as f64)),
            // Towards minus infinity, as Python divides.
            Operator::FloorDivide => {
                a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q })
            }
            Operator::Modulo => {
                a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r })
            }
            Operator::Power => match u32::try_from(b) {
                Ok(b) => a.checked_pow(b),
                Err(_) if b < 0 => return Ok(Value::Float((a as f64).powf(b as f64))),
                Err(_) => None,
            },
        };
        return match result {
            Some(number) => Ok(Value::Int(number)),
            None => wrong("the number is too large"),
        };
    }
    let (a, b) = (left.float(), right.float());
    Ok(Value::Float(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => (a / b).floor(),
        Operator::Modulo => a - b * (a / b).floor(),
        Operator::Power => a.powf(b),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Number, Operator, Value, arithmetic, indices};

    #[test]
    fn slices_take_what_python_takes() {
        let taken = |start, stop, step, length| indices(start, stop, step, length).collect::<Vec<_>>();
        assert_eq!(taken(None, None, 1, 3), [0, 1, 2]);
        assert_eq!(taken(Some(-2), None, 1, 3), [1, 2]);
        assert_eq!(taken(None, None, -1, 3), [2, 1, 0]);
        assert_eq!(taken(Some(5), Some(0), -2, 4), [3, 1]);
        assert_eq!(taken(Some(-9), Some(9), 2, 3), [0, 2]);
        assert_eq!(taken(Some(2), Some(1), 1, 3), [0_usize; 0]);
        assert_eq!(taken(None, None, -1, 0), [0_usize; 0]);
    }

    #[test]
    fn division_goes_down_as_in_python() {
        let int = |operator, a, b| match arithmetic(operator, Number::Int(a), Number::Int(b)) {
            Ok(Value::Int(number)) => number,
            _ => panic!("not an integer"),
        };
        for (a, b, quotient, remainder) in
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -3, -2, 0)]
        {
            assert_eq!(int(Operator::FloorDivide, a, b), quotient, "{a} // {b}");
            assert_eq!(int(Operator::Modulo, a, b), remainder, "{a} % {b}");
        }
    }
}
