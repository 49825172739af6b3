//! Counters of the work done by reads.
//!
//! A lookup reports each step to a sink. The usual sinks are counters: the database's own
//! `ReadTally`, or a `ReadTrace` that the caller asked for. Counting is always on, and both sinks
//! take the same code path.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Declares the counters of a level twice: as plain numbers, and as counters that other threads can
/// read while they are being updated.
macro_rules! level_counters {
    ($($(#[$doc:meta])* $counter:ident,)*) => {
        /// Counts of the work that reads did at one level, or in one table.
        ///
        /// A get queries two kinds of filters. A *block filter* covers one data block and is
        /// queried after the index; a *table filter* covers the whole table and is queried before
        /// the index. A scan queries *prefix filters*.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct LevelTrace {
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl LevelTrace {
            /// Adds the counts of `other` to these counts.
            pub fn add(&mut self, other: &LevelTrace) {
                $(self.$counter += other.$counter;)*
            }

            /// Returns the names and values of all counters, in the order of the fields.
            pub fn counters(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($counter), self.$counter),)*]
            }
        }

        /// Counters that other threads can read during updates; see [`LevelTrace`].
        #[derive(Debug, Default)]
        pub struct LevelTally {
            $($(#[$doc])* pub $counter: Tally,)*
        }

        impl LevelTally {
            /// Adds the counts of `trace`.
            pub fn add(&self, trace: &LevelTrace) {
                $(self.$counter.count(trace.$counter);)*
            }

            /// Returns the counts so far.
            pub fn load(&self) -> LevelTrace {
                LevelTrace { $($counter: self.$counter.load(),)* }
            }
        }
    };
}

level_counters! {
    /// Number of tables searched by gets, because the table's key range contains the key.
    tables_considered,
    /// Number of tables skipped by gets, because the table's key range does not contain the key.
    tables_skipped_by_range,
    /// Number of index blocks searched.
    index_seeks,
    /// Number of block filters queried.
    filter_checks,
    /// Number of block filters that answered "no". Each such answer saves the search of a data
    /// block.
    filter_negatives,
    /// Number of block filters that answered "maybe" for a key that the block contained.
    filter_true_positives,
    /// Number of block filters that answered "maybe" although the block did not contain the key, or
    /// contained only versions newer than the read.
    filter_false_positives,
    /// Number of data blocks found in the block cache.
    data_blocks_from_cache,
    /// Number of data blocks read from a file.
    data_blocks_from_file,
    /// Number of bytes read from files, block trailers included.
    bytes_read,
    /// Number of bytes produced by decompression.
    bytes_decompressed,
    /// Number of block checksums verified.
    checksums_verified,
    /// Number of table filters queried.
    table_filter_checks,
    /// Number of table filters that answered "no". Each such answer saves the searches of an index
    /// block and a data block.
    table_filter_negatives,
    /// Number of table filters that answered "maybe" for a key that the table contained.
    table_filter_true_positives,
    /// Number of table filters that answered "maybe" although the table did not contain the key, or
    /// contained only versions newer than the read.
    table_filter_false_positives,
    /// Number of prefix filters queried by scans of one prefix.
    prefix_filter_checks,
    /// Number of prefix filters that answered "no". Each such answer saves the scan of a table.
    prefix_filter_negatives,
}

impl LevelTrace {
    /// Returns the number of data blocks searched, from the cache or from files.
    pub fn data_blocks(&self) -> u64 {
        self.data_blocks_from_cache + self.data_blocks_from_file
    }
}

/// Counts of block filters and table filters together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllFilters {
    /// Number of filters queried.
    pub checks: u64,
    /// Number of filters that answered "no".
    pub negatives: u64,
    /// Number of filters that correctly answered "maybe".
    pub true_positives: u64,
    /// Number of filters that wrongly answered "maybe".
    pub false_positives: u64,
}

impl AllFilters {
    /// Adds up the counts of block filters and table filters in `trace`.
    pub fn of(trace: &LevelTrace) -> AllFilters {
        AllFilters {
            checks: trace.filter_checks + trace.table_filter_checks,
            negatives: trace.filter_negatives + trace.table_filter_negatives,
            true_positives: trace.filter_true_positives + trace.table_filter_true_positives,
            false_positives: trace.filter_false_positives + trace.table_filter_false_positives,
        }
    }
}

/// A counter that any thread may read, but only one thread at a time may increase. An increase
/// costs no more than an addition to a plain number. Concurrent writers would need a locked
/// instruction.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Adds `n` to the counter.
    #[inline]
    pub fn count(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the counter to `n`.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Returns the current value.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_block_filters_and_table_filters() {
        let trace = LevelTrace {
            data_blocks_from_cache: 1,
            data_blocks_from_file: 20,
            filter_checks: 2,
            table_filter_checks: 30,
            filter_negatives: 3,
            table_filter_negatives: 40,
            filter_true_positives: 4,
            table_filter_true_positives: 50,
            filter_false_positives: 5,
            table_filter_false_positives: 60,
            ..LevelTrace::default()
        };
        assert_eq!(trace.data_blocks(), 21);
        let AllFilters { checks, negatives, true_positives, false_positives } =
            AllFilters::of(&trace);
        assert_eq!((checks, negatives, true_positives, false_positives), (32, 43, 54, 65));
    }
}
