//! An allocator that fails once, at a chosen allocation.
#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The system's allocator, which fails at one allocation of a workload.
pub struct FailOnce;

/// Number of allocations since the workload began.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Number of the allocation that fails; 0 if none does, `OFF` if allocations are not counted.
static FAILS_AT: AtomicU64 = AtomicU64::new(OFF);

const OFF: u64 = u64::MAX;

/// Begins a workload. Its allocation number `at`, counted from 1, fails; with 0, none does.
pub fn begin(at: u64) {
    MADE.store(0, Relaxed);
    FAILS_AT.store(at, Relaxed);
}

/// Ends the workload. Returns the number of its allocations.
pub fn end() -> u64 {
    FAILS_AT.store(OFF, Relaxed);
    MADE.load(Relaxed)
}

/// Counts an allocation. Returns whether it fails.
fn is_failing() -> bool {
    let at = FAILS_AT.load(Relaxed);
    at != OFF && MADE.fetch_add(1, Relaxed) + 1 == at
}

// SAFETY: every call goes to the system's allocator, or returns null, which says that the
// allocation failed and leaves the old block of `realloc` as it is.
unsafe impl GlobalAlloc for FailOnce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_failing() { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_failing() { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if is_failing() { null_mut() } else { unsafe { System.realloc(block, layout, bytes) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}
