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

/// Heads of so many numbers, or of a multiple, take half the room in halves: they fill whole registers then, whoever holds them.
const HALVED: usize = 32;

impl Slot {
    /// What it takes of a page.
    fn floats(self, halved: bool) -> usize {
        let whole = 2 * self.heads * self.size * PAGE;
        if halved && self.size.is_multiple_of(HALVED) { whole / 2 } else { whole }
    }
}

/// How the slots of all attentions share a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLayout {
    slots: Vec<Slot>,
    offsets: Vec<usize>,
    floats: usize,
    halved: bool,
}

impl PageLayout {
    /// The layout of `slots`, one after the other.
    pub fn new(slots: Vec<Slot>) -> Self {
        Self::of(slots, false)
    }

    /// The layout of the same slots for runners that keep keys and values in two bytes ([`crate::Runner::keeps_halves`]). They know where in a
    /// slot these are: [`Pages::values_at`] does not.
    #[must_use]
    pub fn halved(self) -> Self {
        Self::of(self.slots, true)
    }

    fn of(slots: Vec<Slot>, halved: bool) -> Self {
        let mut floats = 0;
        let offsets = slots
            .iter()
            .map(|slot| {
                let offset = floats;
                floats += slot.floats(halved);
                offset
            })
            .collect();
        Self { slots, offsets, floats, halved }
    }

    /// Whether it is one for keys and values in two bytes.
    pub fn is_halved(&self) -> bool {
        self.halved
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// How many bytes one page takes.
    pub fn bytes(&self) -> usize {
        self.floats * size_of::<f32>()
    }
}

/// Keys and values of many sequences. A page holds sixteen rows of one sequence for every attention of the stack. Sequences
/// with the same beginning share its pages ([`Pages::fork`]): a page is handed back when nobody holds it any more, and only
/// of the last page of a fork, which is not full yet, rows are copied, by who writes its first own row ([`Pages::keys_before`]).
#[derive(Debug, Default)]
pub struct Pages {
    layout: PageLayout,
    data: Option<Buffer>,
    free: Vec<u32>,
    /// How many tables hold each page.
    holders: Vec<u32>,
    /// How many more have rows to take over from it.
    heirs: Vec<u32>,
    tables: Vec<Table>,
    closed: Vec<usize>,
}

#[derive(Debug, Default)]
struct Table {
    pages: Vec<u32>,
    len: usize,
    /// The page that still has the rows of the last one.
    before: Option<u32>,
}

impl Pages {
    /// Room for `pages` pages of `layout`.
    pub fn new(layout: PageLayout, pages: usize) -> Self {
        let data = Some(Buffer::zeros(layout.floats * pages));
        let free = (0..pages as u32).rev().collect();
        let [holders, heirs] = [vec![0; pages], vec![0; pages]];
        Self { layout, data, free, holders, heirs, tables: Vec::new(), closed: Vec::new() }
    }

    /// A new empty sequence; the number of its table.
    pub fn open(&mut self) -> usize {
        self.closed.pop().unwrap_or_else(|| {
            self.tables.push(Table::default());
            self.tables.len() - 1
        })
    }

    /// A new sequence that begins as `table` does, in the same pages; the number of its table.
    pub fn fork(&mut self, table: usize) -> usize {
        let fork = self.open();
        let Table { len, before, .. } = self.tables[table];
        let mut pages = std::mem::take(&mut self.tables[fork].pages);
        pages.extend_from_slice(&self.tables[table].pages[..len.div_ceil(PAGE)]);
        for &page in &pages {
            self.holders[page as usize] += 1;
        }
        if let Some(page) = before {
            self.heirs[page as usize] += 1;
        }
        self.tables[fork] = Table { pages, len, before };
        fork
    }

    /// Ends the sequence `table` and lets go of its pages.
    pub fn close(&mut self, table: usize) {
        self.set_len(table, 0);
        let mut pages = std::mem::take(&mut self.tables[table].pages);
        for page in pages.drain(..) {
            self.holders[page as usize] -= 1;
            self.free_if_unused(page);
        }
        self.tables[table].pages = pages;
        self.closed.push(table);
    }

    /// Hands `page` back if nobody needs it any more.
    fn free_if_unused(&mut self, page: u32) {
        if (self.holders[page as usize], self.heirs[page as usize]) == (0, 0) {
            self.free.push(page);
        }
    }

    /// Makes room for rows up to `len` in `table`, in pages that nobody else reads. Where others read the last page too, its rows stay
    /// there until who writes the next row takes them over ([`Pages::keys_before`]).
    ///
    /// # Errors
    /// If there are not enough free pages; nothing changes then.
    pub fn reserve(&mut self, table: usize, len: usize) -> Result<(), Error> {
        let shared = self.shared_end(table).filter(|_| len > self.tables[table].len);
        let more = len.div_ceil(PAGE).saturating_sub(self.tables[table].pages.len());
        let need = more + usize::from(shared.is_some());
        if need > self.free.len() {
            return Err(Error::Capacity { what: "pages", need, have: self.free.len() });
        }
        if let Some(at) = shared {
            let own = self.take();
            let Table { pages, before, .. } = &mut self.tables[table];
            let old = std::mem::replace(&mut pages[at], own);
            self.holders[old as usize] -= 1;
            // Where that never had the rows itself, one before it has them.
            if before.is_none() {
                *before = Some(old);
                self.heirs[old as usize] += 1;
            }
        }
        for _ in 0..more {
            let page = self.take();
            self.tables[table].pages.push(page);
        }
        Ok(())
    }

    /// The place of the last page of `table` where that has room for another row and others read it too.
    fn shared_end(&self, table: usize) -> Option<usize> {
        let Table { pages, len, .. } = &self.tables[table];
        let at = len / PAGE;
        let page = *pages.get(at)?;
        (self.holders[page as usize] > 1).then_some(at)
    }

    /// A free page, held once. The caller has seen that there is one.
    fn take(&mut self) -> u32 {
        let page = self.free.pop().unwrap_or_default();
        self.holders[page as usize] = 1;
        page
    }

    /// How many pages nobody holds.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many pages there are.
    pub fn count(&self) -> usize {
        self.holders.len()
    }

    /// How many rows of `table` are stored.
    pub fn len(&self, table: usize) -> usize {
        self.tables[table].len
    }

    /// Says that rows of `table` up to `len` are now stored, in its own pages.
    pub fn set_len(&mut self, table: usize, len: usize) {
        self.tables[table].len = len;
        if let Some(page) = self.tables[table].before.take() {
            self.heirs[page as usize] -= 1;
            self.free_if_unused(page);
        }
    }

    /// Begins `table`, which is new, with `rows` rows of zeros.
    ///
    /// # Errors
    /// If there are not enough free pages; nothing changes then.
    pub fn begin_with_zeros(&mut self, table: usize, rows: usize) -> Result<(), Error> {
        self.reserve(table, rows)?;
        let floats = self.layout.floats;
        for place in 0..self.tables[table].pages.len() {
            let from = self.tables[table].pages[place] as usize * floats;
            self.data_mut()[from..from + floats].fill(0.0);
        }
        self.set_len(table, rows);
        Ok(())
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
    #[inline]
    pub fn keys_at(&self, table: usize, row: usize, slot: usize, head: usize) -> usize {
        self.keys_in(self.tables[table].pages[row / PAGE], slot, head)
    }

    /// The same in the page that still has the rows of the last page of `table`, if they are not there yet: all of them have to be
    /// copied before the first row that comes next.
    #[inline]
    pub fn keys_before(&self, table: usize, slot: usize, head: usize) -> Option<usize> {
        self.tables[table].before.map(|page| self.keys_in(page, slot, head))
    }

    /// Where the keys of `head` begin in `page`.
    #[inline]
    fn keys_in(&self, page: u32, slot: usize, head: usize) -> usize {
        page as usize * self.layout.floats
            + self.layout.offsets[slot]
            + head * self.layout.slots[slot].size * PAGE
    }

    /// Where the values of `head` for the page that holds `row` begin: `[PAGE, size]` numbers of [`Pages::data`].
    #[inline]
    pub fn values_at(&self, table: usize, row: usize, slot: usize, head: usize) -> usize {
        self.keys_at(table, row, slot, head) + self.keys_to_values(slot)
    }

    /// How far behind the keys of a head its values begin, in every page.
    #[inline]
    pub fn keys_to_values(&self, slot: usize) -> usize {
        let Slot { heads, size } = self.layout.slots[slot];
        heads * size * PAGE
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

    /// Output number `index` of the last run, to change in place: what is read off it next is up to the caller.
    pub fn output_mut(&mut self, index: usize) -> &mut [f32] {
        let View { offset, rows, shape } = self.views[index];
        let arena = self.arena.as_deref_mut().unwrap_or(&mut []);
        &mut arena[offset..offset + rows * shape.width]
    }

    /// How many rows output `index` of the last run has.
    pub fn output_rows(&self, index: usize) -> usize {
        self.views[index].rows
    }
}
