//! What is given to a function, a filter, a test or a method.

use std::rc::Rc;

use super::meter::{Fault, Outcome, wrong};
use super::value::Value;

/// Values by place, and by name.
#[derive(Default)]
pub(super) struct Args {
    pub places: Vec<Value>,
    pub names: Vec<(String, Value)>,
}

impl Args {
    /// One value by place.
    pub fn one(value: Value) -> Self {
        Self { places: vec![value], names: Vec::new() }
    }

    /// The value of a parameter, by its place or its name.
    pub fn get(&self, place: usize, name: &str) -> Option<Value> {
        let named = || self.names.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        self.places.get(place).or_else(named).cloned()
    }

    /// The same for one that must be there.
    pub fn need(&self, place: usize, name: &str) -> Outcome<Value> {
        self.get(place, name).ok_or_else(|| Fault::Wrong(format!("the argument '{name}' is missing")))
    }

    /// A parameter that is on or off.
    pub fn flag(&self, place: usize, name: &str) -> bool {
        self.get(place, name).is_some_and(|value| value.truth())
    }

    /// A parameter that is a text.
    pub fn text(&self, place: usize, name: &str) -> Outcome<Option<Rc<str>>> {
        match self.get(place, name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => wrong(format!("the argument '{name}' must be a text, not a {}", other.kind())),
        }
    }

    /// A parameter that is a whole number.
    pub fn integer(&self, place: usize, name: &str) -> Outcome<Option<i128>> {
        match self.get(place, name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => match value.integer() {
                Some(number) => Ok(Some(number)),
                None => {
                    wrong(format!("the argument '{name}' must be a whole number, not a {}", value.kind()))
                }
            },
        }
    }

    /// Refuses what is not among these parameters.
    pub fn check(&self, what: &str, parameters: &[&str]) -> Outcome<()> {
        if self.places.len() > parameters.len() {
            return wrong(format!(
                "{what} takes {} argument(s), not {}",
                parameters.len(),
                self.places.len()
            ));
        }
        match self.names.iter().find(|(name, _)| !parameters.contains(&name.as_str())) {
            Some((name, _)) => wrong(format!("{what} takes no argument '{name}'")),
            None => Ok(()),
        }
    }

    /// Without the first value by place.
    pub fn rest(mut self) -> Self {
        if !self.places.is_empty() {
            self.places.remove(0);
        }
        self
    }
}
