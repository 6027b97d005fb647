//! An allocator that counts the bytes that are out, to measure what an agent really holds.
//!
//! The only unsafe code of the workspace, and only in benchmarks: it hands every call to the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static OUT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts, then asks the system.
pub struct CountingAlloc;

impl CountingAlloc {
    /// Bytes that are allocated now.
    pub fn bytes_out() -> usize {
        OUT.load(Ordering::Relaxed)
    }

    /// The most bytes that were allocated at once while `run` ran, beyond those before it. Of all threads.
    pub fn peak_of(run: impl FnOnce()) -> usize {
        let before = CountingAlloc::bytes_out();
        PEAK.store(before, Ordering::Relaxed);
        run();
        PEAK.load(Ordering::Relaxed).saturating_sub(before)
    }
}

// SAFETY: every method forwards its arguments unchanged to `System`, which upholds the contract.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let out = OUT.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(out, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        OUT.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}
