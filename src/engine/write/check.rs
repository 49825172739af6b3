//! Conflict check of a transaction: has anything that the transaction read been written since?
//!
//! The only record of when an entry was written is its sequence number. A write therefore does no
//! extra work for open transactions, and a transaction detects conflicts with writes of every kind.
//! A key that the transaction has read is checked by searching for the key's newest version; a
//! range, by searching for an entry that is newer than the [`Horizon`].
//!
//! # Why the newest version is always there
//! The transaction holds its snapshot, at sequence number `s`, until its commit has ended. If a key
//! was written after `s`, the key's newest version is not dropped while the snapshot is held:
//! - A flush or a merge drops a version only if its inputs contain a newer version of the same key
//!   (`Retention::is_shadowed`), so it keeps the newest version.
//! - A merge drops a tombstone only if every sequence number in use by a reader is at or after the
//!   tombstone's (`Retention::all_see`). The merge lists the sequence numbers in use
//!   (`ReadState::read_seqs`) after it has chosen its inputs. If the snapshot was taken before the
//!   listing, `s` is in the list, and a tombstone after `s` stays. If the snapshot was taken later,
//!   all entries of the inputs were already visible, so no entry is after `s`.
//!
//! # Parts of the database that need no search
//! - A memtable whose last entry is not after the horizon.
//! - A table whose newest entry is not after the horizon ([`Tombstones::newest`]). The writer of a
//!   table records the sequence number of its newest entry; tables that this process did not write
//!   are older than every snapshot.
//! - All tables, if the current version is the one that the horizon records.
//!
//! # When the check runs
//! A transaction checks everything once before it enters the write queue, and moves the horizon to
//! the time of that check ([`Check::advance`]). The leader of the transaction's group checks again,
//! under the commit lock, so that no write can come between the check and the commit. The second
//! check looks only at what was written while the transaction was in the queue; these entries are
//! at the end of the memtable.
//!
//! [`Tombstones::newest`]: crate::engine::version::tombstones::Tombstones::newest

use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::base::hash::KeyHash;
use crate::base::{Error, Result};
use crate::engine::memtable::Memtable;
use crate::engine::read::get::LookupKey;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::read::view::{ReadState, ReadView};
use crate::engine::span::Span;
use crate::engine::version::{KeyRange, TableFile, Version};
use crate::engine::write::read_set::ReadSet;
use crate::format::batch::decode_ops;
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{
    KIND_FOR_SEEK, MAX_SEQ_NO, ParsedKey, SeqNo, UserComparator, internal_key,
};
use crate::format::keyspace;
use crate::table::reader::BlockReadOptions;
use crate::table::sink::NoSink;

/// Number of memtable entries that can be compared with a transaction's keys in about the time of
/// one memtable lookup. With a higher number, the check of a long transaction more often scans the
/// newest entries instead of looking up each key.
const ENTRIES_PER_LOOKUP: u64 = 2;

/// The point in time up to which everything that a transaction has read is known to be unchanged.
/// Only later writes can conflict with the reads.
#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    /// Sequence number of the last write that need not be checked.
    seq: SeqNo,
    /// The version in the view that has this number. Its tables need not be checked. The weak
    /// reference keeps the version's address from being reused, without keeping its tables.
    version: Weak<Version>,
}

impl Horizon {
    /// Returns a snapshot of the database as it is now, and the horizon for reads from it.
    pub(crate) fn begin(state: &Arc<ReadState>) -> (Snapshot, Horizon) {
        let (snapshot, view) = Snapshot::with_view(state);
        let (seq, version) = (snapshot.seq.seq(), Arc::downgrade(&view.version));
        (snapshot, Horizon { seq, version })
    }
}

/// The condition of a write: nothing in the read set may have been written since the horizon.
#[derive(Debug)]
pub(crate) struct Check {
    reads: ReadSet,
    horizon: Horizon,
}

impl Check {
    /// Returns a check that nothing in `reads` was written after `horizon`. Everything in `reads`
    /// must have been read at the horizon. The transaction's snapshot must be held until the check
    /// is done.
    pub(crate) fn new(reads: ReadSet, horizon: Horizon) -> Check {
        Check { reads, horizon }
    }

    /// Checks the reads against everything written so far, and moves the horizon to the last
    /// visible write.
    ///
    /// # Errors
    /// [`Error::Conflict`]; corruption and I/O errors of tables.
    pub(crate) fn advance(&mut self, state: &ReadState) -> Result<()> {
        let view = state.view_owned();
        let seq = view.seq();
        // A memtable may hold a write that is not visible yet. The check in the write queue covers
        // that write. If this check already refused the transaction because of that write, a retry
        // could begin before the write is visible and would conflict with it again.
        self.run_up_to(seq, state, &view)?;
        self.horizon = Horizon { seq, version: Arc::downgrade(&view.version) };
        Ok(())
    }

    /// Checks the reads against everything in the view.
    ///
    /// # Errors
    /// Same as [`Check::advance`].
    pub(super) fn run(&self, state: &ReadState, view: &ReadView) -> Result<()> {
        self.run_up_to(MAX_SEQ_NO, state, view)
    }

    /// Checks the reads against everything in the view, except for memtable entries after `last`.
    fn run_up_to(&self, last: SeqNo, state: &ReadState, view: &ReadView) -> Result<()> {
        let order = state.order.user();
        let deleted = |span: &Span| self.reads.key_in(order, span);
        if let Some(key) = state.deleted_ranges.find(self.horizon.seq, last, deleted) {
            return Err(conflict(&key));
        }
        for mem in view.memtables() {
            if mem.last_seq() > self.horizon.seq {
                self.check_memtable(state.order.user(), mem, last)?;
            }
        }
        if self.horizon.version.as_ptr() == Arc::as_ptr(&view.version) {
            return Ok(());
        }
        for key in &self.reads.keys {
            self.check_key_in_tables(state, view, key)?;
        }
        self.reads.spans.iter().try_for_each(|span| self.check_span_in_tables(state, view, span))
    }

    /// Checks the reads against a batch that will be applied before the write that has this check.
    pub(super) fn run_on_batch(&self, order: &UserComparator, contents: &[u8]) -> Result<()> {
        for op in decode_ops(contents) {
            self.check_written(order, op?.key())?;
        }
        Ok(())
    }

    /// Checks the reads against a key that will be written before the write that has this check is
    /// applied.
    pub(super) fn check_written(&self, order: &UserComparator, key: &[u8]) -> Result<()> {
        if self.reads.has(order, key) { Err(conflict(key)) } else { Ok(()) }
    }

    fn check_memtable(&self, order: &UserComparator, mem: &Memtable, last: SeqNo) -> Result<()> {
        let newer = mem.last_seq().saturating_sub(self.horizon.seq);
        let lookups = self.reads.keys.len() as u64;
        if self.reads.spans.is_empty() && lookups.saturating_mul(ENTRIES_PER_LOOKUP) < newer {
            let is_newer = |key: &&Vec<u8>| {
                mem.get(key, last).is_some_and(|found| found.seq > self.horizon.seq)
            };
            return self.reads.keys.iter().find(is_newer).map_or(Ok(()), |key| Err(conflict(key)));
        }
        let mut keys = mem.keys_between(self.horizon.seq, last);
        keys.try_for_each(|key| self.check_written(order, key))
    }

    fn is_newer(&self, file: &TableFile) -> bool {
        file.tombstones.newest() > self.horizon.seq
    }

    fn check_key_in_tables(&self, state: &ReadState, view: &ReadView, key: &[u8]) -> Result<()> {
        let order = state.order.user();
        let (lookup, hash) = (LookupKey::new(key, MAX_SEQ_NO), KeyHash::new(key));
        let options = &BlockReadOptions::default();
        let range = KeyRange { from: Some(key), to: Some(key) };
        let level0 =
            view.version.level(0).iter().filter(|file| range.overlaps(order, file.range()));
        let deeper = (1..NUM_LEVELS).filter_map(|level| view.version.find_table(level, order, key));
        for file in level0.chain(deeper).filter(|file| self.is_newer(file)) {
            let found = state.tables.with(&file.slot, |table| {
                table.get_hashed(lookup.bytes(), &hash, options, &mut NoSink)
            })?;
            if found.is_some_and(|found| found.seq > self.horizon.seq) {
                return Err(conflict(key));
            }
        }
        Ok(())
    }

    fn check_span_in_tables(&self, state: &ReadState, view: &ReadView, span: &Span) -> Result<()> {
        let range = span.closed();
        for level in 0..NUM_LEVELS {
            for file in view.version.overlapping(level, state.order.user(), range) {
                if self.is_newer(&file) {
                    self.check_span_in_table(state, &file, span)?;
                }
            }
        }
        Ok(())
    }

    fn check_span_in_table(&self, state: &ReadState, file: &TableFile, span: &Span) -> Result<()> {
        let order = state.order.user();
        let table = state.tables.table(&file.slot)?;
        let mut cursor = table.cursor(BlockReadOptions::default());
        let mut valid = match span.closed().from {
            Some(from) => cursor.seek(&internal_key(from, MAX_SEQ_NO, KIND_FOR_SEEK))?,
            None => cursor.seek_to_first()?,
        };
        while valid {
            let entry = ParsedKey::parse(cursor.key()).map_err(|error| cursor.data_error(error))?;
            if span.ends_before(order, entry.user_key) {
                break;
            }
            if entry.seq > self.horizon.seq && span.contains(order, entry.user_key) {
                return Err(conflict(entry.user_key));
            }
            valid = cursor.next()?;
        }
        Ok(())
    }
}

/// Returns the conflict error for `key`, which includes its keyspace prefix, if any.
fn conflict(key: &[u8]) -> Error {
    let (keyspace, key) = match keyspace::split(key) {
        Some((name, key)) => (Some(Bytes::copy_from_slice(name)), key),
        None => (None, key),
    };
    Error::Conflict { key: Bytes::copy_from_slice(key), keyspace }
}
