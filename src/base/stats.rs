//! Plain counters of what a read touched.
//!
//! A lookup reports what it does to a sink, event by event. The usual sink counts: in the
//! database's own [`ReadTally`], or in a [`ReadTrace`] that the caller asked for. One code path,
//! always on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of levels of a database; LevelDB's `config::kNumLevels`.
pub const NUM_LEVELS: usize = 7;

/// What one read did, or the sum of many, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadTrace {
    /// Memtables asked.
    pub memtables_probed: u64,
    /// Memtables that had the answer.
    pub memtable_hits: u64,
    /// What was done at each level, from 0.
    pub levels: [LevelTrace; NUM_LEVELS],
}

/// Declares the counters of a level twice: plain, and with a twin that others read meanwhile.
macro_rules! level_counters {
    ($($(#[$doc:meta])* $counter:ident,)*) => {
        /// What reads did at one level, or in one table, counted.
        ///
        /// There are two kinds of filters that gets ask. A *block filter* answers for one data
        /// block, after the index has said which; a *table filter* answers for the whole table,
        /// before the index is searched. Scans ask *prefix filters*.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LevelTrace {
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl LevelTrace {
            /// Adds another's counts to these.
            pub fn add(&mut self, other: &LevelTrace) {
                $(self.$counter += other.$counter;)*
            }

            /// Every counter with its name, for programs that print them all.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($counter), self.$counter),)*]
            }
        }

        /// A [`LevelTrace`] under way.
        #[derive(Debug, Default)]
        pub struct LevelTally {
            $($(#[$doc])* pub $counter: Tally,)*
        }

        impl LevelTally {
            /// Adds what was counted elsewhere.
            pub fn add(&self, trace: &LevelTrace) {
                $(self.$counter.count(trace.$counter);)*
            }

            /// What was counted so far.
            pub fn load(&self) -> LevelTrace {
                LevelTrace { $($counter: self.$counter.load(),)* }
            }
        }
    };
}

level_counters! {
    /// Tables a get asked: their key range holds the key.
    tables_considered,
    /// Tables a get left out: their key range does not hold the key.
    tables_skipped_by_range,
    /// Index blocks searched.
    index_seeks,
    /// Block filters asked.
    filter_checks,
    /// Block filters that said "not here": a data block saved.
    filter_negatives,
    /// Block filters that said "maybe", and the block had the key.
    filter_true_positives,
    /// Block filters that said "maybe", and the block did not have the key, or only in versions
    /// newer than the read.
    filter_false_positives,
    /// Data blocks found in the block cache.
    data_blocks_from_cache,
    /// Data blocks read from a file.
    data_blocks_from_file,
    /// Bytes read from files, block trailers included.
    bytes_read,
    /// Bytes that came out of decompression.
    bytes_decompressed,
    /// Block checksums verified.
    checksums_verified,
    /// Table filters asked.
    table_filter_checks,
    /// Table filters that said "not here": an index search and a data block saved.
    table_filter_negatives,
    /// Table filters that said "maybe", and the table had the key.
    table_filter_true_positives,
    /// Table filters that said "maybe", and the table did not have the key, or only in versions
    /// newer than the read.
    table_filter_false_positives,
    /// Prefix filters asked, by scans of one prefix.
    prefix_filter_checks,
    /// Prefix filters that said "not here": a table the scan left out.
    prefix_filter_negatives,
}

impl LevelTrace {
    /// Data blocks looked into, wherever they came from.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks_from_cache + self.data_blocks_from_file
    }

    /// Filters that gets asked, of either kind.
    pub fn all_filter_checks(&self) -> u64 {
        self.filter_checks + self.table_filter_checks
    }

    /// Filters that said "not here", of either kind.
    pub fn all_filter_negatives(&self) -> u64 {
        self.filter_negatives + self.table_filter_negatives
    }

    /// Filters that said "maybe" rightly, of either kind.
    pub fn all_filter_true_positives(&self) -> u64 {
        self.filter_true_positives + self.table_filter_true_positives
    }

    /// Filters that said "maybe" wrongly, of either kind.
    pub fn all_filter_false_positives(&self) -> u64 {
        self.filter_false_positives + self.table_filter_false_positives
    }
}

impl ReadTrace {
    /// The sum of all levels.
    pub fn total(&self) -> LevelTrace {
        let mut total = LevelTrace::default();
        for level in &self.levels {
            total.add(level);
        }
        total
    }

    /// Data blocks looked into, at all levels, wherever they came from.
    pub fn data_blocks(&self) -> u64 {
        self.levels.iter().map(LevelTrace::data_blocks).sum()
    }

    /// Adds another trace's counts to this one.
    pub fn add(&mut self, other: &ReadTrace) {
        self.memtables_probed += other.memtables_probed;
        self.memtable_hits += other.memtable_hits;
        for (level, other) in self.levels.iter_mut().zip(&other.levels) {
            level.add(other);
        }
    }
}

/// A counter that one thread at a time adds to, and any reads: an addition costs what it costs in
/// plain memory, not the locked instruction that several writers would need.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Adds `n`.
    #[inline]
    pub fn count(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Makes it `n`.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The sum so far.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The sum of one thread's reads. Two cache lines at least: neighbours are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ReadTally {
    /// Gets.
    pub gets: Tally,
    /// Gets that found a value.
    pub gets_found: Tally,
    /// How many gets there will be when one is taken as a sample again; not a sum.
    pub next_sample: Tally,
    /// See [`ReadTrace`].
    pub memtables_probed: Tally,
    /// See [`ReadTrace`].
    pub memtable_hits: Tally,
    /// See [`ReadTrace`].
    pub levels: [LevelTally; NUM_LEVELS],
}

impl ReadTally {
    /// Counts one get.
    #[inline]
    pub fn get(&self, found: bool) {
        self.gets.count(1);
        self.gets_found.count(u64::from(found));
    }

    /// Adds what was counted elsewhere.
    pub fn add(&self, trace: &ReadTrace) {
        self.memtables_probed.count(trace.memtables_probed);
        self.memtable_hits.count(trace.memtable_hits);
        for (level, trace) in self.levels.iter().zip(&trace.levels) {
            level.add(trace);
        }
    }

    /// The reads so far.
    pub fn load(&self) -> ReadTrace {
        ReadTrace {
            memtables_probed: self.memtables_probed.load(),
            memtable_hits: self.memtable_hits.load(),
            levels: std::array::from_fn(|level| self.levels[level].load()),
        }
    }
}
