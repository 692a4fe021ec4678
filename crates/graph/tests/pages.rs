//! Pages: what is shared, what is copied, and that every page comes back.

use glassformer_graph::{PAGE, PageLayout, Pages, Slot};

fn pages(count: usize) -> Pages {
    Pages::new(PageLayout::new(vec![Slot { heads: 2, size: 4 }, Slot { heads: 1, size: 3 }]), count)
}

/// A table whose first `len` rows are stored: the page of row r is filled with r / PAGE + `mark`.
fn filled(pages: &mut Pages, len: usize, mark: f32) -> usize {
    let table = pages.open();
    pages.reserve(table, len).unwrap();
    for row in (0..len).step_by(PAGE) {
        let (at, floats) = (pages.keys_at(table, row, 0, 0), pages.layout().bytes() / 4);
        pages.data_mut()[at..at + floats].fill(mark + (row / PAGE) as f32);
    }
    pages.set_len(table, len);
    table
}

/// Where the page of `row` begins.
fn page(pages: &Pages, table: usize, row: usize) -> usize {
    pages.keys_at(table, row, 0, 0)
}

#[test]
fn a_fork_takes_no_page_until_it_writes() {
    let mut pages = pages(8);
    let first = filled(&mut pages, 2 * PAGE + 3, 1.0);
    assert_eq!(pages.free(), 5);
    let forks: Vec<usize> = (0..3).map(|_| pages.fork(first)).collect();
    assert_eq!(pages.free(), 5);
    for &fork in &forks {
        assert_eq!(pages.len(fork), 2 * PAGE + 3);
        assert!((0..2 * PAGE + 3).all(|row| page(&pages, fork, row) == page(&pages, first, row)));
    }
}

#[test]
fn only_of_the_page_that_is_not_full_rows_are_taken_over() {
    let mut pages = pages(8);
    let first = filled(&mut pages, 2 * PAGE + 3, 1.0);
    let fork = pages.fork(first);
    pages.reserve(fork, 2 * PAGE + 4).unwrap();
    assert_eq!(pages.free(), 4);
    assert_eq!(page(&pages, fork, PAGE), page(&pages, first, PAGE));
    let (old, new) = (page(&pages, first, 2 * PAGE), page(&pages, fork, 2 * PAGE));
    assert_ne!(old, new);
    assert_eq!((pages.keys_before(fork, 0, 0), pages.keys_before(first, 0, 0)), (Some(old), None));
    for (slot, head) in [(0, 1), (1, 0)] {
        let before = pages.keys_before(fork, slot, head).unwrap();
        assert_eq!(before - old, pages.keys_at(fork, 2 * PAGE, slot, head) - new);
    }
    pages.set_len(fork, 2 * PAGE + 4);
    assert_eq!(pages.keys_before(fork, 0, 0), None);
    // The first one is now alone in its page and writes there.
    pages.reserve(first, 2 * PAGE + 4).unwrap();
    assert_eq!((page(&pages, first, 2 * PAGE), pages.free()), (old, 4));
}

#[test]
fn a_page_whose_rows_are_wanted_is_given_to_nobody() {
    let mut pages = pages(3);
    let first = filled(&mut pages, 3, 1.0);
    let old = page(&pages, first, 0);
    let fork = pages.fork(first);
    pages.reserve(fork, 4).unwrap();
    pages.close(first);
    assert_eq!((pages.free(), pages.keys_before(fork, 0, 0)), (1, Some(old)));
    // Nor after a fork of what is not there yet.
    let second = pages.fork(fork);
    pages.reserve(second, 4).unwrap();
    assert_eq!((pages.free(), pages.keys_before(second, 0, 0)), (0, Some(old)));
    assert_ne!(page(&pages, second, 0), page(&pages, fork, 0));
    pages.set_len(fork, 4);
    assert_eq!(pages.free(), 0);
    pages.close(second);
    assert_eq!(pages.free(), 2);
    pages.close(fork);
    assert!(pages.is_empty() && pages.free() == pages.count());
}

#[test]
fn full_pages_are_never_copied() {
    let mut pages = pages(4);
    let first = filled(&mut pages, 2 * PAGE, 1.0);
    let fork = pages.fork(first);
    for table in [first, fork] {
        pages.reserve(table, 2 * PAGE + 1).unwrap();
    }
    assert_eq!(pages.free(), 0);
    assert_eq!(page(&pages, fork, PAGE), page(&pages, first, PAGE));
}

#[test]
fn a_fork_leaves_out_pages_that_are_reserved_and_empty() {
    let mut pages = pages(4);
    let first = filled(&mut pages, PAGE, 1.0);
    pages.reserve(first, PAGE + 1).unwrap();
    let fork = pages.fork(first);
    assert_eq!(pages.room(fork), PAGE);
}

#[test]
fn a_page_comes_back_when_its_last_holder_ends() {
    let mut pages = pages(6);
    let first = filled(&mut pages, PAGE + 1, 1.0);
    let (second, third) = (pages.fork(first), pages.fork(first));
    pages.close(first);
    assert_eq!(pages.free(), 4);
    pages.reserve(second, PAGE + 2).unwrap();
    assert_eq!(pages.free(), 3);
    pages.close(second);
    assert_eq!(pages.free(), 4);
    pages.close(third);
    assert_eq!(pages.free(), pages.count());
    assert!(pages.is_empty());
}

#[test]
fn a_copy_without_a_free_page_is_refused_and_changes_nothing() {
    let mut pages = pages(1);
    let first = filled(&mut pages, 3, 1.0);
    let fork = pages.fork(first);
    assert!(pages.reserve(fork, 4).is_err());
    assert_eq!(page(&pages, fork, 0), page(&pages, first, 0));
    pages.reserve(fork, 3).unwrap();
    pages.close(first);
    pages.reserve(fork, 4).unwrap();
}

#[test]
fn pages_for_halves_take_half_the_room_where_heads_fill_registers() {
    for (size, part) in [(64, 2), (32, 2), (48, 1), (3, 1)] {
        let layout = PageLayout::new(vec![Slot { heads: 2, size }; 3]);
        let whole = layout.bytes();
        assert_eq!(whole, 3 * 2 * 2 * size * PAGE * 4);
        assert_eq!(layout.halved().bytes(), whole / part, "heads of {size}");
    }
}
