//! A memory budget that several databases share.
//!
//! The block cache counts how much of the budget is used by memtables and open tables, and uses the
//! rest itself ([`budget`](crate::table::block_cache::budget)). This module handles the memtables:
//! it decides which memtable is flushed early when all memtables together have become too large.
//!
//! A database that cannot flush, because its disk is full or because its flushes are slow, must not
//! cost the other databases more than the memory that it holds. Its memtables are taken from the
//! budget, but only up to a limit ([`MIN_LIMIT_DIVISOR`]), and the next largest memtable is flushed
//! instead.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::atomic::{AtomicBool, AtomicU64};
use crate::base::sync::{LockRank, Mutex};
use crate::engine::resources::signal::WorkSignal;
use crate::table::block_cache::BlockCache;

/// Smallest budget, in bytes. With a smaller budget, memtables would be flushed every few entries,
/// which only tests under shuttle need.
const MIN_BYTES: usize = if cfg!(shuttle) { 64 << 10 } else { 1 << 20 };

/// Divisor of the budget: the maximum size of a write buffer is an eighth. With a larger divisor,
/// flushes are smaller and more frequent.
const WRITE_BUFFER_DIVISOR: u64 = 8;

/// Divisor of the budget: the largest memtable is flushed when all memtables take a quarter. With a
/// larger divisor, memtables are flushed earlier and more memory is left to blocks.
const FLUSH_DIVISOR: u64 = 4;

/// Divisor of the budget: writes are slowed down while all memtables take more than half. With a
/// larger divisor, writes are slowed down earlier.
const SLOWDOWN_DIVISOR: u64 = 2;

/// Divisor of the total size of memtables at which an action is taken. That size falls with the
/// memory of databases that cannot flush, but to no less than a quarter. With a larger divisor,
/// more of their memory is made up for, by flushes of smaller memtables.
const MIN_LIMIT_DIVISOR: u64 = 4;

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
    /// Whether the database cannot freeze or flush a memtable, as far as is known.
    is_stuck: AtomicBool,
    /// Tells the database that there is background work.
    pub signal: WorkSignal,
}

impl Memory {
    /// Creates a budget of `bytes` bytes, but at least [`MIN_BYTES`].
    pub(crate) fn new(bytes: usize) -> Memory {
        let cache = Arc::new(BlockCache::with_budget(bytes.max(MIN_BYTES)));
        Memory { cache, shares: Mutex::ranked(LockRank::Leaf, Vec::new()) }
    }

    /// Returns the block cache.
    pub(crate) fn cache(&self) -> &Arc<BlockCache> {
        &self.cache
    }

    /// Returns the maximum size of a database's write buffer, in bytes.
    pub(crate) fn most_write_buffer_bytes(&self) -> usize {
        (self.cache.capacity_bytes() / WRITE_BUFFER_DIVISOR) as usize
    }

    /// Returns the number of bytes in use.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.weigh(None);
        self.cache.taken_bytes() + self.cache.usage_bytes()
    }

    /// Creates and returns the share of a database that joins the budget.
    pub(crate) fn join(self: &Arc<Memory>) -> Arc<MemtableShare> {
        let share = Arc::new(MemtableShare {
            memory: self.clone(),
            active: AtomicU64::new(0),
            frozen: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            signal: WorkSignal::default(),
        });
        self.shares.lock().push(Arc::downgrade(&share));
        share
    }

    /// Adds up the sizes of the memtables of all databases, and tells the cache the total. The
    /// database `growing`, if given, is being written to, so it can freeze its memtable.
    fn weigh(&self, growing: Option<&MemtableShare>) -> Weight {
        let shares: Vec<Arc<MemtableShare>> = {
            let mut shares = self.shares.lock();
            shares.retain(|share| share.strong_count() > 0);
            shares.iter().filter_map(Weak::upgrade).collect()
        };
        let mut weight = Weight::default();
        let mut most = 0;
        for share in shares {
            let (active, bytes) = (share.active.load(Relaxed), share.bytes());
            let is_growing = growing.is_some_and(|growing| std::ptr::eq(growing, &*share));
            if share.is_stuck.load(Relaxed) && !is_growing {
                weight.stuck = weight.stuck.saturating_add(bytes);
            } else if share.is_asked.load(Relaxed) && !is_growing {
                weight.free = weight.free.saturating_add(bytes - active.min(bytes));
                weight.asked = weight.asked.saturating_add(active);
            } else {
                weight.free = weight.free.saturating_add(bytes);
                if active > most {
                    (most, weight.largest) = (active, Some(share));
                }
            }
        }
        self.cache.set_memtable_bytes(weight.total());
        weight
    }
}

/// The sizes of the memtables of all databases, in bytes.
#[derive(Default)]
struct Weight {
    /// Memtables of databases that can flush, except for those in `asked`.
    free: u64,
    /// Memtables that other databases have asked for and that are not frozen yet.
    asked: u64,
    /// Memtables of databases that cannot flush.
    stuck: u64,
    /// The share with the largest active memtable that can be frozen and was not asked for.
    largest: Option<Arc<MemtableShare>>,
}

impl Weight {
    fn total(&self) -> u64 {
        self.free.saturating_add(self.asked).saturating_add(self.stuck)
    }

    /// Returns the size, in bytes, that memtables of databases that can flush may reach before an
    /// action is taken: `most` without the memory of the databases that cannot flush.
    fn limit(&self, most: u64) -> u64 {
        most.saturating_sub(self.stuck).max(most / MIN_LIMIT_DIVISOR)
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
        let weight = self.memory.weigh(Some(self));
        let budget = self.memory.cache.capacity_bytes();
        if weight.free >= weight.limit(budget / FLUSH_DIVISOR)
            && let Some(largest) = &weight.largest
        {
            if Arc::ptr_eq(largest, self) {
                return Pressure::Freeze;
            }
            if !largest.is_asked.swap(true, Relaxed) {
                largest.signal.give();
            }
        }
        match weight.free.saturating_add(weight.asked) > weight.limit(budget / SLOWDOWN_DIVISOR) {
            true => Pressure::SlowDown,
            false => Pressure::None,
        }
    }

    /// Records whether the database cannot freeze or flush its memtables.
    pub(crate) fn set_stuck(&self, yes: bool) {
        self.is_stuck.store(yes, Relaxed);
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
        self.memory.weigh(None);
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
        assert_eq!((memory.used_bytes(), memory.shares.lock().len()), (0, 1));
    }

    #[test]
    fn a_database_hears_once_that_its_memtable_is_asked_for() {
        let memory = Arc::new(Memory::new(8 << 20));
        let [a, b] = [memory.join(), memory.join()];
        let heard = Arc::new(AtomicU64::new(0));
        let count = heard.clone();
        a.signal.connect(move || {
            count.fetch_add(1, Relaxed);
        });
        a.grown_to(2 << 20);
        assert_eq!(heard.load(Relaxed), 0, "it can freeze its memtable itself");
        b.grown_to(1);
        b.grown_to(2);
        assert_eq!(heard.load(Relaxed), 1);
        assert!(a.take_request());
        b.grown_to(3);
        assert_eq!(heard.load(Relaxed), 2);
    }

    #[test]
    fn the_next_memtable_is_asked_for_if_the_largest_cannot_be_flushed() {
        let memory = Arc::new(Memory::new(8 << 20));
        let [a, b, c] = [memory.join(), memory.join(), memory.join()];
        a.grown_to(1 << 20);
        b.grown_to(700 << 10);
        assert_eq!(c.grown_to(500 << 10), Pressure::None);
        // While `a` does not answer, its memtable counts as given up, so nothing else is asked for
        // until as much again is in use.
        assert!(a.is_asked.load(Relaxed) && !b.take_request());
        assert_eq!(c.grown_to(600 << 10), Pressure::None);
        assert!(!b.take_request());
        // `a` cannot flush. What it holds is taken from the others' part of the budget.
        assert!(a.take_request());
        a.set_stuck(true);
        assert_eq!(c.grown_to(600 << 10), Pressure::None);
        assert!(b.take_request() && !a.take_request());
        // However much it holds, the others keep a sixteenth of the budget.
        a.frozen(0);
        a.grown_to(100 << 20);
        a.set_stuck(true);
        assert_eq!(b.grown_to(100 << 10), Pressure::None);
        assert_eq!(c.grown_to(300 << 10), Pressure::None);
        assert_eq!(c.grown_to(500 << 10), Pressure::Freeze);
        assert!(memory.used_bytes() >= 100 << 20);
        a.set_stuck(false);
        assert_eq!(c.grown_to(300 << 10), Pressure::SlowDown);
    }

    #[test]
    fn a_freeze_alone_does_not_show_that_memtables_can_be_flushed() {
        let memory = Arc::new(Memory::new(8 << 20));
        let [a, b] = [memory.join(), memory.join()];
        a.set_stuck(true);
        a.frozen(3 << 20);
        assert_eq!(b.grown_to(1), Pressure::None);
        a.set_stuck(false);
        assert_eq!(b.grown_to(1), Pressure::Freeze);
    }
}
