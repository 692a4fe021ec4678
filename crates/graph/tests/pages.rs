//! Pages: what is shared, what is copied, and that every page comes back.

use glassformer_graph::{PAGE, PageLayout, Pages, Slot};

fn pages(count: usize) -> Pages {
    Pages::new(PageLayout::new(vec![Slot { heads: 2, size: 4 }]), count)
}

/// A table whose first `len` rows are stored.
fn filled(pages: &mut Pages, len: usize) -> usize {
    let table = pages.open();
    pages.reserve(table, len).unwrap();
    pages.set_len(table, len);
    table
}

#[test]
fn a_fork_takes_no_page_until_it_writes() {
    let mut pages = pages(8);
    let first = filled(&mut pages, 2 * PAGE + 3);
    assert_eq!(pages.free(), 5);
    let forks: Vec<usize> = (0..3).map(|_| pages.fork(first)).collect();
    assert_eq!(pages.free(), 5);
    for &fork in &forks {
        assert_eq!(pages.len(fork), 2 * PAGE + 3);
        assert!((0..2 * PAGE + 3).all(|row| pages.page(fork, row) == pages.page(first, row)));
    }
}

#[test]
fn only_of_the_page_that_is_not_full_rows_are_taken_over() {
    let mut pages = pages(8);
    let first = filled(&mut pages, 2 * PAGE + 3);
    let fork = pages.fork(first);
    pages.reserve(fork, 2 * PAGE + 4).unwrap();
    assert_eq!(pages.free(), 4);
    assert_eq!(pages.page(fork, PAGE), pages.page(first, PAGE));
    let (old, new) = (pages.page(first, 2 * PAGE), pages.page(fork, 2 * PAGE));
    assert_ne!(old, new);
    assert_eq!((pages.page_before(fork), pages.page_before(first)), (Some(old), None));
    pages.set_len(fork, 2 * PAGE + 4);
    assert_eq!(pages.page_before(fork), None);
    // The first one is now alone in its page and writes there.
    pages.reserve(first, 2 * PAGE + 4).unwrap();
    assert_eq!((pages.page(first, 2 * PAGE), pages.free()), (old, 4));
}

#[test]
fn a_page_whose_rows_are_wanted_is_given_to_nobody() {
    let mut pages = pages(3);
    let first = filled(&mut pages, 3);
    let old = pages.page(first, 0);
    let fork = pages.fork(first);
    pages.reserve(fork, 4).unwrap();
    pages.close(first);
    assert_eq!((pages.free(), pages.page_before(fork)), (1, Some(old)));
    // Nor after a fork of what is not there yet.
    let second = pages.fork(fork);
    pages.reserve(second, 4).unwrap();
    assert_eq!((pages.free(), pages.page_before(second)), (0, Some(old)));
    assert_ne!(pages.page(second, 0), pages.page(fork, 0));
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
    let first = filled(&mut pages, 2 * PAGE);
    let fork = pages.fork(first);
    for table in [first, fork] {
        pages.reserve(table, 2 * PAGE + 1).unwrap();
    }
    assert_eq!(pages.free(), 0);
    assert_eq!(pages.page(fork, PAGE), pages.page(first, PAGE));
}

#[test]
fn a_fork_leaves_out_pages_that_are_reserved_and_empty() {
    let mut pages = pages(4);
    let first = filled(&mut pages, PAGE);
    pages.reserve(first, PAGE + 1).unwrap();
    let fork = pages.fork(first);
    assert_eq!(pages.room(fork), PAGE);
}

#[test]
fn a_page_comes_back_when_its_last_holder_ends() {
    let mut pages = pages(6);
    let first = filled(&mut pages, PAGE + 1);
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
    let first = filled(&mut pages, 3);
    let fork = pages.fork(first);
    assert!(pages.reserve(fork, 4).is_err());
    assert_eq!(pages.page(fork, 0), pages.page(first, 0));
    pages.reserve(fork, 3).unwrap();
    pages.close(first);
    pages.reserve(fork, 4).unwrap();
}

#[test]
fn pages_that_begin_with_zeros_are_told_once() {
    let mut pages = pages(4);
    let first = filled(&mut pages, 3);
    let table = pages.open();
    pages.begin_with_zeros(table, PAGE + 2).unwrap();
    assert_eq!(pages.len(table), PAGE + 2);
    let blank: Vec<usize> = pages.take_blank().collect();
    assert_eq!(blank, [pages.page(table, 0), pages.page(table, PAGE)]);
    assert!(!blank.contains(&pages.page(first, 0)) && pages.take_blank().next().is_none());
}
