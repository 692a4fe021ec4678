//! An allocator that knows how much is held, so that a test can say what a file may cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of what is held.
pub struct Watched;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` above used the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// How often memory was asked for since the program began: a measure of work that does not depend on the machine.
#[allow(dead_code, reason = "not every test counts")]
pub fn allocations() -> usize {
    ALLOCATIONS.load(Relaxed)
}

/// What `action` gives, and the most memory that was held meanwhile beyond what was held before. Other threads count, too.
pub fn most_held<T>(action: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let result = action();
    (result, MOST.load(Relaxed).saturating_sub(before))
}
