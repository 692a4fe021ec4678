//! The memory of what a state keeps from run to run.

use std::collections::HashMap;

use glassformer_graph::{Batch, Error};
use glassformer_plan::Kept;
use glassformer_tensor::Buffer;

/// Where the numbers of a kept leaf are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub data: *mut f32,
}

// SAFETY: who may read or write there is decided by the planner, as for blocks.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The memory of what a state keeps.
#[derive(Debug, Default)]
pub(super) struct KeptMemory {
    held: HashMap<String, Held>,
    /// Where the leaves of the present run are: kept here so that no run allocates.
    bound: Vec<Address>,
}

#[derive(Debug)]
struct Held {
    data: Buffer,
    /// How many numbers of it count.
    len: usize,
}

impl KeptMemory {
    /// Sets `name`.
    pub fn write(&mut self, name: &str, numbers: &[f32]) {
        let fits = self.held.get(name).is_some_and(|held| held.data.len() >= numbers.len());
        if !fits {
            let held = Held { data: Buffer::zeros(numbers.len()), len: 0 };
            self.held.insert(name.to_owned(), held);
        }
        let Some(held) = self.held.get_mut(name) else { return };
        held.data[..numbers.len()].copy_from_slice(numbers);
        held.len = numbers.len();
    }

    /// What `name` is.
    pub fn read(&self, name: &str) -> Option<&[f32]> {
        self.held.get(name).map(|held| &held.data[..held.len])
    }

    /// Finds the leaves of a run of `batch`, with room for what they become.
    ///
    /// # Errors
    /// The first that was never written, or has another size.
    pub fn bind(&mut self, leaves: &[Kept], batch: &Batch<'_>) -> Result<&[Address], Error> {
        self.bound.clear();
        for Kept { name, shape, most, .. } in leaves {
            let missing = || Error::MissingWeight { name: name.clone(), shape: shape.to_string() };
            let held = self.held.get_mut(name).ok_or_else(missing)?;
            let need = batch.count(shape.rows) * shape.width;
            if held.len != need {
                let (what, found) = (format!("the kept {name}"), held.len);
                return Err(Error::Batch {
                    what: format!("{what} has {found} numbers, not {need}"),
                    hint: "write it anew".to_owned(),
                });
            }
            if held.data.len() < *most {
                let mut data = Buffer::zeros(*most);
                data[..held.len].copy_from_slice(&held.data[..held.len]);
                held.data = data;
            }
            self.bound.push(Address { data: held.data.as_mut_ptr() });
        }
        Ok(&self.bound)
    }

    /// Notes what the leaves became in a run of `batch`.
    pub fn note(&mut self, leaves: &[Kept], batch: &Batch<'_>) {
        for Kept { name, new, .. } in leaves {
            if let (Some(new), Some(held)) = (new, self.held.get_mut(name)) {
                held.len = batch.count(new.rows) * new.width;
            }
        }
    }
}
