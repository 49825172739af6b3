//! A budget of memory: the capacity of a block cache, from which memtables and the indexes and
//! filters of open tables take their part.
//!
//! The cache has what the others leave. Memtables keep to their part by being flushed
//! ([`Memory`](crate::engine::resources::memory::Memory)), and tables by being closed: at most a
//! quarter of the budget is theirs.

use std::sync::Weak;

use crate::base::sync::atomic::AtomicU64;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::sync::{LockRank, Mutex};
use crate::table::block_cache::{BlockCache, large_capacity};

/// Part of the budget that indexes and filters of open tables may take (one quarter). With a larger
/// divisor, more is left to blocks, and tables are closed and opened more often.
const TABLES_PART: u64 = 4;

/// Changes of what is taken are passed on to the shards of the cache in steps of this part of the
/// budget. With a larger divisor, the shards change their capacity more often.
const STEP_PART: u64 = 64;

/// Open tables that can be closed.
pub trait OpenTables: Send + Sync {
    /// Returns the memory that their indexes and filters take, in bytes.
    fn pinned_bytes(&self) -> u64;

    /// Closes tables that take `bytes` or a little more, but not the last one. Returns the number
    /// of bytes that they took.
    fn close_some(&self, bytes: u64) -> u64;
}

/// What is taken from a cache's capacity.
#[derive(Default)]
pub(super) struct Budget {
    /// Size of memtables, in bytes.
    memtables: AtomicU64,
    /// Size of the indexes and filters of open tables, in bytes.
    tables: AtomicU64,
    /// Size that the shards of the cache leave to others, in bytes.
    pub(super) reserved: AtomicU64,
    /// The table caches of the databases.
    all_tables: Mutex<Vec<Weak<dyn OpenTables>>>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("reserved", &self.reserved).finish_non_exhaustive()
    }
}

impl BlockCache {
    /// Creates a cache of at most `bytes` bytes, from which memtables and tables take their part.
    pub fn with_budget(bytes: usize) -> BlockCache {
        let all_tables = Mutex::ranked(LockRank::Leaf, Vec::new());
        let budget = Budget { all_tables, ..Budget::default() };
        BlockCache::of_bytes(bytes, Some(budget))
    }

    /// Returns the size of the budget or cache, in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes that memtables and tables take of the budget.
    pub fn taken_bytes(&self) -> u64 {
        self.budget.as_ref().map_or(0, Budget::taken)
    }

    /// Sets the number of bytes that memtables take.
    pub fn set_memtable_bytes(&self, bytes: u64) {
        if let Some(budget) = &self.budget {
            budget.memtables.store(bytes, Relaxed);
            self.make_way(budget);
        }
    }

    /// Counts an open table's indexes and filters. Returns the number of bytes to give back.
    pub(super) fn take_for_table(&self, bytes: u64) -> u64 {
        let Some(budget) = &self.budget else { return 0 };
        budget.tables.fetch_add(bytes, Relaxed);
        self.make_way(budget);
        bytes
    }

    /// Takes back what [`take_for_table`](Self::take_for_table) returned.
    pub(super) fn give_back(&self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes > 0) {
            let before = budget.tables.fetch_sub(bytes, Relaxed);
            debug_assert!(before >= bytes, "{bytes} bytes of {before} are given back");
            self.make_way(budget);
        }
    }

    /// Lets tables of `tables` be closed when all tables together take too much.
    pub fn may_close(&self, tables: Weak<dyn OpenTables>) {
        if let Some(budget) = &self.budget {
            let mut all = budget.all_tables.lock();
            all.retain(|tables| tables.strong_count() > 0);
            all.push(tables);
        }
    }

    /// Closes tables if all open ones take more than their part: first those of the database whose
    /// tables take the most.
    pub fn close_tables(&self) {
        let Some(budget) = &self.budget else { return };
        let most = self.bytes / TABLES_PART;
        let mut over = budget.tables.load(Relaxed).saturating_sub(most);
        if over == 0 {
            return;
        }
        let all: Vec<_> = budget.all_tables.lock().iter().filter_map(Weak::upgrade).collect();
        let mut all: Vec<_> =
            all.into_iter().map(|tables| (tables.pinned_bytes(), tables)).collect();
        all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (_, tables) in all {
            if over == 0 {
                return;
            }
            over = over.saturating_sub(tables.close_some(over));
        }
    }

    /// Lets the shards have what is not taken, if that has changed by a step.
    fn make_way(&self, budget: &Budget) {
        let step = (self.bytes / STEP_PART).max(1);
        let reserve = budget.taken().div_ceil(step).saturating_mul(step).min(self.bytes);
        if budget.reserved.swap(reserve, Relaxed) == reserve {
            return;
        }
        let mut large = self.large.lock();
        large.capacity = large_capacity(self.bytes.saturating_sub(self.reserved_bytes()));
        large.make_room(0);
        large.drop_spares();
        self.lend(large.bytes());
    }

    /// Returns the number of bytes that the shards leave to others.
    pub(super) fn reserved_bytes(&self) -> u64 {
        self.budget.as_ref().map_or(0, |budget| budget.reserved.load(Relaxed))
    }
}

impl Budget {
    fn taken(&self) -> u64 {
        self.memtables.load(Relaxed).saturating_add(self.tables.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::block::Block;
    use crate::format::block_builder::BlockBuilder;

    /// Tables of 100 bytes each.
    struct Tables(AtomicU64, Arc<BlockCache>);

    impl OpenTables for Tables {
        fn pinned_bytes(&self) -> u64 {
            self.0.load(Relaxed) * 100
        }

        fn close_some(&self, bytes: u64) -> u64 {
            let closed = bytes.div_ceil(100).min(self.0.load(Relaxed).saturating_sub(1));
            self.0.fetch_sub(closed, Relaxed);
            self.1.give_back(closed * 100);
            closed * 100
        }
    }

    #[test]
    fn tables_are_closed_where_most_are_open() {
        let cache = Arc::new(BlockCache::with_budget(4000));
        let all = [3, 12].map(|count| Arc::new(Tables(AtomicU64::new(count), cache.clone())));
        for tables in &all {
            let tables: Arc<dyn OpenTables> = tables.clone();
            cache.may_close(Arc::downgrade(&tables));
        }
        assert_eq!(cache.take_for_table(1500), 1500);
        cache.close_tables();
        assert_eq!(all.clone().map(|tables| tables.0.load(Relaxed)), [3, 7]);
        assert_eq!(cache.taken_bytes(), 4000 / TABLES_PART);
        // One more table is opened where few are, and one is closed where most are.
        cache.take_for_table(100);
        all[0].0.fetch_add(1, Relaxed);
        cache.close_tables();
        assert_eq!(all.clone().map(|tables| tables.0.load(Relaxed)), [4, 6]);
        // A database without a table to close is passed over.
        all[1].0.store(1, Relaxed);
        cache.take_for_table(100);
        cache.close_tables();
        assert_eq!(all.map(|tables| tables.0.load(Relaxed)), [3, 1]);
    }

    #[test]
    fn blocks_have_what_the_others_leave() {
        let cache = Arc::new(BlockCache::with_budget(64 << 20));
        let table = cache.table(2000);
        let mut builder = BlockBuilder::new(1);
        builder.add(b"key", &[b'v'; 64 << 10]);
        let block = builder.finish();
        let fill = || {
            for at in 0..2000 {
                if table.get(at).is_none() && table.wants(at, 64 << 10) {
                    table.insert(at, Block::new(block).unwrap());
                }
            }
            cache.usage_bytes()
        };
        let whole = fill();
        assert!((60 << 20..=64 << 20).contains(&whole), "{whole}");
        cache.set_memtable_bytes(32 << 20);
        assert!(cache.usage_bytes() <= 32 << 20, "{}", cache.usage_bytes());
        let half = fill();
        assert!((28 << 20..=32 << 20).contains(&half), "{half}");
        let taken = cache.take_for_table(16 << 20);
        assert!(cache.usage_bytes() <= 16 << 20, "{}", cache.usage_bytes());
        cache.give_back(taken);
        cache.set_memtable_bytes(0);
        assert!(fill() > 60 << 20);
        // More than there is leaves nothing.
        cache.set_memtable_bytes(u64::MAX);
        assert_eq!(cache.usage_bytes(), 0);
    }
}
