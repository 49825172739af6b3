//! Walks: iterations over a range, in both directions, that read entries ahead.
//!
//! The position of a walk is a gap between two entries. A step forward returns the entry after the
//! gap and moves the gap past that entry; a step back does the same with the entry before the gap.
//! A step forward and a step back after it therefore return the same entry.

use std::cmp::Ordering;
use std::mem;
use std::sync::Arc;

use minikv::{Comparator, Cursor, Readable, Result, Transaction};

use crate::error::Fault;
use crate::slot::Slot;
use crate::space::{SpaceName, Spaces};

/// Maximum number of entries read ahead. With a higher number, threads release and take the GIL
/// less often, but read more entries that are never used.
const MAX_AHEAD: usize = 256;

/// Number of entries in the first read, and the factor by which this number grows from one read to
/// the next. Higher values make short walks slower; lower values make long walks slower.
const FIRST_AHEAD: usize = 2;
const AHEAD_FACTOR: usize = 2;

/// Total size, in bytes, of the entries read ahead, above which a read adds no more entries.
const MAX_AHEAD_BYTES: usize = 64 << 10;

/// One end of a range.
#[derive(Default)]
pub struct End {
    pub key: Option<Vec<u8>>,
    pub is_included: bool,
}

/// Adjacent entries of the database, in the order in which they were read.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    /// For each entry, the offset in `bytes` at which the key ends and the offset at which the
    /// value ends.
    ends: Vec<(usize, usize)>,
    is_descending: bool,
}

impl Run {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self, is_descending: bool) {
        self.bytes.clear();
        self.ends.clear();
        self.is_descending = is_descending;
    }

    /// Makes room for `entries` entries of `bytes` bytes each.
    fn reserve(&mut self, entries: usize, bytes: usize) {
        self.ends.reserve(entries);
        self.bytes.reserve(entries.saturating_mul(bytes).min(MAX_AHEAD_BYTES));
    }

    fn is_full(&self, entries: usize) -> bool {
        self.len() >= entries || self.bytes.len() >= MAX_AHEAD_BYTES
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Returns the key and the value at `index`. The index counts the entries in the order of their
    /// keys.
    fn entry(&self, index: usize) -> (&[u8], &[u8]) {
        let at = if self.is_descending { self.len() - 1 - index } else { index };
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        let (key_end, end) = self.ends[at];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// Before the first entry of the range.
    Start,
    /// After the last entry of the range.
    Stop,
    /// Before the entry with this index in the run, or after the last entry if the index is the
    /// length of the run.
    Run(usize),
}

/// The direction of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Forward,
    Back,
}

/// The source of the entries of a walk.
pub enum Entries {
    Cursor(Box<Cursor>),
    /// A transaction, or one keyspace in it. Each read has a cursor of its own, which shows the
    /// writes before it.
    Transaction(Arc<Slot<Transaction>>, Option<SpaceName>),
}

/// A position in a range of a database.
pub struct Walk {
    entries: Entries,
    path: Path,
}

/// The part of a walk that does not depend on the source of its entries.
pub struct Path {
    order: Arc<dyn Comparator>,
    start: End,
    stop: End,
    with_values: bool,
    run: Run,
    gap: Gap,
    /// Whether the cursor is at the entry that was last added to the run.
    is_in_place: bool,
    /// Direction of the last read, and maximum number of entries for the next read.
    ahead: (Step, usize),
}

impl Walk {
    /// Returns a walk through `entries` along `path`.
    pub fn new(entries: Entries, path: Path) -> Walk {
        Walk { entries, path }
    }

    /// Moves the gap to the position before the first entry of the range.
    pub fn seek_to_start(&mut self) {
        self.path.seek_to_start();
    }

    /// Moves the gap to the position after the last entry of the range.
    pub fn seek_to_stop(&mut self) {
        self.path.seek_to_stop();
    }

    /// Moves the gap to the position before the first entry of the range whose key is not less than
    /// `target`.
    pub fn seek(&mut self, target: &[u8]) -> Result<(), Fault> {
        self.with_cursor(|path, cursor| path.seek(cursor, target))
    }

    /// Moves the gap past the next entry in the direction `step`, if that entry was already read,
    /// and returns the key and the value of that entry.
    pub fn step(&mut self, step: Step) -> Option<(&[u8], &[u8])> {
        self.path.step(step)
    }

    /// Reads entries ahead from the gap in the direction `step`, unless the next entry was already
    /// read. If the range has no more entries in that direction, moves the gap to that end of the
    /// range and returns `false`.
    ///
    /// # Errors
    /// The error of the cursor, if the cursor fails before this read has found an entry. If the
    /// cursor fails later, this read ends without an error, and the next read in that direction
    /// returns the error.
    pub fn read(&mut self, step: Step) -> Result<bool, Fault> {
        if self.path.has_read(step) {
            return Ok(true);
        }
        self.with_cursor(|path, cursor| path.read(cursor, step))
    }

    /// Calls `work` with a cursor over the entries.
    fn with_cursor<T>(
        &mut self,
        work: impl FnOnce(&mut Path, &mut Cursor) -> Result<T>,
    ) -> Result<T, Fault> {
        let path = &mut self.path;
        match &mut self.entries {
            Entries::Cursor(cursor) => Ok(work(path, cursor)?),
            Entries::Transaction(slot, space) => slot.with(|transaction| {
                path.is_in_place = false;
                let mut cursor = match space {
                    Some(space) => {
                        let space = transaction.snapshot().space(space)?;
                        transaction.keyspace(&space).cursor()?
                    }
                    None => transaction.cursor()?,
                };
                Ok(work(path, &mut cursor)?)
            }),
        }
    }
}

impl Path {
    /// Returns a path from the start to the stop of a range. If `with_values` is false, values are
    /// not read.
    pub fn new(order: Arc<dyn Comparator>, start: End, stop: End, with_values: bool) -> Path {
        Path {
            order,
            start,
            stop,
            with_values,
            run: Run::default(),
            gap: Gap::Start,
            is_in_place: false,
            ahead: (Step::Forward, FIRST_AHEAD),
        }
    }

    fn seek_to_start(&mut self) {
        self.gap = Gap::Start;
        self.ahead.1 = FIRST_AHEAD;
    }

    fn seek_to_stop(&mut self) {
        self.gap = Gap::Stop;
        self.ahead.1 = FIRST_AHEAD;
    }

    fn seek(&mut self, cursor: &mut Cursor, target: &[u8]) -> Result<()> {
        if self.is_before_start(target) {
            self.seek_to_start();
            return Ok(());
        }
        let may_be_within = !self.is_after_stop(target);
        self.is_in_place = false;
        let found = may_be_within && cursor.seek(target)?;
        let is_within = found && self.is_within(cursor.key(), Step::Forward);
        self.seek_to_stop();
        if is_within {
            self.run.clear(false);
            self.take_entry(cursor);
            self.gap = Gap::Run(0);
            self.is_in_place = true;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Option<(&[u8], &[u8])> {
        let Gap::Run(at) = self.gap else { return None };
        if !self.has_read(step) {
            return None;
        }
        let (index, after) = match step {
            Step::Forward => (at, at + 1),
            Step::Back => (at - 1, at - 1),
        };
        self.gap = Gap::Run(after);
        Some(self.run.entry(index))
    }

    fn has_read(&self, step: Step) -> bool {
        match (self.gap, step) {
            (Gap::Run(at), Step::Forward) => at < self.run.len(),
            (Gap::Run(at), Step::Back) => at > 0,
            _ => false,
        }
    }

    /// Reads entries as [`Walk::read`] does, if the next one was not already read.
    fn read(&mut self, cursor: &mut Cursor, step: Step) -> Result<bool> {
        let entries = self.entries_to_read(step);
        let is_in_place = mem::replace(&mut self.is_in_place, false);
        if !self.find_first(cursor, step, is_in_place)? {
            self.gap = if step == Step::Forward { Gap::Stop } else { Gap::Start };
            return Ok(false);
        }
        // From here on, the run and the gap must be consistent whenever the cursor moves, because a
        // panicking comparator may unwind out of the move.
        self.run.clear(step == Step::Back);
        self.run.reserve(entries, self.entry_bytes(cursor));
        loop {
            self.take_entry(cursor);
            self.gap = Gap::Run(if step == Step::Forward { 0 } else { self.run.len() });
            if self.run.is_full(entries) {
                self.is_in_place = true;
                return Ok(true);
            }
            let moved = match step {
                Step::Forward => cursor.next(),
                Step::Back => cursor.prev(),
            };
            if !matches!(moved, Ok(true)) || !self.is_within(cursor.key(), step) {
                return Ok(true);
            }
        }
    }

    /// Returns the maximum number of entries for a read in the direction `step`. This number grows
    /// from one read to the next.
    fn entries_to_read(&mut self, step: Step) -> usize {
        let entries = if self.ahead.0 == step { self.ahead.1 } else { FIRST_AHEAD };
        self.ahead = (step, (entries * AHEAD_FACTOR).min(MAX_AHEAD));
        entries
    }

    /// Moves the cursor in the direction `step` to the first entry beyond the gap and the run.
    /// Returns `false` if the range has no such entry.
    fn find_first(&self, cursor: &mut Cursor, step: Step, is_in_place: bool) -> Result<bool> {
        let found = match (self.gap, step) {
            (Gap::Stop, Step::Forward) | (Gap::Start, Step::Back) => false,
            (Gap::Start, Step::Forward) => self.find_start(cursor)?,
            (Gap::Stop, Step::Back) => self.find_stop(cursor)?,
            (Gap::Run(_), Step::Forward) if is_in_place && !self.run.is_descending => {
                cursor.valid() && cursor.next()?
            }
            (Gap::Run(_), Step::Back)
                if is_in_place && (self.run.is_descending || self.run.len() == 1) =>
            {
                cursor.valid() && cursor.prev()?
            }
            // The entry itself may be gone: expired, or deleted by the transaction.
            (Gap::Run(_), Step::Forward) => {
                let last = self.run.entry(self.run.len() - 1).0;
                let found = cursor.seek(last)?;
                if found && self.is_equal(cursor.key(), last) { cursor.next()? } else { found }
            }
            (Gap::Run(_), Step::Back) => {
                let first = self.run.entry(0).0;
                let found = cursor.seek_for_prev(first)?;
                if found && self.is_equal(cursor.key(), first) { cursor.prev()? } else { found }
            }
        };
        Ok(found && self.is_within(cursor.key(), step))
    }

    fn find_start(&self, cursor: &mut Cursor) -> Result<bool> {
        let Some(start) = &self.start.key else { return cursor.seek_to_first() };
        let found = cursor.seek(start)?;
        match found && self.is_before_start(cursor.key()) {
            true => cursor.next(),
            false => Ok(found),
        }
    }

    fn find_stop(&self, cursor: &mut Cursor) -> Result<bool> {
        let Some(stop) = &self.stop.key else { return cursor.seek_to_last() };
        let found = cursor.seek_for_prev(stop)?;
        match found && self.is_after_stop(cursor.key()) {
            true => cursor.prev(),
            false => Ok(found),
        }
    }

    fn is_equal(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || self.order.compare(a, b) == Ordering::Equal
    }

    /// Returns whether `key`, which a step in the direction `step` has found, is in the range.
    fn is_within(&self, key: &[u8], step: Step) -> bool {
        match step {
            Step::Forward => !self.is_after_stop(key),
            Step::Back => !self.is_before_start(key),
        }
    }

    fn is_before_start(&self, key: &[u8]) -> bool {
        self.start.key.as_ref().is_some_and(|start| match self.order.compare(key, start) {
            Ordering::Less => true,
            Ordering::Equal => !self.start.is_included,
            Ordering::Greater => false,
        })
    }

    fn is_after_stop(&self, key: &[u8]) -> bool {
        self.stop.key.as_ref().is_some_and(|stop| match self.order.compare(key, stop) {
            Ordering::Less => false,
            Ordering::Equal => !self.stop.is_included,
            Ordering::Greater => true,
        })
    }

    fn take_entry(&mut self, cursor: &Cursor) {
        let value = if self.with_values { cursor.value() } else { &[] };
        self.run.push(cursor.key(), value);
    }

    /// Returns the number of bytes that the cursor's entry takes in a run.
    fn entry_bytes(&self, cursor: &Cursor) -> usize {
        let value_bytes = if self.with_values { cursor.value().len() } else { 0 };
        cursor.key().len() + value_bytes
    }
}
