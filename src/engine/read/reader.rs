//! Readers: a database, a snapshot, a keyspace or a transaction, with the options of its reads.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::Result;
use crate::engine::options::ReadOptions;
use crate::engine::read::point::{Overlay, ReadPoint};
use crate::engine::read::snapshot::Snapshot;
use crate::engine::read::view::{ReadSeq, ReadState};
use crate::engine::span::Span;
use crate::engine::version::{KeyRange, Version};
use crate::format::key::{KIND_FOR_SEEK, MAX_SEQ_NO, internal_key};
use crate::format::keyspace::{Space, WHOLE};

/// Something that can be read, with options, from [`Readable::reading`](crate::Readable::reading).
/// It has all reads of [`Readable`](crate::Readable). A reader is a few words and is copied freely.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    state: &'a Arc<ReadState>,
    /// The sequence number of the snapshot to read at; `None` to read the newest state.
    at: Option<&'a ReadSeq>,
    /// The keys to read.
    space: &'a Space,
    /// The transaction that reads.
    overlay: Option<&'a Overlay>,
    options: ReadOptions,
}

impl<'a> Reader<'a> {
    /// Returns a reader whose reads each see the newest state of the database.
    #[inline]
    pub(crate) fn now(state: &'a Arc<ReadState>) -> Reader<'a> {
        let (at, space, overlay) = (None, &WHOLE, None);
        Reader { state, at, space, overlay, options: ReadOptions::default() }
    }

    /// Returns a reader of the database as it was when `snapshot` was taken.
    pub(crate) fn at(snapshot: &'a Snapshot) -> Reader<'a> {
        Reader { at: Some(&snapshot.seq), ..Reader::now(snapshot.seq.state()) }
    }

    /// Returns this reader with `options`.
    #[inline]
    #[must_use]
    pub(crate) fn with(self, options: ReadOptions) -> Reader<'a> {
        Reader { options, ..self }
    }

    /// Returns this reader within the keyspace `space`.
    #[must_use]
    pub(crate) fn within(self, space: &'a Space) -> Reader<'a> {
        Reader { space, ..self }
    }

    /// Returns this reader under the writes of a transaction, which records what it reads.
    #[must_use]
    pub(crate) fn under(self, overlay: &'a Overlay) -> Reader<'a> {
        Reader { overlay: Some(overlay), ..self }
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

    /// Returns what a read sees that begins now.
    #[inline]
    pub(crate) fn point(&self) -> ReadPoint<'a> {
        let point = match self.at {
            None => ReadPoint::now(self.state),
            Some(held) => ReadPoint::at(held),
        };
        let log = self.overlay.filter(|_| self.options.track).map(|overlay| &overlay.log);
        let (options, space, overlay) = (self.options.blocks, self.space, self.overlay);
        ReadPoint { options, space, overlay, log, ..point }
    }

    /// Returns the approximate number of bytes that the data in `range` takes in table files and in
    /// memtables.
    pub(crate) fn approximate_size(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<u64> {
        let (view, order) = (self.state.view_owned(), self.state.order.user());
        let span = Span::within(self.space, range);
        let in_memory = view.memtables().map(|mem| mem.approximate_size(order, &span)).sum::<u64>();
        Ok(in_memory.saturating_add(self.size_in_tables(&view.version, &span)?))
    }

    /// Returns the approximate number of bytes that the data in `span` takes in table files.
    pub(crate) fn approximate_size_in_tables(&self, span: &Span) -> Result<u64> {
        self.size_in_tables(&self.state.view_owned().version, span)
    }

    fn size_in_tables(&self, version: &Version, span: &Span) -> Result<u64> {
        // Included and excluded bounds differ by one entry, which is less than the estimate's
        // error.
        let KeyRange { from, to } = span.closed();
        let key = |key: &[u8]| internal_key(key, MAX_SEQ_NO, KIND_FOR_SEEK);
        let start = from.map_or(Ok(0), |from| self.offset_of(version, &key(from)))?;
        let end = match to {
            None => version.total_bytes(),
            Some(to) => self.offset_of(version, &key(to))?,
        };
        Ok(end.saturating_sub(start))
    }

    /// Returns the approximate number of bytes that the data before an internal key takes in all
    /// table files.
    fn offset_of(&self, version: &Version, key: &[u8]) -> Result<u64> {
        let order = &self.state.order;
        let mut offset = 0_u64;
        for (_, file) in version.files() {
            let before = if order.compare(&file.largest, key).is_le() {
                file.file_bytes
            } else if order.compare(&file.smallest, key).is_lt() {
                self.state.tables.with(&file.slot, |table| table.approximate_offset_of(key))?
            } else {
                0
            };
            offset = offset.saturating_add(before);
        }
        Ok(offset)
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("sequence", &self.at.map(ReadSeq::sequence))
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
