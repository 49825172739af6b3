//! Walks: iterations over a range, in one direction, that read many entries at once.

use std::mem;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use minikv::{Cursor, ReadOptions, Snapshot};

use crate::error::Fault;
use crate::frames::Entries;

/// Maximum memory, in bytes, that a read reserves before it knows its first entry.
const MAX_ROOM_BYTES: usize = 64 << 10;

/// Number of entries below which a read reserves no memory in advance.
const FEW_ENTRIES: usize = 16;

/// The keys from one bound to the other.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The range that a walk covers, and the parts of entries that it returns.
pub struct Plan {
    pub range: Range,
    pub is_reverse: bool,
    pub with_keys: bool,
    pub with_values: bool,
    pub fill_cache: bool,
}

/// A key and a value; each is empty if it was not requested.
type Entry<'a> = (&'a [u8], &'a [u8]);

enum Place {
    /// Before the first entry of the range.
    Start,
    /// Before the first entry at or after this key, in the direction of the walk.
    Target(Vec<u8>),
    /// At the entry that was returned last.
    Entry,
    /// After the last entry of the range.
    End,
}

/// A position in a range of a snapshot.
pub struct Walk {
    snapshot: Snapshot,
    plan: Plan,
    /// `None` until the first read, because creating a cursor may read from the disk.
    cursor: Option<Cursor>,
    place: Place,
    /// The error that ended the last read. Later reads also return this error, until the next seek.
    fault: Option<Fault>,
}

impl Walk {
    /// Returns a walk that has not started.
    pub fn new(snapshot: Snapshot, plan: Plan) -> Walk {
        Walk { snapshot, plan, cursor: None, place: Place::Start, fault: None }
    }

    /// Makes the next read begin at `target`, or at the end of the range if `target` is outside the
    /// range.
    pub fn seek(&mut self, target: Vec<u8>) {
        let is_within = !self.plan.is_before(&target) && !self.plan.is_after(&target);
        self.place = if is_within { Place::Target(target) } else { Place::End };
        self.fault = None;
    }

    /// Reads entries until `entries` entries have been read, their total size exceeds `bytes`
    /// bytes, or the range ends. Returns the entries as frames.
    ///
    /// If the cursor fails before the first entry, returns the error. If the cursor fails later,
    /// returns the entries read so far; the next read returns the error.
    pub fn read(
        &mut self,
        entries: usize,
        bytes: usize,
        is_aborted: &AtomicBool,
    ) -> Result<Vec<u8>, Fault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let room = if entries > FEW_ENTRIES { bytes.min(MAX_ROOM_BYTES) } else { 0 };
        let mut read = Entries::with_capacity(room);
        let mut read_bytes = 0;
        while read.count < entries && read_bytes <= bytes {
            if is_aborted.load(Relaxed) {
                return Err(Fault::Aborted);
            }
            match self.step() {
                Ok(Some((key, value))) => {
                    read_bytes += key.len() + value.len();
                    read.push(key, value)?;
                }
                Ok(None) => return Ok(read.finish(true)),
                Err(fault) => {
                    self.fault = Some(fault.clone());
                    return if read.count == 0 { Err(fault) } else { Ok(read.finish(false)) };
                }
            }
        }
        Ok(read.finish(false))
    }

    /// Moves to the next entry of the range, and returns the requested parts of that entry.
    fn step(&mut self) -> Result<Option<Entry<'_>>, Fault> {
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            none => {
                let options = ReadOptions::default().fill_cache(self.plan.fill_cache);
                none.insert(self.snapshot.cursor_with(&options)?)
            }
        };
        let found = match (mem::replace(&mut self.place, Place::End), self.plan.is_reverse) {
            (Place::Start, _) => self.plan.find_start(cursor)?,
            (Place::Target(target), false) => cursor.seek(target)?,
            (Place::Target(target), true) => cursor.seek_for_prev(target)?,
            (Place::Entry, false) => cursor.next()?,
            (Place::Entry, true) => cursor.prev()?,
            (Place::End, _) => false,
        };
        if !found || self.plan.is_past(cursor.key()) {
            return Ok(None);
        }
        self.place = Place::Entry;
        let key = if self.plan.with_keys { cursor.key() } else { &[] };
        let value = if self.plan.with_values { cursor.value() } else { &[] };
        Ok(Some((key, value)))
    }
}

impl Plan {
    fn is_before(&self, key: &[u8]) -> bool {
        match &self.range.0 {
            Bound::Included(lower) => key < lower.as_slice(),
            Bound::Excluded(lower) => key <= lower.as_slice(),
            Bound::Unbounded => false,
        }
    }

    fn is_after(&self, key: &[u8]) -> bool {
        match &self.range.1 {
            Bound::Included(upper) => key > upper.as_slice(),
            Bound::Excluded(upper) => key >= upper.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Returns whether a walk that has reached `key` has passed the end of the range.
    fn is_past(&self, key: &[u8]) -> bool {
        if self.is_reverse { self.is_before(key) } else { self.is_after(key) }
    }

    fn find_start(&self, cursor: &mut Cursor) -> Result<bool, Fault> {
        Ok(match (self.is_reverse, &self.range) {
            (false, (Bound::Unbounded, _)) => cursor.seek_to_first()?,
            (false, (Bound::Included(lower) | Bound::Excluded(lower), _)) => {
                let found = cursor.seek(lower)?;
                if found && self.is_before(cursor.key()) { cursor.next()? } else { found }
            }
            (true, (_, Bound::Unbounded)) => cursor.seek_to_last()?,
            (true, (_, Bound::Included(upper) | Bound::Excluded(upper))) => {
                let found = cursor.seek_for_prev(upper)?;
                if found && self.is_after(cursor.key()) { cursor.prev()? } else { found }
            }
        })
    }
}
