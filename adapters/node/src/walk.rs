//! Walks: iterations over a range, in one direction, that read many entries at once.

use std::mem;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use minikv::{Cursor, ReadOptions, Readable};

use crate::error::Fault;
use crate::frames::Entries;
use crate::shared_transaction::SharedTransaction;
use crate::space::{SpaceName, Spaces};
use crate::view::{Range, View};

/// Maximum memory, in bytes, that a read reserves before it knows its first entry.
const MAX_ROOM_BYTES: usize = 64 << 10;

/// Number of entries below which a read reserves no memory in advance.
const FEW_ENTRIES: usize = 16;

/// The range that a walk covers, and the parts of entries that it returns.
pub struct Plan {
    pub range: Range,
    pub is_reverse: bool,
    pub with_keys: bool,
    pub with_values: bool,
    pub fill_cache: bool,
}

enum Place {
    /// Before the first entry of the range.
    Start,
    /// Before the first entry at or after this key, in the direction of the walk.
    Target(Vec<u8>),
    /// At the entry that was returned last.
    Entry,
    /// After this key, in the direction of the walk.
    After(Vec<u8>),
    /// After the last entry of the range.
    End,
}

/// The source of a walk's entries.
pub enum Source {
    /// A view. The cursor is `None` until the first read, because creating a cursor may read from
    /// the disk.
    View(View, Option<Box<Cursor>>),
    /// A transaction, or one keyspace in it. A cursor of a transaction borrows it, so each read has
    /// a cursor of its own.
    Transaction(SharedTransaction, Option<SpaceName>),
}

/// A position in a range.
pub struct Walk {
    source: Source,
    path: Path,
    /// The error that ended the last read. Later reads also return this error, until the next seek.
    fault: Option<Fault>,
}

/// The part of a walk that does not depend on its source.
struct Path {
    plan: Plan,
    place: Place,
}

impl Walk {
    /// Returns a walk that has not started.
    pub fn new(source: Source, plan: Plan) -> Walk {
        Walk { source, path: Path { plan, place: Place::Start }, fault: None }
    }

    /// Makes the next read begin at `target`, or at the end of the range if `target` is outside the
    /// range.
    pub fn seek(&mut self, target: Vec<u8>) {
        let plan = &self.path.plan;
        let is_within = !plan.is_before(&target) && !plan.is_after(&target);
        self.path.place = if is_within { Place::Target(target) } else { Place::End };
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
        let limits = Limits { entries, bytes, is_aborted };
        let path = &mut self.path;
        let filled = match &mut self.source {
            Source::View(view, cursor) => {
                let options = ReadOptions::default().fill_cache(path.plan.fill_cache);
                let cursor = match cursor {
                    Some(cursor) => cursor,
                    none => none.insert(Box::new(view.reading(options).cursor()?)),
                };
                path.fill(cursor, &mut read, &limits)
            }
            Source::Transaction(transaction, space) => transaction.with(|transaction| {
                let mut cursor = match space {
                    Some(space) => {
                        let space = transaction.snapshot().space(space)?;
                        transaction.keyspace(&space).cursor()?
                    }
                    None => transaction.cursor()?,
                };
                let filled = path.fill(&mut cursor, &mut read, &limits);
                if matches!(path.place, Place::Entry) {
                    path.place = Place::After(cursor.key().to_vec());
                }
                filled
            }),
        };
        match filled {
            Ok(is_end) => Ok(read.finish(is_end)),
            Err(Fault::Aborted) => Err(Fault::Aborted),
            Err(fault) => {
                self.fault = Some(fault.clone());
                if read.count == 0 { Err(fault) } else { Ok(read.finish(false)) }
            }
        }
    }
}

/// The limits of one read, which may also end with the range.
struct Limits<'a> {
    entries: usize,
    bytes: usize,
    is_aborted: &'a AtomicBool,
}

impl Path {
    /// Reads entries into `read`, and returns whether the range has ended.
    fn fill(
        &mut self,
        cursor: &mut Cursor,
        read: &mut Entries,
        limits: &Limits<'_>,
    ) -> Result<bool, Fault> {
        let mut read_bytes = 0;
        while read.count < limits.entries && read_bytes <= limits.bytes {
            if limits.is_aborted.load(Relaxed) {
                return Err(Fault::Aborted);
            }
            if !self.step(cursor)? {
                return Ok(true);
            }
            let key = if self.plan.with_keys { cursor.key() } else { &[] };
            let value = if self.plan.with_values { cursor.value() } else { &[] };
            read_bytes += key.len() + value.len();
            read.push(key, value)?;
        }
        Ok(false)
    }

    /// Moves the cursor to the next entry of the range, and returns whether there is one.
    fn step(&mut self, cursor: &mut Cursor) -> Result<bool, Fault> {
        let found = match (mem::replace(&mut self.place, Place::End), self.plan.is_reverse) {
            (Place::Start, _) => self.plan.find_start(cursor)?,
            (Place::Target(target), false) => cursor.seek(&target)?,
            (Place::Target(target), true) => cursor.seek_for_prev(&target)?,
            (Place::Entry, false) => cursor.next()?,
            (Place::Entry, true) => cursor.prev()?,
            (Place::After(key), false) => {
                let found = cursor.seek(&key)?;
                if found && cursor.key() == key { cursor.next()? } else { found }
            }
            (Place::After(key), true) => {
                let found = cursor.seek_for_prev(&key)?;
                if found && cursor.key() == key { cursor.prev()? } else { found }
            }
            (Place::End, _) => false,
        };
        if !found || self.plan.is_past(cursor.key()) {
            return Ok(false);
        }
        self.place = Place::Entry;
        Ok(true)
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
