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
    /// Whether the last key was in the range of the table at `at`.
    is_inside: bool,
}

/// The ends of tables that a [`Follower`] passes on its way to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Total size in bytes of the tables that end before the key.
    bytes: u64,
    /// Number of ends of tables: of first keys up to the key, and of last keys before the key.
    boundaries: u64,
}

impl<'a> Follower<'a> {
    pub(super) fn new(version: &'a Version, level: usize) -> Follower<'a> {
        let files = if level < NUM_LEVELS { version.level(level) } else { &[] };
        Follower { files, at: 0, is_inside: false }
    }

    /// Moves past the tables that end before `key`.
    pub(super) fn advance(&mut self, order: &UserComparator, key: &[u8]) -> Passed {
        let mut passed = Passed::default();
        while let Some(file) = self.files.get(self.at) {
            if !self.is_inside {
                if order.compare(key, file.first_key()).is_lt() {
                    break;
                }
                self.is_inside = true;
                passed.boundaries += 1;
            }
            if order.compare(key, file.last_key()).is_le() {
                break;
            }
            passed.bytes = passed.bytes.saturating_add(file.file_bytes);
            passed.boundaries += 1;
            self.at += 1;
            self.is_inside = false;
        }
        passed
    }

    /// Returns whether a table whose key range contains `key` exists.
    pub(super) fn may_hold(&mut self, order: &UserComparator, key: &[u8]) -> bool {
        self.advance(order, key);
        self.is_inside
    }
}

/// The rule that decides where an output table ends.
///
/// A table that ends where a table of the level below begins or ends overlaps one table less there,
/// so its later merge rewrites less. Therefore a table ends at such a boundary once it has half the
/// target size; a twentieth more for each boundary that it has passed, because then another one is
/// likely to come soon, but at most nine tenths. Between boundaries a table may grow to twice the
/// target size.
pub(super) struct OutputSplitter<'a> {
    /// Position in the tables of the level below the output level.
    below: Follower<'a>,
    /// The ends passed there since the open table began.
    passed: Passed,
    max_file_bytes: u64,
}

impl<'a> OutputSplitter<'a> {
    /// Creates the rule for tables of about `max_file_bytes` bytes.
    pub(super) fn new(compaction: &'a Compaction, max_file_bytes: u64) -> OutputSplitter<'a> {
        OutputSplitter {
            below: Follower::new(&compaction.version, compaction.output_level() + 1),
            passed: Passed::default(),
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
        let step = self.below.advance(order, key);
        if last_key.is_none() {
            self.passed = Passed::default();
            return false;
        }
        let before = self.passed.boundaries;
        self.passed.bytes = self.passed.bytes.saturating_add(step.bytes);
        self.passed.boundaries += step.boundaries;
        let max_bytes = if self.passed.boundaries > 0 || self.below.is_inside {
            self.max_file_bytes.saturating_mul(2)
        } else {
            self.max_file_bytes
        };
        let open_bytes = outputs.run.open_bytes();
        let ends = open_bytes >= max_bytes
            || (step.boundaries > 0 && self.is_worth_a_table(open_bytes, before))
            || self.passed.bytes > self.max_file_bytes.saturating_mul(MAX_GRANDPARENT_FACTOR);
        if ends {
            self.passed = Passed::default();
        }
        ends
    }

    /// Returns whether a table of `open_bytes` bytes that has passed `boundaries` boundaries is
    /// large enough to end at the next boundary.
    fn is_worth_a_table(&self, open_bytes: u64, boundaries: u64) -> bool {
        let percent = (50 + 5 * boundaries).min(90);
        open_bytes.saturating_mul(100) >= self.max_file_bytes.saturating_mul(percent)
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
    use crate::base::random::Rng;
    use crate::engine::compact::plan::Inputs;
    use crate::engine::testing::engine_in_memory;
    use crate::engine::version::testing::{order, version};
    use crate::format::key::{KeyKind, internal_key};

    #[test]
    fn a_merge_that_moves_on_passes_the_tables_before_its_key() {
        let version = version(["L2: 3:[b-d]@100 4:[f-h]@20 5:[h#0-k]@3 6:[m-m]@7 7:[n-o]@1"]);
        let order = order().user().clone();
        let mut follower = Follower::new(&version, 2);
        let mut passed = |key: &str| {
            let passed = follower.advance(&order, key.as_bytes());
            (passed.bytes, passed.boundaries)
        };
        let steps = ["a", "b", "d", "e", "f", "h", "l", "p"].map(&mut passed);
        let expected = [(0, 0), (0, 1), (0, 0), (100, 1), (0, 1), (0, 0), (23, 3), (8, 4)];
        assert_eq!(steps, expected);
        let mut follower = Follower::new(&version, 2);
        let mut holds = |key: &str| follower.may_hold(&order, key.as_bytes());
        let held = ["a", "b", "d", "e", "f", "h", "k", "l", "m", "p"].map(&mut holds);
        assert_eq!(held, [false, true, true, false, true, true, true, false, true, false]);
        let nothing = Passed::default();
        assert_eq!(Follower::new(&version, NUM_LEVELS).advance(&order, b"z"), nothing);
    }

    /// Merges the keys, with values of `value_bytes` bytes, into tables of `max_file_bytes` over
    /// the tables of level 3. Returns the first key of each table after the first, and the sizes of
    /// the tables' data blocks.
    fn ends(
        below: &str,
        max_file_bytes: u64,
        value_bytes: usize,
        keys: &[&str],
    ) -> (String, Vec<u64>) {
        let engine = engine_in_memory();
        let order = order().user().clone();
        let version = version(["L1: 3:[a-z]", below]);
        let inputs = Inputs(vec![(1, version.level(1).to_vec())]);
        let compaction = Compaction::from_inputs(version, &order, inputs, 2);
        let mut splitter = OutputSplitter::new(&compaction, max_file_bytes);
        let mut outputs = Outputs::new(engine.table_target(), &engine.numbers, 2);
        let (mut ended, mut sizes) = (Vec::new(), Vec::new());
        // A value that cannot be compressed, and fills a block.
        let mut rng = Rng::new(1);
        let value: Vec<u8> = (0..value_bytes).map(|_| rng.next_u64() as u8).collect();
        for (at, name) in keys.iter().enumerate() {
            if splitter.ends_table(&outputs, &order, name.as_bytes()) {
                ended.push(name.to_string());
                sizes.push(outputs.run.open_bytes());
                outputs.end_table().unwrap();
            }
            let key = internal_key(name.as_bytes(), 100 - at as u64, KeyKind::Value);
            outputs.add(&key, &ParsedKey::parse(&key).unwrap(), &value).unwrap();
        }
        sizes.push(outputs.run.open_bytes());
        outputs.end_table().unwrap();
        let files = outputs.into_files().0;
        assert_eq!(files.len(), ended.len() + 1, "a table without entries");
        (ended.join(" "), sizes)
    }

    #[test]
    fn a_table_ends_over_ten_tables_two_levels_down() {
        let below = "L3: 4:[c-d]@1000 5:[f-g]@1 6:[i-j]@1000";
        let ends = |max_file_bytes: u64, keys: &[&str]| ends(below, max_file_bytes, 0, keys).0;
        assert_eq!(ends(100, &["a", "b", "e", "f", "h", "k"]), "h");
        assert_eq!(ends(100, &["e", "h", "k"]), "k", "what is passed before does not count");
        assert_eq!(ends(101, &["a", "e", "h", "k"]), "k");
    }

    #[test]
    fn a_table_that_overlaps_nothing_two_levels_down_ends_at_its_size() {
        let keys = ["a", "b", "c", "d", "e"];
        let (ended, sizes) = ends("L3: 4:[x-y]", 10_000, 5000, &keys);
        assert_eq!(ended, "c e");
        assert!(sizes[..2].iter().all(|bytes| (10_000..10_100).contains(bytes)), "{sizes:?}");
        assert_eq!(ends("L3: 4:[x-y]", 1, 5000, &["a", "b"]).0, "b");
    }

    #[test]
    fn a_table_ends_at_a_boundary_below_once_it_has_half_its_size() {
        // Boundaries are passed before c (4 begins), f (4 ends) and k (5 begins and ends).
        let below = "L3: 4:[c-e] 5:[h-i]";
        let keys = ["a", "b", "c", "d", "e", "f", "g", "j", "k"];
        let at = |max_file_bytes| ends(below, max_file_bytes, 5000, &keys).0;
        assert_eq!(at(20_000), "c f j");
        // Two blocks of 5,000 bytes are too few at c. At f, five are more than 55 %.
        assert_eq!(at(20_200), "f");
        // At f, five blocks are less than 55 %; at j, seven are more than 60 %.
        assert_eq!(at(46_000), "j");
        assert_eq!(at(60_000), "");
    }

    #[test]
    fn a_table_with_many_boundaries_below_ends_at_nine_tenths_and_others_at_twice_their_size() {
        let keys: Vec<String> = ('a'..='z').map(String::from).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        // Each key is a table.
        let tables: Vec<String> =
            keys.iter().enumerate().map(|(at, key)| format!("{}:[{key}-{key}]", at + 4)).collect();
        let (_, sizes) = ends(&format!("L3: {}", tables.join(" ")), 110_000, 10_000, &keys);
        assert_eq!(sizes.iter().map(|bytes| bytes / 10_000).collect::<Vec<_>>(), [10, 10, 6]);
        let (ended, sizes) = ends("L3: 4:[a-z]", 50_000, 10_000, &keys);
        assert_eq!(ended, "k u");
        assert!(sizes[..2].iter().all(|bytes| (100_000..100_300).contains(bytes)), "{sizes:?}");
    }

    #[test]
    fn versions_of_a_key_stay_together_at_a_boundary() {
        let below = "L3: 4:[b-b] 5:[c-d]";
        let keys = ["a", "b", "b", "b", "c", "d"];
        assert_eq!(ends(below, 1000, 5000, &keys).0, "b c d");
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
