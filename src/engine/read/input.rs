//! An input of a merge that sums its entries as they come out of their blocks. Reads do without.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::entry_sum::{EntrySum, entry_hash};
use crate::base::{Error, Result};
use crate::engine::read::level::LevelCursor;
use crate::engine::version::TableFile;
use crate::table::counts::LevelTrace;
use crate::table::iter::TableCursor;

/// The cursor of an input.
pub(crate) enum Inner {
    /// A table of level 0.
    Table(Box<TableCursor>, Arc<TableFile>),
    /// The tables of a sorted level, one after the other.
    Level(Box<LevelCursor>),
}

/// Calls the same method on either kind of cursor.
macro_rules! each {
    ($self:expr, $cursor:ident => $expr:expr) => {
        match &$self.inner {
            Inner::Table($cursor, _) => $expr,
            Inner::Level($cursor) => $expr,
        }
    };
    (mut $self:expr, $cursor:ident => $expr:expr) => {
        match &mut $self.inner {
            Inner::Table($cursor, _) => $expr,
            Inner::Level($cursor) => $expr,
        }
    };
}

/// A cursor that sums the entries that it leaves by a step. An entry is hashed when the cursor
/// reaches it, so that what happens to its bytes while the cursor stays there is not in the sum.
pub(crate) struct InputCursor {
    inner: Inner,
    sum: EntrySum,
    /// Hash of the current entry; `None` if there is none.
    current: Option<u64>,
}

impl InputCursor {
    /// Returns a cursor that is not positioned yet, with an empty sum.
    pub(crate) fn new(inner: Inner) -> InputCursor {
        InputCursor { inner, sum: EntrySum::default(), current: None }
    }

    /// Returns the sum of the entries that steps have left.
    pub(super) fn sum(&self) -> EntrySum {
        self.sum
    }

    /// Returns whether the cursor is at an entry.
    pub(super) fn is_at_entry(&self) -> bool {
        self.current.is_some()
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }

    #[inline]
    pub(super) fn value(&self) -> &[u8] {
        each!(self, cursor => cursor.value())
    }

    pub(super) fn value_bytes(&self) -> Bytes {
        each!(self, cursor => cursor.value_bytes())
    }

    pub(super) fn seek_to_first(&mut self) -> Result<bool> {
        let moved = each!(mut self, cursor => cursor.seek_to_first());
        self.arrive(moved)
    }

    pub(super) fn seek_to_last(&mut self) -> Result<bool> {
        let moved = each!(mut self, cursor => cursor.seek_to_last());
        self.arrive(moved)
    }

    pub(super) fn seek(&mut self, target: &[u8]) -> Result<bool> {
        let moved = each!(mut self, cursor => cursor.seek(target));
        self.arrive(moved)
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<bool> {
        self.leave();
        let moved = each!(mut self, cursor => cursor.next());
        self.arrive(moved)
    }

    pub(super) fn prev(&mut self) -> Result<bool> {
        self.leave();
        let moved = each!(mut self, cursor => cursor.prev());
        self.arrive(moved)
    }

    #[inline]
    fn leave(&mut self) {
        if let Some(hash) = self.current.take() {
            self.sum.add_hash(hash);
        }
    }

    #[inline]
    fn arrive(&mut self, moved: Result<bool>) -> Result<bool> {
        self.current = None;
        let is_at_entry = moved?;
        if is_at_entry {
            self.current = Some(entry_hash(self.key(), self.value()));
        }
        Ok(is_at_entry)
    }

    /// Adds the table and the block of the current entry to `error`.
    pub(super) fn locate(&self, error: Error) -> Error {
        match &self.inner {
            Inner::Table(cursor, _) => cursor.data_error(error),
            Inner::Level(cursor) => cursor.current().data_error(error),
        }
    }

    /// Returns the table of the current entry.
    pub(super) fn table(&self) -> Option<&TableFile> {
        match &self.inner {
            Inner::Table(_, file) => Some(file),
            Inner::Level(cursor) => cursor.file(),
        }
    }

    /// Passes the level of the input, and counts of the work done so far, to `count`.
    pub(super) fn each_trace(&self, mut count: impl FnMut(usize, &LevelTrace)) {
        match &self.inner {
            Inner::Table(cursor, _) => count(0, cursor.trace()),
            Inner::Level(cursor) => cursor.each_trace(count),
        }
    }
}
