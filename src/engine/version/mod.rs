//! A `Version`: the tables that hold the database at one point in time. Immutable.
//!
//! - Level 0 holds the tables of flushed memtables, newest first. Their key ranges may overlap.
//! - In every deeper level, tables are sorted and disjoint ([`Version::check`]).
//! - The versions of a key in a level are older than its versions in the levels above.
//!
//! The life of a version:
//! 1. A flush or compaction writes tables and describes the change in an edit.
//! 2. [`Version::apply`] makes the next version from the current version and the edit. Both
//!    versions share the tables that stay.
//! 3. [`VersionSet::commit`](set::VersionSet::commit) makes the edit durable in the MANIFEST
//!    ([`manifest`]); then readers see the new version.
//! 4. Readers that began earlier keep the old version. A table that the edit dropped is removed
//!    when the last version that names the table is dropped ([`obsolete`]).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::block::fences::Fences;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::tombstones::{EntryCounts, Tombstones};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::expiry::{TableExpiry, has_expired};
use crate::format::key::{InternalComparator, UserComparator, user_key};
use crate::format::keyspace::may_hold_expiring;
use crate::table::table_cache::TableSlot;

pub(crate) mod deleted_ranges;
pub(crate) mod manifest;
pub(crate) mod numbers;
pub(crate) mod obsolete;
pub(crate) mod set;
pub(crate) mod tombstones;

/// A table of the database, shared by every version that names it. When the last of these versions
/// is dropped, the file is removed if it is obsolete.
pub(crate) struct TableFile {
    /// File number.
    pub number: u64,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// First internal key.
    pub smallest: Vec<u8>,
    /// Last internal key.
    pub largest: Vec<u8>,
    /// Slot of the table cache, which holds the table while it is open.
    pub slot: Arc<TableSlot>,
    /// Counts of the table's tombstones.
    pub tombstones: Tombstones,
    /// Expiry of the table's entries. Empty until it is known; `None` if no entry expires.
    pub expiry: OnceLock<Option<TableExpiry>>,
    /// Set once the edit that drops the file is durable.
    obsolete: AtomicBool,
    /// Whether a compaction has taken the table as an input. Written under the state lock.
    pub compacting: AtomicBool,
    trash: Arc<Trash>,
}

impl TableFile {
    /// Returns the table described by `file`, which an edit adds to the database.
    pub(crate) fn new(file: NewFile, trash: Arc<Trash>) -> TableFile {
        trash.hold(file.number);
        TableFile {
            number: file.number,
            file_bytes: file.file_bytes,
            smallest: file.smallest,
            largest: file.largest,
            slot: Arc::new(TableSlot::new(file.number, file.file_bytes)),
            tombstones: Tombstones::default(),
            expiry: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            compacting: AtomicBool::new(false),
            trash,
        }
    }

    /// Marks the file to be removed when the last version that names it is dropped.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Relaxed);
    }

    /// Returns whether the table may have entries that expire at a time that is not yet known.
    pub(crate) fn lacks_expiry(&self) -> bool {
        self.expiry.get().is_none() && may_hold_expiring(self.first_key(), self.last_key())
    }

    /// Returns whether all entries except tombstones are known to have expired at the time `now`,
    /// in milliseconds since the Unix epoch.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        self.known_expiry().is_some_and(|expiry| has_expired(expiry.last, now))
    }

    /// Returns the expiry of the table's entries; `None` if it is not known or no entry expires.
    pub(crate) fn known_expiry(&self) -> Option<TableExpiry> {
        self.expiry.get().copied().flatten()
    }

    /// Returns the first user key.
    pub(crate) fn first_key(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    /// Returns the last user key.
    pub(crate) fn last_key(&self) -> &[u8] {
        user_key(&self.largest)
    }

    /// Returns the range of the user keys.
    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange { from: Some(self.first_key()), to: Some(self.last_key()) }
    }

    /// Returns the part of an edit that adds the table to level `level`.
    pub(crate) fn to_edit(&self, level: usize) -> NewFile {
        NewFile {
            level,
            number: self.number,
            file_bytes: self.file_bytes,
            smallest: self.smallest.clone(),
            largest: self.largest.clone(),
        }
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        self.trash.let_go(self.number, self.obsolete.load(Relaxed));
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:06}:{}[{} .. {}]",
            self.number,
            self.file_bytes,
            self.first_key().escape_ascii(),
            self.last_key().escape_ascii()
        )
    }
}

/// The tables of every level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    levels: [Vec<Arc<TableFile>>; NUM_LEVELS],
    /// Total size of each level's tables, in bytes.
    bytes: [u64; NUM_LEVELS],
    /// Last keys of each sorted level's tables; `None` if keys are not in byte order.
    fences: [Option<Fences>; NUM_LEVELS],
}

/// The closed range of user keys `[from, to]`; `None` means unbounded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyRange<'a> {
    /// Lower bound, inclusive.
    pub from: Option<&'a [u8]>,
    /// Upper bound, inclusive.
    pub to: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Returns whether a key may be in both ranges.
    pub(crate) fn overlaps(&self, order: &UserComparator, other: KeyRange<'_>) -> bool {
        !self.ends_before(order, other) && !other.ends_before(order, *self)
    }

    fn ends_before(&self, order: &UserComparator, other: KeyRange<'_>) -> bool {
        match (self.to, other.from) {
            (Some(to), Some(from)) => order.compare(to, from).is_lt(),
            _ => false,
        }
    }
}

impl Version {
    /// Returns the tables of a level: level 0 newest first, the others in key order.
    #[inline]
    pub(crate) fn level(&self, level: usize) -> &[Arc<TableFile>] {
        &self.levels[level]
    }

    /// Returns every table with its level, from level 0 down.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }

    /// Returns the total size of a level's tables, in bytes.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.bytes[level]
    }

    /// Returns the total size of all tables, in bytes.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.bytes.into_iter().fold(0, u64::saturating_add)
    }

    /// Returns the deepest level that has a table whose key range overlaps `range`.
    pub(crate) fn deepest_level(
        &self,
        order: &UserComparator,
        range: KeyRange<'_>,
    ) -> Option<usize> {
        (0..NUM_LEVELS).rev().find(|&level| {
            self.levels[level].iter().any(|file| range.overlaps(order, file.range()))
        })
    }

    /// Returns the table whose range holds `key` in a sorted level (level 1 or deeper), if there is
    /// one.
    #[inline]
    pub(crate) fn find_table(
        &self,
        level: usize,
        order: &UserComparator,
        key: &[u8],
    ) -> Option<&Arc<TableFile>> {
        let files = &self.levels[level];
        let (low, high) = match &self.fences[level] {
            Some(fences) => fences.around(key),
            None => (0, files.len()),
        };
        let ends_before = |file: &Arc<TableFile>| order.compare(file.last_key(), key).is_lt();
        let at = low + files[low..high].partition_point(ends_before);
        files.get(at).filter(|file| order.compare(file.first_key(), key).is_le())
    }

    /// Returns the tables of a level whose ranges overlap `range`, in the level's order.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        order: &UserComparator,
        range: KeyRange<'_>,
    ) -> Vec<Arc<TableFile>> {
        let files = &self.levels[level];
        if level == 0 {
            return files
                .iter()
                .filter(|file| range.overlaps(order, file.range()))
                .cloned()
                .collect();
        }
        let ends_before = |file: &Arc<TableFile>| {
            range.from.is_some_and(|from| order.compare(file.last_key(), from).is_lt())
        };
        let start = files.partition_point(ends_before);
        let within = files[start..].iter().take_while(|file| range.overlaps(order, file.range()));
        within.cloned().collect()
    }

    /// Stores the entry counts of tables that were just written to `level`. `written` holds the
    /// number and the counts of each table.
    pub(crate) fn set_counts(&self, level: usize, written: &[(u64, EntryCounts)]) {
        for file in &self.levels[level] {
            if let Some((_, counts)) = written.iter().find(|(number, _)| *number == file.number) {
                file.tombstones.set_counts(*counts);
                let _ = file.expiry.set(counts.expiry());
            }
        }
    }

    /// Returns the version that results from applying `edit` to this version.
    ///
    /// # Errors
    /// Corruption if the edit names a level that does not exist, adds a table twice to level 0, or
    /// leaves tables of a sorted level overlapping.
    pub(crate) fn apply(
        &self,
        edit: &VersionEdit,
        order: &InternalComparator,
        trash: &Arc<Trash>,
    ) -> Result<Version> {
        let mut levels = self.levels.clone();
        let mut moved = Vec::new();
        let mut dropped: [BTreeSet<u64>; NUM_LEVELS] = Default::default();
        for &(level, number) in &edit.deleted_files {
            // The MANIFEST of a repaired database may drop a file twice. LevelDB ignores the second
            // drop, and ignoring it loses no data.
            dropped.get_mut(level).ok_or_else(|| bad_level(level))?.insert(number);
        }
        for (files, dropped) in levels.iter_mut().zip(&dropped) {
            if !dropped.is_empty() {
                moved.extend(files.extract_if(.., |file| dropped.contains(&file.number)));
            }
        }
        for new in &edit.new_files {
            let files = levels.get_mut(new.level).ok_or_else(|| bad_level(new.level))?;
            let file = match moved.iter().find(|file| file.number == new.number) {
                Some(file) => file.clone(),
                None => Arc::new(TableFile::new(new.clone(), trash.clone())),
            };
            files.push(file);
        }
        let touched = edit.new_files.iter().map(|new| new.level);
        for level in touched {
            sort_level(level, &mut levels[level], order)?;
        }
        let bytes = std::array::from_fn(|level| bytes_of(&levels[level]));
        Ok(Version { fences: fences(&levels, order.user()), bytes, levels })
    }

    /// Checks the invariants of a version, which all edits of this engine preserve. Returns a
    /// description of the first broken invariant. (A damaged MANIFEST may break any invariant.)
    pub(crate) fn check(&self, order: &InternalComparator) -> std::result::Result<(), String> {
        let mut numbers = BTreeSet::new();
        for (level, file) in self.files() {
            if !numbers.insert(file.number) {
                return Err(format!("table {:06} is in the version twice", file.number));
            }
            if order.compare(&file.smallest, &file.largest).is_gt() {
                return Err(format!("table {:06} of level {level} ends early", file.number));
            }
        }
        for (level, files) in self.levels.iter().enumerate() {
            let is_sorted = match level {
                0 => files.is_sorted_by(|a, b| a.number > b.number),
                _ => files.is_sorted_by(|a, b| order.compare(&a.largest, &b.smallest).is_lt()),
            };
            if !is_sorted {
                return Err(format!("tables of level {level} overlap or are out of order"));
            }
            let bytes = bytes_of(files);
            if self.bytes[level] != bytes {
                return Err(format!("{} bytes in level {level}, not {bytes}", self.bytes[level]));
            }
        }
        Ok(())
    }

    /// Returns the edit that turns an empty version into this version.
    pub(crate) fn to_edit(&self) -> VersionEdit {
        VersionEdit {
            new_files: self.files().map(|(level, file)| file.to_edit(level)).collect(),
            ..VersionEdit::default()
        }
    }
}

/// Returns the total size of the tables, in bytes. The sizes in a damaged MANIFEST may be
/// arbitrary, so the sum saturates.
pub(crate) fn bytes_of<'a>(files: impl IntoIterator<Item = &'a Arc<TableFile>>) -> u64 {
    files.into_iter().fold(0, |sum, file| sum.saturating_add(file.file_bytes))
}

fn fences(
    levels: &[Vec<Arc<TableFile>>; NUM_LEVELS],
    order: &UserComparator,
) -> [Option<Fences>; NUM_LEVELS] {
    std::array::from_fn(|level| match level {
        1.. if order.custom().is_none() => {
            let files = &levels[level];
            Fences::new(files.len(), |i| Some(files[i].last_key()))
        }
        _ => None,
    })
}

fn bad_level(level: usize) -> Error {
    Error::mismatch("level of a table", format_args!("at most {}", NUM_LEVELS - 1), level)
}

/// Sorts the tables of a level.
///
/// # Errors
/// Corruption if level 0 has a table twice, or if tables of a sorted level overlap.
fn sort_level(
    level: usize,
    files: &mut [Arc<TableFile>],
    order: &InternalComparator,
) -> Result<()> {
    if level == 0 {
        files.sort_by_key(|file| std::cmp::Reverse(file.number));
        if let Some(pair) = files.windows(2).find(|pair| pair[0].number == pair[1].number) {
            return Err(Error::corruption(format!("table {} is listed twice", pair[0].number)));
        }
        return Ok(());
    }
    files.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
    for pair in files.windows(2) {
        if order.compare(&pair[0].largest, &pair[1].smallest) != Ordering::Less {
            return Err(Error::corruption(format!(
                "tables {:06} and {:06} of level {level} overlap",
                pair[0].number, pair[1].number
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::BytewiseComparator;
    use crate::format::key::{KeyKind, internal_key};
    use crate::fs::MemFs;

    fn table(level: usize, number: u64, first: &str, last: &str) -> NewFile {
        let key = |user_key: &str| internal_key(user_key.as_bytes(), 1, KeyKind::Value).to_vec();
        let (smallest, largest) = (key(first), key(last));
        NewFile { level, number, file_bytes: 100 * number, smallest, largest }
    }

    fn order() -> InternalComparator {
        InternalComparator::new(Arc::new(BytewiseComparator))
    }

    fn version(new_files: Vec<NewFile>) -> Version {
        let trash = Arc::new(Trash::new(Arc::new(MemFs::new()), Path::new("db")));
        let edit = VersionEdit { new_files, ..VersionEdit::default() };
        Version::default().apply(&edit, &order(), &trash).unwrap()
    }

    fn sound() -> Version {
        version(vec![table(0, 4, "a", "z"), table(0, 5, "b", "c"), table(1, 1, "a", "f")])
    }

    #[test]
    fn a_table_is_found_among_those_whose_keys_begin_alike() {
        let names = ["a", "m/long prefix 1", "m/long prefix 3", "m/long prefix 5", "z"];
        let mut edit = VersionEdit::default();
        for (at, name) in names.iter().enumerate() {
            edit.new_files.push(table(1, at as u64 + 3, name, &format!("{name}+")));
        }
        let version = Version::default().apply(&edit, &order(), &testing::trash()).unwrap();
        let find = |key: &str| {
            let found = version.find_table(1, order().user(), key.as_bytes());
            found.map(|file| file.number)
        };
        for (at, name) in names.iter().enumerate() {
            assert_eq!(find(name), Some(at as u64 + 3), "{name}");
            assert_eq!(find(&format!("{name}*")), Some(at as u64 + 3), "{name}*");
            assert_eq!(find(&format!("{name},")), None, "{name},");
        }
    }

    #[test]
    fn a_version_that_breaks_a_rule_is_found() {
        assert_eq!(sound().check(&order()), Ok(()));
        assert_eq!(sound().level_bytes(0), 900);
        let rule = |version: &Version| version.check(&order()).unwrap_err();

        let twice = version(vec![table(1, 1, "a", "b"), table(2, 1, "a", "b")]);
        assert_eq!(rule(&twice), "table 000001 is in the version twice");
        let turned = version(vec![table(1, 1, "b", "a")]);
        assert_eq!(rule(&turned), "table 000001 of level 1 ends early");

        let mut upside_down = sound();
        upside_down.levels[0].reverse();
        assert_eq!(rule(&upside_down), "tables of level 0 overlap or are out of order");
        let mut overlapping = sound();
        let more = version(vec![table(1, 2, "f", "g")]).levels[1].clone();
        overlapping.levels[1].splice(0..0, more);
        assert_eq!(rule(&overlapping), "tables of level 1 overlap or are out of order");

        let mut too_large = sound();
        too_large.bytes[1] += 1;
        assert_eq!(rule(&too_large), "101 bytes in level 1, not 100");
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod transcripts;
