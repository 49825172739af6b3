//! A memory budget that several databases share.
//!
//! The block cache counts how much of the budget is used by memtables and open tables, and uses the
//! rest itself ([`budget`](crate::table::block_cache::budget)). This module handles the memtables:
//! it decides which memtable is flushed early when all memtables together have become too large.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicBool, AtomicU64};
use crate::base::sync::{LockRank, Mutex};
use crate::engine::resources::signal::WorkSignal;
use crate::table::block_cache::BlockCache;

/// Smallest budget, in bytes. With a smaller budget, memtables would be flushed every few entries,
/// which only tests under shuttle need.
const LEAST_BYTES: usize = if cfg!(shuttle) { 64 << 10 } else { 1 << 20 };

/// Ratio of the budget to the maximum size of a write buffer. With a higher ratio, flushes are
/// smaller and more frequent.
const WRITE_BUFFER_PART: u64 = 8;

/// Ratio of the budget to the total size of memtables at which the largest memtable is flushed.
/// With a higher ratio, memtables are flushed earlier and more memory is left to blocks.
const FLUSH_PART: u64 = 4;

/// Ratio of the budget to the total size of memtables above which writes are slowed down. With a
/// higher ratio, writes are slowed down earlier.
const SLOWDOWN_PART: u64 = 2;

/// The action that a writer must take because of the memory that memtables take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// No action.
    None,
    /// Write more slowly.
    SlowDown,
    /// Freeze the memtable.
    Freeze,
}

/// A memory budget. Thread-safe.
pub(crate) struct Memory {
    cache: Arc<BlockCache>,
    /// The memtables of the databases.
    shares: Mutex<Vec<Weak<MemtableShare>>>,
}

/// The memory that the memtables of one database take from the budget. Thread-safe.
pub(crate) struct MemtableShare {
    memory: Arc<Memory>,
    /// Size of the memtable that writes go to, in bytes, at the last check.
    active: AtomicU64,
    /// Size of the memtables that wait for their flush, in bytes.
    frozen: AtomicU64,
    /// Whether another database has asked this database to freeze its memtable in the background.
    is_asked: AtomicBool,
    /// Tells the database that there is background work.
    pub signal: WorkSignal,
}

impl Memory {
    /// Creates a budget of `bytes` bytes, but at least [`LEAST_BYTES`].
    pub(crate) fn new(bytes: usize) -> Memory {
        let cache = Arc::new(BlockCache::with_budget(bytes.max(LEAST_BYTES)));
        Memory { cache, shares: Mutex::ranked(LockRank::Leaf, Vec::new()) }
    }

    /// Returns the block cache.
    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Returns the maximum size of a database's write buffer, in bytes.
    pub(crate) fn most_write_buffer_bytes(&self) -> usize {
        (self.cache.capacity_bytes() / WRITE_BUFFER_PART) as usize
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.weigh();
        self.cache.taken_bytes() + self.cache.usage_bytes()
    }

    /// Creates and returns the share of a database that joins the budget.
    pub(crate) fn join(self: &Arc<Memory>) -> Arc<MemtableShare> {
        let share = Arc::new(MemtableShare {
            memory: self.clone(),
            active: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            signal: WorkSignal::default(),
        });
        self.shares.lock().push(Arc::downgrade(&share));
        share
    }

    /// Adds up the sizes of the memtables of all databases. Returns the total in bytes, and the
    /// share whose active memtable is the largest.
    fn weigh(&self) -> (u64, Option<Arc<MemtableShare>>) {
        let shares: Vec<Arc<MemtableShare>> = {
            let mut shares = self.shares.lock();
            shares.retain(|share| share.strong_count() > 0);
            shares.iter().filter_map(Weak::upgrade).collect()
        };
        let total = shares.iter().map(|share| share.bytes()).fold(0, u64::saturating_add);
        self.cache.set_memtable_bytes(total);
        (total, shares.into_iter().max_by_key(|share| share.active.load(Relaxed)))
    }
}

impl MemtableShare {
    fn bytes(&self) -> u64 {
        self.active.load(Relaxed).saturating_add(self.frozen.load(Relaxed))
    }

    /// Records that the current memtable has grown to `bytes` bytes, and returns the action that
    /// the writer must take. If the largest memtable must be frozen and belongs to another
    /// database, asks that database to freeze it.
    pub(crate) fn grown_to(self: &Arc<MemtableShare>, bytes: u64) -> Pressure {
        self.active.store(bytes, Relaxed);
        let (total, largest) = self.memory.weigh();
        let budget = self.memory.cache.capacity_bytes();
        if total >= budget / FLUSH_PART
            && let Some(largest) = largest.filter(|largest| largest.active.load(Relaxed) > 0)
        {
            if Arc::ptr_eq(&largest, self) {
                return Pressure::Freeze;
            }
            if !largest.is_asked.swap(true, Relaxed) {
                largest.signal.give();
            }
        }
        if total > budget / SLOWDOWN_PART { Pressure::SlowDown } else { Pressure::None }
    }

    /// Returns whether another database has asked for the memtable to be frozen, and clears the
    /// request.
    pub(crate) fn take_request(&self) -> bool {
        self.is_asked.swap(false, Relaxed)
    }

    /// Records that the current memtable was frozen at a size of `bytes` bytes and replaced by an
    /// empty one.
    pub(crate) fn frozen(&self, bytes: u64) {
        self.active.store(0, Relaxed);
        self.frozen.fetch_add(bytes, Relaxed);
    }

    /// Records that a frozen memtable of `bytes` bytes was flushed to a table.
    pub(crate) fn flushed(&self, bytes: u64) {
        self.frozen.fetch_sub(bytes, Relaxed);
        self.memory.weigh();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("bytes", &self.cache.capacity_bytes())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for MemtableShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableShare")
            .field("active", &self.active)
            .field("frozen", &self.frozen)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_memtable_is_frozen_at_a_quarter_of_the_budget() {
        let memory = Arc::new(Memory::new(8 << 20));
        assert_eq!(memory.most_write_buffer_bytes(), 1 << 20);
        let [a, b] = [memory.join(), memory.join()];
        assert_eq!(a.grown_to(1 << 20), Pressure::None);
        assert_eq!(b.grown_to((1 << 20) - 1), Pressure::None);
        assert_eq!(a.grown_to(1 << 20), Pressure::None);
        assert_eq!(a.grown_to((1 << 20) + 2), Pressure::Freeze);
        // The memtable that grows is the smaller of the two.
        assert_eq!(b.grown_to(1 << 20), Pressure::None);
        assert!(a.take_request() && !a.take_request());
        a.frozen((1 << 20) + 2);
        assert_eq!(b.grown_to(1 << 20), Pressure::Freeze);
        assert!(!b.take_request());
        assert_eq!(b.grown_to(0), Pressure::None, "nothing is left to freeze");
        b.frozen(3 << 20);
        assert_eq!(a.grown_to(0), Pressure::SlowDown);
        assert!(memory.cache.taken_bytes() > 4 << 20);
        b.flushed(3 << 20);
        assert_eq!(a.grown_to(0), Pressure::None);
        // A closed database takes no memory.
        drop(a);
        assert_eq!(memory.used_bytes(), 0);
    }
}
