//! Conservation: what goes into a compaction, a flush or an ingest comes out of it, or is left out
//! for a reason that is counted. Otherwise the job fails before its edit is committed, and its
//! inputs stay. Checksums of blocks cannot tell: the blocks that are written get checksums of what
//! a faulty processor, memory or merge made of the entries.
//!
//! Each side is a sum over entries that does not depend on their order
//! ([`EntrySum`](crate::base::entry_sum::EntrySum)):
//!
//! - *What goes in.* For a table that this process wrote, but not for a bulk load, the sum that its
//!   writer had. So the table must also be read as it was written. For any other table, the sum of
//!   the entries as they come out of their blocks, before they are merged
//!   ([`read::input`](crate::engine::read::input)). For a memtable, the sum of the entries as they
//!   were inserted ([`Memtable::sum`](crate::engine::memtable::Memtable)).
//! - *What is left out or made*, by the rules of the job.
//! - *What comes out.* The sum of the entries as they are in the buffer of their block
//!   ([`TableBuilder::sum`](crate::table::builder::TableBuilder)).
//!
//! Later steps of the writer, from the finished block to the file, are noticed only when the table
//! is compacted itself, and only by the process that wrote it.

use std::fmt;
use std::sync::Arc;

use crate::base::entry_sum::EntrySum;
use crate::base::{Error, Result};
use crate::engine::version::TableFile;
use crate::engine::version::tombstones::EntryCounts;

/// The reason for which an entry of the input is not in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A newer version of the key hides it from all readers.
    Overwritten,
    /// It is a tombstone that hides nothing.
    Tombstone,
    /// It has expired.
    Expired,
    /// The compaction filter removed it.
    Removed,
    /// The compaction filter gave it another value.
    Changed,
    /// It got another sequence number.
    Renumbered,
}

const REASONS: [(Reason, &str); 6] = [
    (Reason::Overwritten, "overwritten"),
    (Reason::Tombstone, "tombstones"),
    (Reason::Expired, "expired"),
    (Reason::Removed, "removed"),
    (Reason::Changed, "changed"),
    (Reason::Renumbered, "renumbered"),
];

/// The account of a job: what it has read, left out and made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    read: EntrySum,
    dropped: [EntrySum; REASONS.len()],
    /// Entries that take the place of dropped ones.
    made: EntrySum,
}

impl Ledger {
    /// Counts what was read.
    pub(crate) fn read(&mut self, read: EntrySum) {
        self.read = self.read.and(read);
    }

    /// Counts an entry that is not in the output as it was in the input.
    #[inline]
    pub(crate) fn drop(&mut self, reason: Reason, key: &[u8], value: &[u8]) {
        self.dropped[reason as usize].add(key, value);
    }

    /// Counts an entry of the output that takes the place of a dropped one.
    pub(crate) fn make(&mut self, key: &[u8], value: &[u8]) {
        self.made.add(key, value);
    }

    /// Adds the account of another part of the same job.
    pub(crate) fn add(&mut self, other: &Ledger) {
        self.read(other.read);
        for (own, other) in self.dropped.iter_mut().zip(other.dropped) {
            *own = own.and(other);
        }
        self.made = self.made.and(other.made);
    }

    /// Returns the number of entries that were dropped for the reason.
    pub(crate) fn dropped_for(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize].entries
    }

    /// Returns the number of entries that were dropped, without those that another entry replaced.
    pub(crate) fn left_out(&self) -> u64 {
        self.dropped.iter().map(|sum| sum.entries).sum::<u64>() - self.made.entries
    }

    /// Checks that the job wrote what it should. `job` names the job and its inputs.
    ///
    /// # Errors
    /// Corruption that names the job.
    pub(crate) fn check(&self, written: EntrySum, job: impl fmt::Display) -> Result<()> {
        let came_out = self.dropped.iter().fold(written, |sum, dropped| sum.and(*dropped));
        let went_in = self.read.and(self.made);
        if went_in == came_out {
            return Ok(());
        }
        let what = format!("{job} did not conserve its entries");
        Err(Error::mismatch(what, went_in, format_args!("{came_out} ({self})")))
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", self.read.entries)?;
        for (reason, name) in REASONS {
            let entries = self.dropped_for(reason);
            if entries > 0 {
                write!(f, ", {entries} {name}")?;
            }
        }
        Ok(())
    }
}

/// Returns the sum of the entries of `files` that their writers had; `None` if this process did not
/// write all of them.
pub(crate) fn written_to(files: &[Arc<TableFile>]) -> Option<EntrySum> {
    let own = |file: &Arc<TableFile>| file.tombstones.counts().and_then(|counts| counts.sum);
    files.iter().try_fold(EntrySum::default(), |sum, file| Some(sum.and(own(file)?)))
}

/// Returns the sum of the entries that were written into tables, by their counts.
pub(crate) fn written_in(counts: &[(u64, EntryCounts)]) -> EntrySum {
    counts.iter().filter_map(|(_, counts)| counts.sum).fold(EntrySum::default(), EntrySum::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(entries: &[(&str, &str)]) -> EntrySum {
        let mut sum = EntrySum::default();
        entries.iter().for_each(|(key, value)| sum.add(key.as_bytes(), value.as_bytes()));
        sum
    }

    const ALL: &[(&str, &str)] = &[("key-1", "one"), ("key-2", "two"), ("key-3", "three")];

    /// Returns the error of a job that leaves out key-2, changes the value of key-3, and writes
    /// `written`.
    fn error(written: &[(&str, &str)]) -> Option<String> {
        let mut ledger = Ledger::default();
        ledger.read(sum(ALL));
        ledger.drop(Reason::Overwritten, b"key-2", b"two");
        ledger.drop(Reason::Changed, b"key-3", b"three");
        ledger.make(b"key-3", b"III");
        assert_eq!(ledger.left_out(), 1);
        ledger.check(sum(written), "compaction 7").err().map(|error| error.to_string())
    }

    #[test]
    fn entries_come_out_or_are_accounted_for() {
        assert_eq!(error(&[("key-3", "III"), ("key-1", "one")]), None);
        let lost = error(&[("key-1", "one")]).unwrap();
        for part in ["compaction 7", "4 entries", "3 entries", "3 read, 1 overwritten, 1 changed"] {
            assert!(lost.contains(part), "{part}: {lost}");
        }
        assert!(error(&[("key-1", "one"), ("key-3", "three")]).is_some(), "not changed");
        assert!(error(&[("key-1", "one"), ("key-3", "II")]).is_some(), "another value");
        assert!(error(&[("key-1", "III"), ("key-3", "one")]).is_some(), "exchanged");
        assert!(error(&[("key-1", "one"), ("key-1", "one")]).is_some(), "twice for another");
        assert!(error(&[("key-1", "one"), ("key-3", "III"), ("key-2", "two")]).is_some(), "back");
    }

    #[test]
    fn the_parts_of_a_job_are_added_up() {
        let mut left = Ledger::default();
        left.read(sum(&ALL[..1]));
        left.drop(Reason::Tombstone, b"key-1", b"one");
        let mut right = Ledger::default();
        right.read(sum(&ALL[1..]));
        right.drop(Reason::Expired, b"key-2", b"two");
        left.add(&right);
        assert_eq!([Reason::Tombstone, Reason::Expired].map(|r| left.dropped_for(r)), [1, 1]);
        assert!(left.check(sum(&ALL[2..]), "").is_ok());
        assert!(left.check(sum(&ALL[1..2]), "").is_err());
    }
}
