//! Stored keys and values: where they lie in a page, and the memory of all pages.

use glassformer_graph::{Dtype, Error, PAGE, PageLayout, Pages, Slot};
use glassformer_tensor::Buffer;

/// Heads whose size is a multiple of this take half the room in `bf16`: they fill whole registers, whichever kernel reads them.
const BF16_HEAD: usize = 32;

/// Where the slots lie in a page: for each its keys `[heads, size, PAGE]`, so that sixteen keys fill one vector register, and then its
/// values `[heads, PAGE, size]`.
#[derive(Clone, Debug, Default)]
struct PageFormat {
    layout: PageLayout,
    offsets: Vec<usize>,
    /// How large a page is, in units of `f32`.
    floats: usize,
}

impl PageFormat {
    fn of(layout: &PageLayout) -> Self {
        let mut floats = 0;
        let place = |slot: &Slot| {
            let offset = floats;
            let whole = 2 * slot.heads * slot.size * PAGE;
            let is_bf16 = layout.dtype() == Dtype::Bf16 && slot.size.is_multiple_of(BF16_HEAD);
            floats += if is_bf16 { whole / 2 } else { whole };
            offset
        };
        let offsets = layout.slots().iter().map(place).collect();
        Self { layout: layout.clone(), offsets, floats }
    }
}

/// How many bytes a page of `layout` takes.
pub(crate) fn page_bytes(layout: &PageLayout) -> usize {
    PageFormat::of(layout).floats * size_of::<f32>()
}

/// The memory of pages of one layout.
#[derive(Debug, Default)]
pub(crate) struct PageMemory {
    format: PageFormat,
    count: usize,
    data: Option<Buffer>,
}

impl PageMemory {
    /// Makes room for all pages of `book` where there is none yet, and clears those that must hold zeros.
    pub fn prepare(&mut self, book: &mut Pages) -> Result<(), Error> {
        if self.count != book.count() || self.format.layout != *book.layout() {
            let format = PageFormat::of(book.layout());
            let floats = format.floats.saturating_mul(book.count());
            if !Buffer::fits(floats) {
                let bytes = floats.saturating_mul(size_of::<f32>());
                return Err(Error::Memory { what: "keys and values", bytes });
            }
            *self = Self { format, count: book.count(), data: Some(Buffer::zeros(floats)) };
        }
        let floats = self.format.floats;
        for page in book.take_blank() {
            self.data_mut()[page * floats..(page + 1) * floats].fill(0.0);
        }
        Ok(())
    }

    /// All pages.
    pub fn data_mut(&mut self) -> &mut [f32] {
        self.data.as_deref_mut().unwrap_or(&mut [])
    }

    /// The pages of `book`, for kernels.
    pub fn at<'a>(&'a mut self, book: &'a Pages) -> PagesAt<'a> {
        let data = self.data_mut().as_mut_ptr();
        PagesAt { book, format: &self.format, data }
    }
}

/// Pages as kernels see them: whose they are, and where. [`Store`](glassformer_graph::ops::Store) writes them while others only look pages up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagesAt<'a> {
    /// Which pages are whose.
    pub book: &'a Pages,
    format: &'a PageFormat,
    data: *mut f32,
}

// SAFETY: the only writer is `Store`, whose workers write different pages.
unsafe impl Send for PagesAt<'_> {}
// SAFETY: as above.
unsafe impl Sync for PagesAt<'_> {}

/// Where the keys and the values of a head begin in a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeysAndValues {
    pub keys: *mut f32,
    /// Those of `f32`; other forms may have them elsewhere.
    pub values: *mut f32,
}

impl PagesAt<'_> {
    /// The type of the numbers.
    pub fn dtype(&self) -> Dtype {
        self.format.layout.dtype()
    }

    /// Those of `head` in the page that holds `row` of `table`.
    #[inline]
    pub fn find(&self, table: usize, row: usize, slot: usize, head: usize) -> KeysAndValues {
        self.in_page(self.book.page(table, row), slot, head)
    }

    /// Those in the page that still has the rows of the last page of `table`; see [`Pages::page_before`].
    pub fn before(&self, table: usize, slot: usize, head: usize) -> Option<KeysAndValues> {
        self.book.page_before(table).map(|page| self.in_page(page, slot, head))
    }

    #[inline]
    fn in_page(&self, page: usize, slot: usize, head: usize) -> KeysAndValues {
        let PageFormat { layout, offsets, floats } = self.format;
        let Slot { heads, size } = layout.slots()[slot];
        let keys = self.data.wrapping_add(page * floats + offsets[slot] + head * size * PAGE);
        KeysAndValues { keys, values: keys.wrapping_add(heads * size * PAGE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_bf16_take_half_the_room_where_heads_fill_registers() {
        for (size, part) in [(64, 2), (32, 2), (48, 1), (3, 1)] {
            let layout = PageLayout::new(vec![Slot { heads: 2, size }; 3]);
            let whole = page_bytes(&layout);
            assert_eq!(whole, 3 * 2 * 2 * size * PAGE * 4);
            assert_eq!(page_bytes(&layout.with_dtype(Dtype::Bf16)), whole / part, "heads of {size}");
        }
    }

    #[test]
    fn slots_heads_and_pages_lie_apart() {
        let layout = PageLayout::new(vec![Slot { heads: 2, size: 4 }, Slot { heads: 1, size: 3 }]);
        let mut book = Pages::new(layout, 3);
        let table = book.open();
        book.reserve(table, 2 * PAGE).expect("there are three");
        let mut memory = PageMemory::default();
        memory.prepare(&mut book).expect("it is small");
        let pages = memory.at(&book);
        let offset =
            |at: KeysAndValues| [at.keys, at.values].map(|at| (at as usize - pages.data as usize) / 4);
        let first = 22 * PAGE * book.page(table, 0);
        assert_eq!(offset(pages.find(table, 0, 0, 0)), [first, first + 8 * PAGE]);
        assert_eq!(offset(pages.find(table, 0, 0, 1)), [first + 4 * PAGE, first + 12 * PAGE]);
        assert_eq!(offset(pages.find(table, 0, 1, 0)), [first + 16 * PAGE, first + 19 * PAGE]);
        assert_eq!(offset(pages.find(table, PAGE, 0, 0))[0], 22 * PAGE * book.page(table, PAGE));
    }

    #[test]
    fn pages_that_begin_with_zeros_are_cleared() {
        let mut book = Pages::new(PageLayout::new(vec![Slot { heads: 1, size: 2 }]), 2);
        let mut memory = PageMemory::default();
        memory.prepare(&mut book).expect("it is small");
        memory.data_mut().fill(7.0);
        let table = book.open();
        book.begin_with_zeros(table, 3).expect("there are two");
        memory.prepare(&mut book).expect("it is small");
        let floats = 4 * PAGE;
        let page = book.page(table, 0);
        assert!(memory.data_mut()[page * floats..(page + 1) * floats].iter().all(|&x| x == 0.0));
        assert!(memory.data_mut()[(1 - page) * floats..(2 - page) * floats].iter().all(|&x| x == 7.0));
    }
}
