//! What a session keeps between runs: which pages are whose, and the memory that a backend keeps for it.

use std::any::Any;

use crate::Pages;

/// All that changes while a model runs. It belongs to one session; graphs, plans and weights are shared.
///
/// Its numbers are in the backend's memory, which the host cannot see: [`Runner::read`](crate::Runner::read) brings them here.
#[derive(Debug, Default)]
pub struct State {
    /// Pages of the target's own rows.
    pub cache: Pages,
    /// Pages of the source's rows, for cross-attention.
    pub crossing: Pages,
    memory: Option<Box<dyn Any + Send + Sync>>,
    rows: Vec<usize>,
}

impl State {
    /// A state with these pages.
    pub fn new(cache: Pages, crossing: Pages) -> Self {
        Self { cache, crossing, ..Self::default() }
    }

    /// How many rows output `index` of the last run has.
    pub fn rows(&self, index: usize) -> usize {
        self.rows[index]
    }

    /// The book of pages, the rows of outputs, and a backend's memory of type `M`, which is new where there was none or another
    /// backend's: for backends.
    pub fn parts<M: Default + Send + Sync + 'static>(&mut self) -> Parts<'_, M> {
        let memory = self.memory.take().and_then(|memory| memory.downcast::<M>().ok());
        let memory: &mut Box<dyn Any + Send + Sync> = self.memory.insert(memory.unwrap_or_default());
        let Some(memory) = memory.downcast_mut() else { unreachable!("it was made of this type") };
        Parts { cache: &mut self.cache, crossing: &mut self.crossing, rows: &mut self.rows, memory }
    }

    /// A backend's memory of type `M`, where there is one.
    pub fn memory<M: 'static>(&self) -> Option<&M> {
        self.memory.as_deref()?.downcast_ref()
    }
}

/// The parts of a [`State`].
#[derive(Debug)]
pub struct Parts<'a, M> {
    /// Pages of the target's own rows.
    pub cache: &'a mut Pages,
    /// Pages of the source's rows.
    pub crossing: &'a mut Pages,
    /// How many rows each output of the last run has; a backend fills this.
    pub rows: &'a mut Vec<usize>,
    /// The backend's memory.
    pub memory: &'a mut M,
}
