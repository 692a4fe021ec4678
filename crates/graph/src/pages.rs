//! Keys and values in pages: which page belongs to which sequence. The host keeps this book; the numbers are in a backend's memory.

use std::mem;

use crate::{Dtype, Error};

/// Rows per page.
pub const PAGE: usize = 16;

/// The keys and values of one attention, as a page holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Key and value heads.
    pub heads: usize,
    /// Numbers per head.
    pub size: usize,
}

/// What a page holds: a slot for each attention. Where in a page they lie is the backend's affair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageLayout {
    slots: Vec<Slot>,
    dtype: Dtype,
}

impl PageLayout {
    /// These slots, in `f32`.
    pub fn new(slots: Vec<Slot>) -> Self {
        Self { slots, dtype: Dtype::F32 }
    }

    /// The same slots in `dtype`, which all who use the pages must keep ([`crate::Runner::keeps`]).
    #[must_use]
    pub fn with_dtype(self, dtype: Dtype) -> Self {
        Self { dtype, ..self }
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The type of the numbers.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }
}

/// The pages of many sequences. A page holds sixteen rows of one sequence for every attention of the stack. Sequences with the
/// same beginning share its pages ([`Pages::fork`]): a page is free when nobody holds it any more. Rows are copied only from the
/// last page of a fork, which is not full yet, when its first own row is written ([`Pages::page_before`]).
#[derive(Debug, Default)]
pub struct Pages {
    layout: PageLayout,
    free: Vec<u32>,
    /// How many tables hold each page.
    holders: Vec<u32>,
    /// How many more have rows to take over from it.
    heirs: Vec<u32>,
    tables: Vec<Table>,
    closed: Vec<usize>,
    /// Pages that must hold zeros at the next run.
    blank: Vec<u32>,
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
        let free = (0..pages as u32).rev().collect();
        let [holders, heirs] = [vec![0; pages], vec![0; pages]];
        Self { layout, free, holders, heirs, ..Self::default() }
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
        self.fork_first(table, self.tables[table].len)
    }

    /// The same with the first `len` rows of `table` alone.
    ///
    /// # Panics
    /// If `table` has not so many.
    pub fn fork_first(&mut self, table: usize, len: usize) -> usize {
        let fork = self.open();
        let Table { len: all, before, .. } = self.tables[table];
        assert!(len <= all, "{len} rows of {all}");
        let before = before.filter(|_| len.div_ceil(PAGE) == all.div_ceil(PAGE));
        let mut pages = mem::take(&mut self.tables[fork].pages);
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
        let mut pages = mem::take(&mut self.tables[table].pages);
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
    /// there until who writes the next row takes them over ([`Pages::page_before`]).
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
            let old = mem::replace(&mut pages[at], own);
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
        self.blank.extend_from_slice(&self.tables[table].pages);
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

    /// The page that holds `row` of `table`.
    #[inline]
    pub fn page(&self, table: usize, row: usize) -> usize {
        self.tables[table].pages[row / PAGE] as usize
    }

    /// The page that still has the rows of the last page of `table`, if they are not there yet: all of them are copied before the
    /// first row that comes next.
    #[inline]
    pub fn page_before(&self, table: usize) -> Option<usize> {
        self.tables[table].before.map(|page| page as usize)
    }

    /// Takes the list of pages that must hold zeros: a backend clears them before it runs.
    pub fn take_blank(&mut self) -> impl Iterator<Item = usize> + use<> {
        mem::take(&mut self.blank).into_iter().map(|page| page as usize)
    }
}
