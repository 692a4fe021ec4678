//! Which values are equal, smaller, or inside another.

use std::cmp::Ordering;
use std::rc::Rc;

use super::meter::{Meter, Outcome, wrong};
use super::value::Value;

impl Value {
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
                let same = a.entries().len() == b.entries().len();
                same && all(a.entries(), |(key, value)| match b.get(key, meter)? {
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
            Self::Dict(dict) => dict.holds(item, meter),
            Self::List(items) | Self::Tuple(items) => any(&items.items, |other| item.equals(other, meter)),
            other => any(&other.items(meter)?, |other| item.equals(other, meter)),
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
