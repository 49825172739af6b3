//! The output tables of a merge, and the rule that decides where a table ends.

use std::sync::Arc;

use crate::base::Result;
use crate::engine::compact::plan::{Compaction, MAX_GRANDPARENT_FACTOR};
use crate::engine::table_writer::{TableRun, Target};
use crate::engine::version::numbers::FileNumbers;
use crate::engine::version::tombstones::EntryCounts;
use crate::engine::version::{TableFile, Version};
use crate::format::edit::{NUM_LEVELS, NewFile};
use crate::format::key::{ParsedKey, UserComparator, user_key};

/// A position in the tables of a level. The position only moves forward, because the keys of a
/// merge ascend.
pub(super) struct Follower<'a> {
    files: &'a [Arc<TableFile>],
    at: usize,
}

impl<'a> Follower<'a> {
    pub(super) fn new(version: &'a Version, level: usize) -> Follower<'a> {
        let files = if level < NUM_LEVELS { version.level(level) } else { &[] };
        Follower { files, at: 0 }
    }

    /// Moves past the tables that end before `key`. Returns their total size in bytes.
    pub(super) fn advance(&mut self, order: &UserComparator, key: &[u8]) -> u64 {
        let mut passed = 0;
        while let Some(file) = self.files.get(self.at)
            && order.compare(file.last_key(), key).is_lt()
        {
            passed += file.file_bytes;
            self.at += 1;
        }
        passed
    }

    /// Returns whether a table whose key range contains `key` exists.
    pub(super) fn may_hold(&mut self, order: &UserComparator, key: &[u8]) -> bool {
        self.advance(order, key);
        self.files.get(self.at).is_some_and(|file| order.compare(file.first_key(), key).is_le())
    }
}

/// The rule that decides where an output table ends.
pub(super) struct OutputSplitter<'a> {
    /// Position in the tables of the level below the output level.
    grandparents: Follower<'a>,
    /// Size in bytes of the grandparent tables that the open table overlaps.
    grandparent_bytes: u64,
    max_grandparent_bytes: u64,
    max_file_bytes: u64,
}

impl<'a> OutputSplitter<'a> {
    /// Creates the rule for tables of about `max_file_bytes` bytes.
    pub(super) fn new(compaction: &'a Compaction, max_file_bytes: u64) -> OutputSplitter<'a> {
        OutputSplitter {
            grandparents: Follower::new(&compaction.version, compaction.output_level() + 1),
            grandparent_bytes: 0,
            max_grandparent_bytes: MAX_GRANDPARENT_FACTOR * max_file_bytes,
            max_file_bytes,
        }
    }

    /// Returns whether the open table of `outputs` must end before `key`, the next user key. A
    /// table ends only between two user keys, so that all versions of a key stay together.
    pub(super) fn ends_table(
        &mut self,
        outputs: &Outputs<'_>,
        order: &UserComparator,
        key: &[u8],
    ) -> bool {
        let last_key = outputs.last_key();
        if last_key.is_some_and(|last| order.compare(key, last).is_eq()) {
            return false;
        }
        let passed = self.grandparents.advance(order, key);
        if last_key.is_none() {
            self.grandparent_bytes = 0;
            return false;
        }
        self.grandparent_bytes += passed;
        let ends = outputs.run.open_bytes() >= self.max_file_bytes
            || self.grandparent_bytes > self.max_grandparent_bytes;
        if ends {
            self.grandparent_bytes = 0;
        }
        ends
    }
}

/// The tables that a merge has written, and the table that it is writing.
pub(crate) struct Outputs<'a> {
    target: Target<'a>,
    file_numbers: &'a FileNumbers,
    run: TableRun,
    /// Numbers of all tables whose files may exist.
    numbers: Vec<u64>,
}

impl<'a> Outputs<'a> {
    /// Creates an empty list of output tables for `level`, which take their numbers from
    /// `file_numbers`.
    pub(crate) fn new(
        target: Target<'a>,
        file_numbers: &'a FileNumbers,
        level: usize,
    ) -> Outputs<'a> {
        // An `OutputSplitter` decides where a table ends.
        let run = TableRun::new(level, u64::MAX);
        Outputs { target, file_numbers, run, numbers: Vec::new() }
    }

    /// Adds an entry to the open table, or to a new table if none is open. Keys must ascend.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn add(&mut self, key: &[u8], entry: &ParsedKey<'_>, value: &[u8]) -> Result<()> {
        debug_assert!(self.is_next(key), "the output of a merge ascends");
        // The number is listed before the file is created, so that a failure removes the file.
        let number = || {
            let number = self.file_numbers.take();
            self.numbers.push(number);
            number
        };
        self.run.push(&self.target, number, key, entry, value)
    }

    /// Returns whether `key` may be added next: it must be after the last key of the open table or,
    /// if no table is open, have a later user key than the previous table.
    fn is_next(&self, key: &[u8]) -> bool {
        let order = self.target.order;
        match (self.run.last_key(), self.run.done.last()) {
            (Some(last), _) => order.compare(last, key).is_lt(),
            (None, Some((done, _))) => {
                order.user().compare(user_key(&done.largest), user_key(key)).is_lt()
            }
            (None, None) => true,
        }
    }

    /// Returns the last user key of the open table.
    fn last_key(&self) -> Option<&[u8]> {
        self.run.last_key().map(user_key)
    }

    /// Returns the size of all tables so far, in bytes.
    pub(super) fn written_bytes(&self) -> u64 {
        let done = self.run.done.iter().map(|(file, _)| file.file_bytes);
        self.run.open_bytes() + done.sum::<u64>()
    }

    /// Finishes the open table, if there is one, and syncs its file.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn end_table(&mut self) -> Result<()> {
        self.run.end()
    }

    /// Returns the tables, all of which are finished, and the counts of their entries, by table
    /// number.
    pub(crate) fn into_files(self) -> (Vec<NewFile>, Vec<(u64, EntryCounts)>) {
        debug_assert!(self.run.last_key().is_none(), "a table is unfinished");
        let done = self.run.done.into_iter();
        let done = done.inspect(|(file, _)| {
            debug_assert!(file.file_bytes > 0, "a table has no bytes");
            debug_assert!(self.numbers.contains(&file.number), "a failure would leave {file:?}");
        });
        let split = |(file, counts): (NewFile, EntryCounts)| {
            let number = file.number;
            (file, (number, counts))
        };
        done.map(split).unzip()
    }

    /// Returns the numbers of all tables whose files may exist.
    pub(crate) fn into_numbers(self) -> impl Iterator<Item = u64> {
        self.numbers.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compact::plan::Inputs;
    use crate::engine::testing::engine_in_memory;
    use crate::engine::version::testing::{order, version};
    use crate::format::key::{KeyKind, internal_key};

    #[test]
    fn a_merge_that_moves_on_passes_the_tables_before_its_key() {
        let version = version(["L2: 3:[b-d]@100 4:[f-h]@20 5:[h#0-k]@3"]);
        let order = order().user().clone();
        let mut follower = Follower::new(&version, 2);
        let mut passed = |key: &str| follower.advance(&order, key.as_bytes());
        let steps = ["a", "b", "d", "e", "f", "h", "l", "m"].map(&mut passed);
        assert_eq!(steps, [0, 0, 0, 100, 0, 0, 23, 0]);
        let mut follower = Follower::new(&version, 2);
        let mut holds = |key: &str| follower.may_hold(&order, key.as_bytes());
        let held = ["a", "b", "d", "e", "f", "h", "k", "l"].map(&mut holds);
        assert_eq!(held, [false, true, true, false, true, true, true, false]);
        assert_eq!(Follower::new(&version, NUM_LEVELS).advance(&order, b"z"), 0);
    }

    #[test]
    fn a_table_ends_at_its_size_or_over_ten_tables_two_levels_down() {
        let engine = engine_in_memory();
        let order = order().user().clone();
        let version = version(["L1: 3:[a-z]", "L3: 4:[c-d]@1000 5:[f-g]@1 6:[i-j]@1000"]);
        let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
        let compaction = Compaction::from_inputs(version, &order, inputs, 2);
        let ends = |max_file_bytes: u64, keys: &[&str]| {
            let mut splitter = OutputSplitter::new(&compaction, max_file_bytes);
            let mut outputs = Outputs::new(engine.table_target(), &engine.numbers, 2);
            let mut ended = Vec::new();
            for key in keys {
                if splitter.ends_table(&outputs, &order, key.as_bytes()) {
                    ended.push(key.to_string());
                    outputs.end_table().unwrap();
                }
                let key = internal_key(key.as_bytes(), 1, KeyKind::Value);
                outputs.add(&key, &ParsedKey::parse(&key).unwrap(), b"").unwrap();
            }
            outputs.end_table().unwrap();
            outputs.into_files();
            ended.join(" ")
        };
        assert_eq!(ends(100, &["a", "b", "e", "f", "h", "k"]), "h");
        assert_eq!(ends(100, &["e", "h", "k"]), "k", "what is passed before does not count");
        assert_eq!(ends(101, &["a", "e", "h", "k"]), "k");
        assert_eq!(ends(1, &["a", "b"]), "b");

        let mut outputs = Outputs::new(engine.table_target(), &engine.numbers, 2);
        let key = internal_key(b"a", 1, KeyKind::Value);
        outputs.add(&key, &ParsedKey::parse(&key).unwrap(), b"").unwrap();
        let bytes = outputs.run.open_bytes();
        outputs.end_table().unwrap();
        outputs.into_files();
        assert_eq!(
            (ends(bytes, &["a", "b"]).as_str(), ends(bytes + 1, &["a", "b"]).as_str()),
            ("b", "")
        );
    }

    #[test]
    fn an_output_goes_on_after_its_last_key_and_after_its_last_table() {
        let engine = engine_in_memory();
        let mut outputs = Outputs::new(engine.table_target(), &engine.numbers, 1);
        let key = |user_key: &[u8], seq| internal_key(user_key, seq, KeyKind::Value);
        assert!(outputs.is_next(&key(b"a", 1)));
        let first = key(b"b", 5);
        outputs.add(&first, &ParsedKey::parse(&first).unwrap(), b"").unwrap();
        assert!(outputs.is_next(&key(b"b", 4)) && outputs.is_next(&key(b"c", 9)));
        assert!(!outputs.is_next(&first) && !outputs.is_next(&key(b"a", 1)));
        outputs.end_table().unwrap();
        assert!(outputs.is_next(&key(b"c", 9)));
        assert!(!outputs.is_next(&key(b"b", 4)), "versions of a key are in one table");
        outputs.into_files();
    }
}
