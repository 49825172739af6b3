//! Reads of a database, of a snapshot, and of a database opened for reading only. In all three
//! cases, a [`Reader`] determines the sequence number to read at.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::engine::options::ReadOptions;
use crate::engine::read::cursor::Cursor;
use crate::engine::read::get;
use crate::engine::read::iter::Iter;
use crate::engine::read::point::ReadPoint;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::read::view::{ReadSeq, ReadState};
use crate::engine::span::Span;
use crate::engine::stats::trace::ReadTrace;
use crate::engine::version::{KeyRange, Version};
use crate::format::edit::NUM_LEVELS;
use crate::format::key::{KIND_FOR_SEEK, MAX_SEQ_NO, internal_key};

/// A database to read, and the point in time at which to read it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    state: &'a Arc<ReadState>,
    /// The sequence number of the snapshot to read at; `None` to read the newest state.
    at: Option<&'a ReadSeq>,
}

impl<'a> Reader<'a> {
    /// Returns a reader whose reads each see the newest state of the database.
    pub(crate) fn now(state: &'a Arc<ReadState>) -> Reader<'a> {
        Reader { state, at: None }
    }

    /// Returns a reader of the database as it was when `snapshot` was taken.
    pub(crate) fn at(snapshot: &'a Snapshot) -> Reader<'a> {
        Reader { state: snapshot.seq.state(), at: Some(&snapshot.seq) }
    }

    /// Returns whether both readers read the same database at the same moment.
    pub(crate) fn reads_the_same(&self, other: &Reader<'_>) -> bool {
        let seq = |reader: &Reader<'_>| reader.at.map(ReadSeq::seq);
        Arc::ptr_eq(self.state, other.state) && seq(self) == seq(other)
    }

    /// Returns the state of the database.
    pub(crate) fn state(&self) -> &'a Arc<ReadState> {
        self.state
    }

    /// Returns what a read with `options` sees.
    ///
    /// # Errors
    /// Invalid argument if the options name a snapshot of another database.
    #[inline]
    pub(crate) fn point<'p>(&self, options: &'p ReadOptions) -> Result<ReadPoint<'p>>
    where
        'a: 'p,
    {
        let held = match &options.snapshot {
            None => self.at,
            Some(snapshot) if Arc::ptr_eq(snapshot.seq.state(), self.state) => Some(&*snapshot.seq),
            Some(_) => return Err(Error::invalid("the snapshot belongs to another database")),
        };
        Ok(match held {
            None => ReadPoint::now(self.state, options.blocks),
            Some(held) => ReadPoint::at(held, options.blocks),
        })
    }

    /// Returns the value of `key`.
    pub(crate) fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>> {
        get::counted_get(&self.point(options)?, key)
    }

    /// Returns the value of `key`, and counts of the work done to find the value.
    pub(crate) fn get_traced(
        &self,
        options: &ReadOptions,
        key: &[u8],
    ) -> Result<(Option<Bytes>, ReadTrace)> {
        let mut trace = ReadTrace::default();
        let value = get::traced_get(&self.point(options)?, key, &mut trace)?;
        Ok((value, trace))
    }

    /// Returns the values of `keys` in the order of `keys`, all at the same point in time.
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Result<Vec<Option<Bytes>>> {
        get::multi_get(&self.point(options)?, keys)
    }

    /// Returns a new cursor, which is at no entry.
    pub(crate) fn cursor(&self, options: &ReadOptions) -> Result<Cursor> {
        Cursor::new(self.point(options)?.into_owned(), None)
    }

    /// Returns an iterator over the keys in `range`.
    pub(crate) fn range<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        Ok(Iter::new(self.point(options)?.into_owned(), range))
    }

    /// Returns an iterator over the keys that start with `prefix` and are not before the lower
    /// bound `from`.
    pub(crate) fn prefix(
        &self,
        options: &ReadOptions,
        prefix: &[u8],
        from: Bound<&[u8]>,
    ) -> Result<Iter> {
        Iter::with_prefix(self.point(options)?.into_owned(), prefix, from)
    }

    /// Returns the approximate number of bytes that the data in `range` takes in table files and in
    /// memtables.
    pub(crate) fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<u64> {
        let (view, order) = (self.state.view_owned(), self.state.order.user());
        let span = Span::new(&range);
        let in_memory = view.memtables().map(|mem| mem.approximate_size(order, &span)).sum::<u64>();
        Ok(in_memory + self.size_in_tables(&view.version, range)?)
    }

    /// Returns the approximate number of bytes that the data in `range` takes in table files.
    pub(crate) fn approximate_size_in_tables<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<u64> {
        self.size_in_tables(&self.state.view_owned().version, range)
    }

    fn size_in_tables<K: AsRef<[u8]>>(
        &self,
        version: &Version,
        range: impl RangeBounds<K>,
    ) -> Result<u64> {
        // Included and excluded bounds differ by one entry, which is less than the estimate's
        // error.
        let key = |bound: Bound<&K>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => {
                Some(internal_key(key.as_ref(), MAX_SEQ_NO, KIND_FOR_SEEK))
            }
        };
        let from = key(range.start_bound());
        let to = key(range.end_bound());
        let start = from.map_or(Ok(0), |from| self.offset_of(version, &from))?;
        let end = match to {
            None => (0..NUM_LEVELS).map(|level| version.level_bytes(level)).sum(),
            Some(to) => self.offset_of(version, &to)?,
        };
        Ok(end.saturating_sub(start))
    }

    /// Returns the approximate number of bytes that the data before an internal key takes in all
    /// table files.
    fn offset_of(&self, version: &Version, key: &[u8]) -> Result<u64> {
        let order = &self.state.order;
        let mut offset = 0;
        for (_, file) in version.files() {
            if order.compare(&file.largest, key).is_le() {
                offset += file.file_bytes;
            } else if order.compare(&file.smallest, key).is_lt() {
                offset +=
                    self.state.tables.with(&file.slot, |table| table.approximate_offset_of(key))?;
            }
        }
        Ok(offset)
    }
}

/// Returns `range` as a range with inclusive bounds. An excluded bound becomes inclusive, because
/// callers may process a larger range than asked for, but not a smaller one.
pub(crate) fn key_range<'a, K: AsRef<[u8]> + 'a>(range: &'a impl RangeBounds<K>) -> KeyRange<'a> {
    let key = |bound: Bound<&'a K>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key.as_ref()),
    };
    KeyRange { from: key(range.start_bound()), to: key(range.end_bound()) }
}
