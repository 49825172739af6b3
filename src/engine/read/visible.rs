//! A cursor over what a reader sees: the newest version of each key at the reader's sequence
//! number, unless that version is a tombstone. Keys and values are those that the database stores.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::Result;
use crate::base::clock::Clock;
use crate::engine::read::merge::MergeCursor;
use crate::engine::read::own::OWN_SEQ;
use crate::engine::read::point::OwnedPoint;
use crate::engine::read::prefix_scan::PrefixScan;
use crate::engine::read::sources::sources;
use crate::engine::version::tombstones::CRAWL_TOMBSTONES;
use crate::format::key::{
    KIND_FOR_SEEK, KeyKind, MAX_SEQ_NO, SeqNo, append_internal_key, user_key,
};
use crate::table::counts::LevelTrace;
use crate::table::reader::MAX_COPIED_VALUE_BYTES;

mod versions;

/// A cursor over the visible entries of a database, and over the writes of a transaction if the
/// read point has them. Every move returns whether the cursor is at an entry afterwards; after an
/// error it is at no entry.
#[derive(Debug)]
pub(crate) struct VisibleCursor {
    merge: MergeCursor,
    place: MergePosition,
    /// In a forward walk, a buffer for the last key to skip. In a backward walk, the key of the
    /// current entry.
    saved_key: Vec<u8>,
    /// The value of the current entry in a backward walk.
    saved_value: SavedValue,
    /// Buffer for the internal key that a seek of the merge looks for.
    seek_key: Vec<u8>,
    /// Counts of the work that was done in level 0 to create the sources.
    level0: LevelTrace,
    /// The read point of the cursor. Keeps alive the tables that the sources may open later.
    // Must stay the last field: `merge` is dropped before the sweep, which can then remove the
    // tables that only `merge` and the view kept alive.
    point: OwnedPoint,
}

/// The position of the merge relative to the cursor's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergePosition {
    /// The cursor is at no entry.
    Nowhere,
    /// The merge is at the cursor's entry.
    AtEntry,
    /// The merge is before every version of the entry's key, or at no entry if no entry precedes
    /// them. The cursor's entry is in the saved fields.
    BeforeEntry,
}

/// The value of an entry that the merge has passed. A short value is copied; a longer value shares
/// the memory of its block or memtable.
#[derive(Debug, Default)]
struct SavedValue {
    copied: Vec<u8>,
    /// The value if it shares memory; empty if it was copied.
    shared: Bytes,
}

impl SavedValue {
    fn set(&mut self, merge: &MergeCursor) {
        let value = merge.value();
        self.copied.clear();
        if value.len() > MAX_COPIED_VALUE_BYTES {
            self.shared = merge.value_bytes();
        } else {
            self.copied.extend_from_slice(value);
            if !self.shared.is_empty() {
                self.shared = Bytes::new();
            }
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        if self.shared.is_empty() { &self.copied } else { &self.shared }
    }

    fn to_bytes(&self) -> Bytes {
        match self.shared.is_empty() {
            true => Bytes::copy_from_slice(&self.copied),
            false => self.shared.clone(),
        }
    }
}

impl VisibleCursor {
    /// Returns a cursor that reads at `point`. If `scan` is given, the cursor may skip entries that
    /// do not belong to that prefix scan.
    pub(crate) fn new(point: OwnedPoint, scan: Option<&Arc<PrefixScan>>) -> Result<VisibleCursor> {
        let mut level0 = LevelTrace::default();
        let sources = sources(&point, scan, &mut level0)?;
        let merge = MergeCursor::new(point.state().order.clone(), sources);
        Ok(VisibleCursor {
            merge,
            place: MergePosition::Nowhere,
            saved_key: Vec::new(),
            saved_value: SavedValue::default(),
            seek_key: Vec::new(),
            level0,
            point,
        })
    }

    /// Returns whether the cursor is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.place != MergePosition::Nowhere
    }

    /// Returns the key of the entry.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self.place {
            MergePosition::AtEntry => user_key(self.merge.key()),
            MergePosition::BeforeEntry => &self.saved_key,
            MergePosition::Nowhere => panic!("the cursor is at no entry"),
        }
    }

    /// Returns the value of the entry.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.place {
            MergePosition::AtEntry => self.merge.value(),
            MergePosition::BeforeEntry => self.saved_value.as_slice(),
            MergePosition::Nowhere => panic!("the cursor is at no entry"),
        }
    }

    /// Returns the value of the entry as [`Bytes`], which stays valid after the cursor has moved.
    /// The value shares the memory of its block or memtable and keeps that memory alive. After a
    /// step backward, a value of up to 1 KiB is a copy.
    pub(crate) fn value_bytes(&self) -> Bytes {
        match self.place {
            MergePosition::AtEntry => self.merge.value_bytes(),
            MergePosition::BeforeEntry => self.saved_value.to_bytes(),
            MergePosition::Nowhere => panic!("the cursor is at no entry"),
        }
    }

    /// Leaves the current entry, so that the cursor is at no entry.
    pub(super) fn leave(&mut self) {
        self.place = MergePosition::Nowhere;
    }

    /// Returns the clock that decides when entries expire.
    pub(super) fn clock(&self) -> &Clock {
        &self.point.state().clock
    }

    /// Moves to the first entry that is not before the lower bound `from`.
    pub(super) fn seek_from(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        match from {
            Bound::Unbounded => self.seek_to_first(),
            Bound::Included(key) => self.seek(key),
            Bound::Excluded(key) => {
                let valid = self.seek(key)?;
                let order = self.point.state().order.user();
                if valid && order.compare(self.key(), key).is_eq() {
                    self.next()
                } else {
                    Ok(valid)
                }
            }
        }
    }

    /// Moves to the last entry that is not after the upper bound `to`.
    pub(super) fn seek_to(&mut self, to: Bound<&[u8]>) -> Result<bool> {
        match to {
            Bound::Unbounded => self.seek_to_last(),
            Bound::Included(key) => self.seek_for_prev(key),
            Bound::Excluded(key) => self.seek_before(key),
        }
    }

    /// Moves to the first entry. Returns `false` if there is no entry.
    pub(crate) fn seek_to_first(&mut self) -> Result<bool> {
        self.place = MergePosition::Nowhere;
        let valid = self.merge.seek_to_first()?;
        self.find_forward(valid, false)
    }

    /// Moves to the last entry. Returns `false` if there is no entry.
    pub(crate) fn seek_to_last(&mut self) -> Result<bool> {
        self.place = MergePosition::Nowhere;
        let valid = self.merge.seek_to_last()?;
        self.find_backward(valid)
    }

    /// Moves to the first entry whose key is not before `key`. Returns `false` if there is no such
    /// entry.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.place = MergePosition::Nowhere;
        let seq = self.newest_seq();
        self.seek_key.clear();
        append_internal_key(&mut self.seek_key, key, seq, KIND_FOR_SEEK);
        let valid = self.merge.seek(&self.seek_key)?;
        self.find_forward(valid, false)
    }

    /// Moves to the last entry whose key is not after `key`. Returns `false` if there is no such
    /// entry.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.place = MergePosition::Nowhere;
        self.seek_key.clear();
        // This internal key sorts after all versions of the user key.
        append_internal_key(&mut self.seek_key, key, 0, KeyKind::Deletion);
        let valid = self.merge.seek_before(&self.seek_key, true)?;
        self.find_backward(valid)
    }

    /// Moves to the last entry whose key is before `key`. Returns `false` if there is no such
    /// entry.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<bool> {
        self.place = MergePosition::Nowhere;
        self.seek_key.clear();
        append_internal_key(&mut self.seek_key, key, MAX_SEQ_NO, KIND_FOR_SEEK);
        self.step_before_seek_key()
    }

    fn step_before_seek_key(&mut self) -> Result<bool> {
        let valid = self.merge.seek_before(&self.seek_key, false)?;
        self.find_backward(valid)
    }

    /// Moves to the next entry. Returns `false` if there is no next entry, or if the cursor was at
    /// no entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.place, MergePosition::Nowhere) {
            MergePosition::Nowhere => Ok(false),
            MergePosition::AtEntry => {
                self.saved_key.clear();
                self.saved_key.extend_from_slice(user_key(self.merge.key()));
                let valid = self.merge.next()?;
                self.find_forward(valid, true)
            }
            MergePosition::BeforeEntry => {
                let valid = if self.merge.valid() {
                    self.merge.next()?
                } else {
                    self.merge.seek_to_first()?
                };
                self.find_forward(valid, true)
            }
        }
    }

    /// Moves to the previous entry. Returns `false` if there is no previous entry, or if the cursor
    /// was at no entry.
    pub(crate) fn prev(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.place, MergePosition::Nowhere) {
            MergePosition::Nowhere => Ok(false),
            MergePosition::BeforeEntry => {
                let valid = self.merge.valid();
                self.find_backward(valid)
            }
            MergePosition::AtEntry => {
                self.saved_key.clear();
                self.saved_key.extend_from_slice(user_key(self.merge.key()));
                let mut steps = 0;
                while self.merge.prev()? {
                    let order = self.point.state().order.user();
                    if order.compare(user_key(self.merge.key()), &self.saved_key).is_lt() {
                        return self.find_backward(true);
                    }
                    if self.is_among_versions(&mut steps) {
                        self.set_seek_key(MAX_SEQ_NO, KIND_FOR_SEEK);
                        return self.step_before_seek_key();
                    }
                }
                Ok(false)
            }
        }
    }

    /// Finds the first visible entry at or after the merge's position, and returns whether there is
    /// one. If `skipping` is set, skips all versions of all keys up to the saved key, including
    /// that key. `valid` tells whether the merge is at an entry.
    #[inline]
    fn find_forward(&mut self, mut valid: bool, mut skipping: bool) -> Result<bool> {
        let (mut tombstones, mut steps) = (0, 0);
        while valid {
            let entry = self.merge.parsed_key()?;
            let passed = skipping
                && self.point.state().order.user().compare(entry.user_key, &self.saved_key)
                    != Ordering::Greater;
            if self.sees(entry.seq) && !passed {
                match entry.kind {
                    KeyKind::Value => {
                        self.place = MergePosition::AtEntry;
                        debug_assert!(
                            !skipping || self.compare_to_saved().is_gt(),
                            "a step forward does not advance"
                        );
                        self.end_crawl(tombstones);
                        return Ok(true);
                    }
                    KeyKind::Deletion => {
                        tombstones += 1;
                        self.note_tombstone(tombstones, entry.seq);
                        self.saved_key.clear();
                        self.saved_key.extend_from_slice(entry.user_key);
                        skipping = true;
                    }
                }
            }
            let hides_the_rest = passed || self.sees(entry.seq);
            if self.is_among_versions(&mut steps) {
                match hides_the_rest {
                    true => self.set_seek_key(0, KeyKind::Deletion),
                    false => self.set_seek_key(self.point.seq, KIND_FOR_SEEK),
                }
                valid = self.merge.seek(&self.seek_key)?;
            } else {
                valid = self.merge.next()?;
            }
        }
        self.end_crawl(tombstones);
        Ok(false)
    }

    /// Returns whether the reader sees versions with the sequence number `seq`.
    #[inline]
    fn sees(&self, seq: SeqNo) -> bool {
        seq <= self.point.seq || (seq == OWN_SEQ && self.point.own.is_some())
    }

    /// Returns the highest sequence number that the reader may see.
    #[inline]
    fn newest_seq(&self) -> SeqNo {
        if self.point.own.is_some() { OWN_SEQ } else { self.point.seq }
    }

    /// Records that a step has passed `tombstones` tombstones, the last of which has the sequence
    /// number `seq`. If there are more than [`CRAWL_TOMBSTONES`], the step is a crawl, and the
    /// table of the last tombstone is marked for a compaction.
    #[inline]
    fn note_tombstone(&self, tombstones: u64, seq: SeqNo) {
        if tombstones > CRAWL_TOMBSTONES
            && let Some(table) = self.merge.table()
        {
            table.tombstones.crawled(seq);
        }
    }

    /// Ends a step that has passed `tombstones` tombstones. After a crawl, signals that a
    /// compaction may be due.
    #[inline]
    fn end_crawl(&self, tombstones: u64) {
        if tombstones > CRAWL_TOMBSTONES {
            self.point.state().work.give();
        }
    }

    /// Finds the last visible entry at or before the merge's position. Returns whether there is
    /// one. A backward walk reaches the versions of a key from the oldest to the newest, so the
    /// version to return is the last visible one.
    fn find_backward(&mut self, mut valid: bool) -> Result<bool> {
        let mut kind = KeyKind::Deletion;
        let (mut tombstones, mut steps) = (0, 0);
        while valid {
            let entry = self.merge.parsed_key()?;
            let visible = self.sees(entry.seq);
            if visible {
                let order = self.point.state().order.user();
                if kind == KeyKind::Value
                    && order.compare(entry.user_key, &self.saved_key) != Ordering::Equal
                {
                    break;
                }
                kind = entry.kind;
                self.saved_key.clear();
                self.saved_key.extend_from_slice(entry.user_key);
                match kind {
                    KeyKind::Value => self.saved_value.set(&self.merge),
                    KeyKind::Deletion => {
                        tombstones += 1;
                        self.note_tombstone(tombstones, entry.seq);
                    }
                }
            }
            if !self.is_among_versions(&mut steps) {
                valid = self.merge.prev()?;
                continue;
            }
            // Among versions of the key before the one that was found, none of which the reader
            // sees so far. A write of its own may follow, which the next step must find.
            if kind == KeyKind::Value && self.compare_to_saved().is_ne() {
                break;
            }
            valid = self.pass_versions(visible, &mut kind)?;
        }
        self.end_crawl(tombstones);
        if kind == KeyKind::Value {
            self.place = MergePosition::BeforeEntry;
            debug_assert!(
                !self.merge.valid() || self.compare_to_saved().is_ne(),
                "the merge is not before all versions of the entry"
            );
        }
        Ok(self.valid())
    }

    /// Compares the user key of the merge's entry to the saved key.
    fn compare_to_saved(&self) -> Ordering {
        self.point.state().order.user().compare(user_key(self.merge.key()), &self.saved_key)
    }
}

impl Drop for VisibleCursor {
    fn drop(&mut self) {
        self.point.state().totals.add_scan(|tally| {
            tally.levels[0].add(&self.level0);
            self.merge.each_trace(|level, trace| tally.levels[level].add(trace));
        });
    }
}
