//! Counters of the work done by reads, over all levels.
//!
//! A lookup reports each step to a sink. The usual sinks count the steps, either in the calling
//! thread's [`ReadTally`] or in a [`ReadTrace`] that the caller asked for. Counting is always on,
//! and both sinks take the same code path.

use crate::format::edit::NUM_LEVELS;
use crate::table::counts::{LevelTally, LevelTrace, Tally};

/// Counts of the work of one read, or the sums of the counts of many reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadTrace {
    /// Number of memtables searched.
    pub memtables_probed: u64,
    /// Number of memtables that had the answer.
    pub memtable_hits: u64,
    /// Counts by level, from level 0.
    pub levels: [LevelTrace; NUM_LEVELS],
}

/// Serializes the sum over all levels, and the levels at which anything was counted.
#[cfg(feature = "serde")]
impl serde::Serialize for ReadTrace {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Trace<'a> {
            memtables_probed: u64,
            memtable_hits: u64,
            #[serde(flatten)]
            total: LevelTrace,
            levels: Vec<Level<'a>>,
        }
        #[derive(serde::Serialize)]
        struct Level<'a> {
            level: usize,
            #[serde(flatten)]
            counts: &'a LevelTrace,
        }
        let levels = self.levels.iter().enumerate();
        let levels = levels.filter(|(_, counts)| **counts != LevelTrace::default());
        Trace {
            memtables_probed: self.memtables_probed,
            memtable_hits: self.memtable_hits,
            total: self.total(),
            levels: levels.map(|(level, counts)| Level { level, counts }).collect(),
        }
        .serialize(to)
    }
}

impl ReadTrace {
    /// Returns the sum over all levels.
    pub fn total(&self) -> LevelTrace {
        let mut total = LevelTrace::default();
        for level in &self.levels {
            total.add(level);
        }
        total
    }

    /// Returns the number of data blocks searched at all levels, from the cache or from files.
    pub fn data_blocks(&self) -> u64 {
        self.levels.iter().map(LevelTrace::data_blocks).sum()
    }

    /// Adds the counts of `other` to the counts of `self`.
    pub fn add(&mut self, other: &ReadTrace) {
        self.memtables_probed += other.memtables_probed;
        self.memtable_hits += other.memtable_hits;
        for (level, other) in self.levels.iter_mut().zip(&other.levels) {
            level.add(other);
        }
    }
}

/// The counts of one thread's reads. Aligned to two cache lines, because CPUs prefetch lines in
/// pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReadTally {
    /// Number of gets.
    pub gets: Tally,
    /// Number of gets that found a value.
    pub gets_found: Tally,
    /// The value of `gets` at which the next get is sampled. It is not a count of events.
    pub next_sample: Tally,
    /// See [`ReadTrace::memtables_probed`].
    pub memtables_probed: Tally,
    /// See [`ReadTrace::memtable_hits`].
    pub memtable_hits: Tally,
    /// See [`ReadTrace::levels`].
    pub levels: [LevelTally; NUM_LEVELS],
}

impl ReadTally {
    /// Counts one get.
    #[inline]
    pub(crate) fn get(&self, found: bool) {
        self.gets.count(1);
        self.gets_found.count(u64::from(found));
    }

    /// Adds the counts of `trace`.
    pub(crate) fn add(&self, trace: &ReadTrace) {
        self.memtables_probed.count(trace.memtables_probed);
        self.memtable_hits.count(trace.memtable_hits);
        for (level, trace) in self.levels.iter().zip(&trace.levels) {
            level.add(trace);
        }
    }

    /// Returns the counts so far.
    pub(crate) fn load(&self) -> ReadTrace {
        ReadTrace {
            memtables_probed: self.memtables_probed.load(),
            memtable_hits: self.memtable_hits.load(),
            levels: std::array::from_fn(|level| self.levels[level].load()),
        }
    }
}
