//! A `Version`: which tables hold the database at one moment. Immutable.
//!
//! Level 0 holds flushed memtables, newest first, which may overlap. At every level below, tables
//! are sorted and disjoint, and whatever they hold is older than what the levels above hold for
//! the same key.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::base::sync::atomic::AtomicBool;
use crate::base::sync::atomic::Ordering::Relaxed;
use crate::base::{Error, Result};
use crate::block::fences::Fences;
use crate::engine::version::obsolete::Trash;
use crate::engine::version::tombstones::{Contents, Tombstones};
use crate::format::edit::{NUM_LEVELS, NewFile, VersionEdit};
use crate::format::key::{InternalComparator, UserComparator, user_key};
use crate::table::table_cache::TableSlot;

pub mod manifest;
pub mod numbers;
pub mod obsolete;
pub mod set;
pub mod tombstones;

/// A table of the database. Shared by every version that names it; when the last of them goes and
/// the file is obsolete, it is removed.
pub struct TableFile {
    /// The number in its name.
    pub number: u64,
    /// Its size in bytes.
    pub file_bytes: u64,
    /// Its first internal key.
    pub smallest: Vec<u8>,
    /// Its last internal key.
    pub largest: Vec<u8>,
    /// Where the opened table is kept.
    pub slot: Arc<TableSlot>,
    /// What is known of its tombstones.
    pub tombstones: Tombstones,
    /// Set once the edit that drops the file is durable.
    obsolete: AtomicBool,
    /// Whether a compaction has it as input. Guarded by the state lock.
    pub compacting: AtomicBool,
    trash: Arc<Trash>,
}

impl TableFile {
    /// The table that an edit adds.
    pub fn new(file: NewFile, trash: Arc<Trash>) -> TableFile {
        trash.hold(file.number);
        TableFile {
            number: file.number,
            file_bytes: file.file_bytes,
            smallest: file.smallest,
            largest: file.largest,
            slot: Arc::new(TableSlot::new(file.number, file.file_bytes)),
            tombstones: Tombstones::default(),
            obsolete: AtomicBool::new(false),
            compacting: AtomicBool::new(false),
            trash,
        }
    }

    /// Lets the file be removed when its last user goes.
    pub fn set_obsolete(&self) {
        self.obsolete.store(true, Relaxed);
    }

    /// Its first user key.
    pub fn first_key(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    /// Its last user key.
    pub fn last_key(&self) -> &[u8] {
        user_key(&self.largest)
    }

    /// The edit's entry that adds it at `level`.
    pub fn to_edit(&self, level: usize) -> NewFile {
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
pub struct Version {
    levels: [Vec<Arc<TableFile>>; NUM_LEVELS],
    /// The last keys of a sorted level's tables; `None` where keys are not in byte order.
    fences: [Option<Fences>; NUM_LEVELS],
}

/// A range of user keys, both ends within it; `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyRange<'a> {
    /// The first key in it.
    pub from: Option<&'a [u8]>,
    /// The last key in it.
    pub to: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Whether a table has keys in the range.
    pub fn overlaps(&self, order: &UserComparator, file: &TableFile) -> bool {
        let after =
            self.from.is_some_and(|from| order.compare(file.last_key(), from) == Ordering::Less);
        let before =
            self.to.is_some_and(|to| order.compare(file.first_key(), to) == Ordering::Greater);
        !after && !before
    }
}

impl Version {
    /// The tables of a level: level 0 newest first, the others in key order.
    #[inline]
    pub fn level(&self, level: usize) -> &[Arc<TableFile>] {
        &self.levels[level]
    }

    /// Every table with its level, from level 0 down.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }

    /// The bytes of a level's tables.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().map(|file| file.file_bytes).sum()
    }

    /// The deepest level that has a table in `range`.
    pub fn deepest_level(&self, order: &UserComparator, range: KeyRange<'_>) -> Option<usize> {
        (0..NUM_LEVELS)
            .rev()
            .find(|&level| self.levels[level].iter().any(|file| range.overlaps(order, file)))
    }

    /// The table of a sorted level (1 and below) whose range could hold `key`: the first that
    /// does not end before it, if it does not begin after it.
    #[inline]
    pub fn find_table(
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

    /// The tables of a level that have keys in `range`, in the level's order.
    pub fn overlapping(
        &self,
        level: usize,
        order: &UserComparator,
        range: KeyRange<'_>,
    ) -> Vec<Arc<TableFile>> {
        let files = &self.levels[level];
        if level == 0 {
            return files.iter().filter(|file| range.overlaps(order, file)).cloned().collect();
        }
        let ends_before = |file: &Arc<TableFile>| {
            range.from.is_some_and(|from| order.compare(file.last_key(), from).is_lt())
        };
        let start = files.partition_point(ends_before);
        let within = files[start..].iter().take_while(|file| range.overlaps(order, file));
        within.cloned().collect()
    }

    /// Keeps what was counted when the tables of these numbers were written.
    pub fn set_contents(&self, level: usize, written: &[(u64, Contents)]) {
        for file in &self.levels[level] {
            if let Some((_, contents)) = written.iter().find(|(number, _)| *number == file.number) {
                file.tombstones.set_contents(*contents);
            }
        }
    }

    /// The version that `edit` makes of this one.
    ///
    /// # Errors
    /// Corruption, if the edit names a level that is none, adds a table twice to level 0, or
    /// leaves tables of a sorted level overlapping.
    pub fn apply(
        &self,
        edit: &VersionEdit,
        order: &InternalComparator,
        trash: &Arc<Trash>,
    ) -> Result<Version> {
        let mut levels = self.levels.clone();
        let mut moved = Vec::new();
        for &(level, number) in &edit.deleted_files {
            let files = levels.get_mut(level).ok_or_else(|| bad_level(level))?;
            // Replaying a MANIFEST of a database that was repaired may name files twice: LevelDB
            // does not mind a removal of what is not there, and nothing is lost by it.
            if let Some(at) = files.iter().position(|file| file.number == number) {
                moved.push(files.remove(at));
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
        Ok(Version { fences: fences(&levels, order.user()), levels })
    }

    /// The edit that makes this version of an empty one.
    pub fn to_edit(&self) -> VersionEdit {
        VersionEdit {
            new_files: self.files().map(|(level, file)| file.to_edit(level)).collect(),
            ..VersionEdit::default()
        }
    }
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
pub mod testing;
#[cfg(test)]
mod transcripts;
