//! What a session keeps between runs: keys and values in pages, and the arena of its plan.

use glassformer_tensor::Buffer;

use crate::{Error, Shape};

/// Rows per page. One page of keys is `[heads, size, PAGE]`, so that sixteen keys fill one vector register.
pub const PAGE: usize = 16;

/// The keys and values of one attention, as they lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Key and value heads.
    pub heads: usize,
    /// Numbers per head.
    pub size: usize,
}

impl Slot {
    fn floats(self) -> usize {
        2 * self.heads * self.size * PAGE
    }
}

/// How the slots of all attentions share a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLayout {
    slots: Vec<Slot>,
    offsets: Vec<usize>,
    floats: usize,
}

impl PageLayout {
    /// The layout of `slots`, one after the other.
    pub fn new(slots: Vec<Slot>) -> Self {
        let mut floats = 0;
        let offsets = slots
            .iter()
            .map(|slot| {
                let offset = floats;
                floats += slot.floats();
                offset
            })
            .collect();
        Self { slots, offsets, floats }
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
}

/// Keys and values of many sequences. A page holds sixteen rows of one sequence for every attention of the stack; pages are
/// handed out and taken back, never copied.
#[derive(Debug, Default)]
pub struct Pages {
    layout: PageLayout,
    data: Option<Buffer>,
    free: Vec<u32>,
    tables: Vec<Table>,
    closed: Vec<usize>,
}

#[derive(Debug, Default)]
struct Table {
    pages: Vec<u32>,
    len: usize,
}

impl Pages {
    /// Room for `pages` pages of `layout`.
    pub fn new(layout: PageLayout, pages: usize) -> Self {
        let data = Some(Buffer::zeros(layout.floats * pages));
        Self { layout, data, free: (0..pages as u32).rev().collect(), tables: Vec::new(), closed: Vec::new() }
    }

    /// A new empty sequence; the number of its table.
    pub fn open(&mut self) -> usize {
        self.closed.pop().unwrap_or_else(|| {
            self.tables.push(Table::default());
            self.tables.len() - 1
        })
    }

    /// Ends the sequence `table` and takes its pages back.
    pub fn close(&mut self, table: usize) {
        let ended = &mut self.tables[table];
        self.free.append(&mut ended.pages);
        ended.len = 0;
        self.closed.push(table);
    }

    /// Makes room for rows up to `len` in `table`.
    ///
    /// # Errors
    /// If there are not enough free pages; nothing changes then.
    pub fn reserve(&mut self, table: usize, len: usize) -> Result<(), Error> {
        let need = len.div_ceil(PAGE).saturating_sub(self.tables[table].pages.len());
        if need > self.free.len() {
            return Err(Error::Capacity { what: "pages", need, have: self.free.len() });
        }
        let at = self.free.len() - need;
        self.tables[table].pages.extend(self.free.drain(at..).rev());
        Ok(())
    }

    /// How many rows of `table` are stored.
    pub fn len(&self, table: usize) -> usize {
        self.tables[table].len
    }

    /// Says that rows of `table` up to `len` are now stored.
    pub fn set_len(&mut self, table: usize, len: usize) {
        self.tables[table].len = len;
    }

    /// Whether no sequence holds a page.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(|table| table.pages.is_empty())
    }

    /// How many rows `table` has room for; 0 for a table that does not exist.
    pub fn room(&self, table: usize) -> usize {
        self.tables.get(table).map_or(0, |table| table.pages.len() * PAGE)
    }

    /// How its pages are laid out.
    pub fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Where the keys of `head` for the page that holds `row` begin: `[size, PAGE]` numbers of [`Pages::data`].
    pub fn keys_at(&self, table: usize, row: usize, slot: usize, head: usize) -> usize {
        let page = self.tables[table].pages[row / PAGE] as usize;
        page * self.layout.floats + self.layout.offsets[slot] + head * self.layout.slots[slot].size * PAGE
    }

    /// Where the values of `head` for the page that holds `row` begin: `[PAGE, size]` numbers of [`Pages::data`].
    pub fn values_at(&self, table: usize, row: usize, slot: usize, head: usize) -> usize {
        let Slot { heads, size } = self.layout.slots[slot];
        self.keys_at(table, row, slot, head) + heads * size * PAGE
    }

    /// All pages.
    pub fn data(&self) -> &[f32] {
        self.data.as_deref().unwrap_or(&[])
    }

    /// All pages, to write to.
    pub fn data_mut(&mut self) -> &mut [f32] {
        self.data.as_deref_mut().unwrap_or(&mut [])
    }
}

/// Where an output of the last run lies in the arena.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its first number.
    pub offset: usize,
    /// How many rows it had.
    pub rows: usize,
    /// Its shape.
    pub shape: Shape,
}

/// All that changes while a model runs. It belongs to one session; graphs, plans and weights are shared.
#[derive(Debug, Default)]
pub struct State {
    /// Keys and values of the target's own rows.
    pub cache: Pages,
    /// Keys and values of the source's rows, for cross-attention.
    pub crossing: Pages,
    arena: Option<Buffer>,
    views: Vec<View>,
}

impl State {
    /// A state with these pages.
    pub fn new(cache: Pages, crossing: Pages) -> Self {
        Self { cache, crossing, arena: None, views: Vec::new() }
    }

    /// The arena, at least `floats` long: a backend calls this once for each run, and only the first one allocates.
    pub fn arena(&mut self, floats: usize) -> &mut [f32] {
        if self.arena.as_ref().is_none_or(|arena| arena.len() < floats) {
            self.arena = Some(Buffer::zeros(floats));
        }
        self.arena.as_deref_mut().unwrap_or(&mut [])
    }

    /// The arena and both kinds of pages at once.
    pub fn parts(&mut self, floats: usize) -> (&mut [f32], &mut Pages, &mut Pages) {
        self.arena(floats);
        (self.arena.as_deref_mut().unwrap_or(&mut []), &mut self.cache, &mut self.crossing)
    }

    /// Where the outputs of the last run are, in the graph's order; a backend fills this.
    pub fn views_mut(&mut self) -> &mut Vec<View> {
        &mut self.views
    }

    /// Output number `index` of the last run: its numbers, row-major.
    pub fn output(&self, index: usize) -> &[f32] {
        let View { offset, rows, shape } = self.views[index];
        let arena = self.arena.as_deref().unwrap_or(&[]);
        &arena[offset..offset + rows * shape.width]
    }

    /// How many rows output `index` of the last run has.
    pub fn output_rows(&self, index: usize) -> usize {
        self.views[index].rows
    }
}
