//! A memory budget: the capacity of a block cache, shared with memtables and with the indexes and
//! filters of open tables.
//!
//! The cache may use the part that memtables and tables do not take. Memtables are flushed to stay
//! within their part (`engine::resources::memory`). Tables are closed so that open tables take at
//! most a quarter of the budget.

use std::fmt;
use std::sync::Weak;

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::{LockRank, Mutex};

/// Divisor of the budget: indexes and filters of open tables may take a quarter. With a larger
/// divisor, more memory is left for blocks, and tables are closed and opened more often.
const TABLES_DIVISOR: u64 = 4;

/// Divisor of the budget: a 64th is the size of a step. The capacity of the cache's shards changes
/// only in whole steps, as memtables and tables take more or less of the budget. With a larger
/// divisor, the capacity changes more often.
const STEP_DIVISOR: u64 = 64;

/// A set of open tables, some of which can be closed.
pub trait OpenTables: Send + Sync {
    /// Returns the memory that the indexes and filters of the open tables take, in bytes.
    fn pinned_bytes(&self) -> u64;

    /// Closes tables whose indexes and filters take `bytes` bytes or a little more in total, but
    /// keeps at least one table open. Returns the number of bytes that the closed tables took.
    fn close_some(&self, bytes: u64) -> u64;
}

/// A budget and the numbers of bytes taken from it. Thread-safe.
pub(super) struct Budget {
    /// The whole budget, in bytes.
    bytes: u64,
    /// Number of bytes that memtables take.
    memtables: AtomicU64,
    /// Number of bytes that the indexes and filters of open tables take.
    tables: AtomicU64,
    /// Number of bytes that the cache leaves for memtables and tables.
    reserved: AtomicU64,
    /// The table caches of all databases that share the budget.
    all_tables: Mutex<Vec<Weak<dyn OpenTables>>>,
}

impl Budget {
    /// Creates a budget of `bytes` bytes, of which nothing is taken yet.
    pub(super) fn new(bytes: usize) -> Budget {
        Budget {
            bytes: bytes as u64,
            memtables: AtomicU64::new(0),
            tables: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            all_tables: Mutex::ranked(LockRank::Leaf, Vec::new()),
        }
    }

    /// Returns the number of bytes that memtables and tables take.
    pub(super) fn taken(&self) -> u64 {
        self.memtables.load(Relaxed).saturating_add(self.tables.load(Relaxed))
    }

    /// Sets the number of bytes that memtables take.
    pub(super) fn set_memtables(&self, bytes: u64) {
        self.memtables.store(bytes, Relaxed);
    }

    /// Adds `bytes`, the size of the index and filters of a table that is opened.
    pub(super) fn add_table(&self, bytes: u64) {
        self.tables.fetch_add(bytes, Relaxed);
    }

    /// Subtracts the bytes of a table that [`add_table`](Self::add_table) added.
    pub(super) fn remove_table(&self, bytes: u64) {
        let before = self.tables.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes of {before} are given back");
    }

    /// Returns the number of bytes that the cache must leave for memtables and tables.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// Recomputes the number of bytes that the cache leaves for memtables and tables, rounded up to
    /// a whole step. Returns whether the number has changed.
    pub(super) fn reserve(&self) -> bool {
        let step = (self.bytes / STEP_DIVISOR).max(1);
        let reserve = self.taken().div_ceil(step).saturating_mul(step).min(self.bytes);
        self.reserved.swap(reserve, Relaxed) != reserve
    }

    /// Registers `tables`, some of which may be closed when all open tables together take too much
    /// of the budget.
    pub(super) fn may_close(&self, tables: Weak<dyn OpenTables>) {
        let mut all = self.all_tables.lock();
        all.retain(|tables| tables.strong_count() > 0);
        all.push(tables);
    }

    /// Closes tables if all open tables together take more than their part of the budget. Starts
    /// with the database whose tables take the most.
    pub(super) fn close_tables(&self) {
        let mut over = self.tables.load(Relaxed).saturating_sub(self.bytes / TABLES_DIVISOR);
        if over == 0 {
            return;
        }
        let all: Vec<_> = self.all_tables.lock().iter().filter_map(Weak::upgrade).collect();
        let mut all: Vec<_> =
            all.into_iter().map(|tables| (tables.pinned_bytes(), tables)).collect();
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (_, tables) in all {
            over = over.saturating_sub(tables.close_some(over));
            if over == 0 {
                return;
            }
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("bytes", &self.bytes)
            .field("memtables", &self.memtables)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A set of open tables, each of which takes 100 bytes of the budget.
    struct Tables(AtomicU64, Arc<Budget>);

    impl OpenTables for Tables {
        fn pinned_bytes(&self) -> u64 {
            self.0.load(Relaxed) * 100
        }

        fn close_some(&self, bytes: u64) -> u64 {
            let closed = bytes.div_ceil(100).min(self.0.load(Relaxed).saturating_sub(1));
            self.0.fetch_sub(closed, Relaxed);
            self.1.remove_table(closed * 100);
            closed * 100
        }
    }

    #[test]
    fn the_database_with_most_open_tables_closes_some() {
        let budget = Arc::new(Budget::new(4000));
        let all = [3, 12].map(|count| Arc::new(Tables(AtomicU64::new(count), budget.clone())));
        for tables in &all {
            let tables: Arc<dyn OpenTables> = tables.clone();
            budget.may_close(Arc::downgrade(&tables));
        }
        let open = || all.clone().map(|tables| tables.0.load(Relaxed));
        budget.add_table(1500);
        budget.close_tables();
        assert_eq!((open(), budget.taken()), ([3, 7], 1000));
        // When the database with few open tables opens one more, the database with many open tables
        // closes one.
        budget.add_table(100);
        all[0].0.fetch_add(1, Relaxed);
        budget.close_tables();
        assert_eq!(open(), [4, 6]);
        // A database that has only one open table is skipped.
        all[1].0.store(1, Relaxed);
        budget.add_table(100);
        budget.close_tables();
        assert_eq!(open(), [3, 1]);
    }

    #[test]
    fn the_reserve_follows_the_memory_taken_in_steps() {
        let budget = Budget::new(6400);
        assert!(!budget.reserve());
        budget.set_memtables(1);
        assert!(budget.reserve());
        budget.add_table(99);
        assert!(!budget.reserve());
        assert_eq!(budget.reserved(), 100);
        budget.add_table(1);
        assert!(budget.reserve());
        assert_eq!(budget.reserved(), 200);
        // If memtables take more than the whole budget, the whole budget is reserved.
        budget.set_memtables(u64::MAX);
        assert!(budget.reserve());
        assert_eq!(budget.reserved(), 6400);
    }
}
