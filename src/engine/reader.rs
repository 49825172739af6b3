//! Reading, the same for a database, a snapshot and a database opened for reading only: each is a
//! [`Reader`], which says at which moment it reads.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::stats::{NUM_LEVELS, ReadTrace};
use crate::base::{Error, Result};
use crate::engine::advice::{self, FilterAdvice};
use crate::engine::explain::{self, Explanation};
use crate::engine::get;
use crate::engine::iter::{Cursor, Iter};
use crate::engine::options::ReadOptions;
use crate::engine::version::{KeyRange, Version};
use crate::engine::view::{HeldSeq, ReadState, ReadView};
use crate::format::key::{KIND_FOR_SEEK, MAX_SEQ_NO, SeqNo, internal_key};

/// The database as it was at one moment.
///
/// It holds a sequence number: while it lives, compactions keep what it sees. Clones are cheap
/// and hold it together. It borrows nothing and may outlive every other handle.
#[derive(Clone, Debug)]
pub struct Snapshot {
    held: Arc<HeldSeq>,
}

impl Snapshot {
    pub(crate) fn now(state: &Arc<ReadState>) -> Snapshot {
        Snapshot { held: Arc::new(HeldSeq::now(state)) }
    }

    /// The sequence number of the last write it sees.
    pub fn sequence(&self) -> u64 {
        self.held.seq()
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { state: self.held.state(), at: Some(self.held.seq()) }
    }
}

/// Whose data is read, and as of when.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    state: &'a Arc<ReadState>,
    /// `None`: now.
    at: Option<SeqNo>,
}

impl<'a> Reader<'a> {
    /// Reads the newest of everything.
    pub fn now(state: &'a Arc<ReadState>) -> Reader<'a> {
        Reader { state, at: None }
    }

    /// The sequence to read at. To be asked for after the view was loaded.
    #[inline]
    fn seq(&self, options: &ReadOptions) -> Result<SeqNo> {
        match &options.snapshot {
            None => Ok(self.at.unwrap_or_else(|| self.state.visible_seq())),
            Some(snapshot) if Arc::ptr_eq(snapshot.held.state(), self.state) => {
                Ok(snapshot.held.seq())
            }
            Some(_) => Err(Error::invalid("the snapshot is of another database")),
        }
    }

    /// The value of `key`.
    pub fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<Bytes>> {
        let view = self.state.view();
        let seq = self.seq(options)?;
        get::counted_get(self.state, &view, seq, key, &options.block_options())
    }

    /// The value of `key`, and what finding it took.
    pub fn get_traced(
        &self,
        options: &ReadOptions,
        key: &[u8],
    ) -> Result<(Option<Bytes>, ReadTrace)> {
        let view = self.state.view();
        let seq = self.seq(options)?;
        let mut trace = ReadTrace::default();
        let options = &options.block_options();
        let value = get::traced_get(self.state, &view, seq, key, options, &mut trace)?;
        Ok((value, trace))
    }

    /// How a get of `key` goes.
    pub fn explain(&self, options: &ReadOptions, key: &[u8]) -> Result<Explanation> {
        let view = self.state.view();
        let seq = self.seq(options)?;
        explain::explain(self.state, &view, seq, key, &options.block_options())
    }

    /// Which filters the lookups want that the database saw.
    pub fn filter_advice(&self) -> Result<FilterAdvice> {
        let view = self.state.view_owned();
        let seq = self.at.unwrap_or_else(|| self.state.visible_seq());
        advice::filter_advice(self.state, &view, seq)
    }

    /// The values of `keys`, all as of one moment, in the order asked.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Result<Vec<Option<Bytes>>> {
        let view = self.state.view();
        let seq = self.seq(options)?;
        get::multi_get(self.state, &view, seq, keys, &options.block_options())
    }

    /// A cursor.
    pub fn cursor(&self, options: &ReadOptions) -> Result<Cursor> {
        let (view, seq) = self.moment(options)?;
        Cursor::new(self.state.clone(), view, seq, options.block_options(), None)
    }

    /// An iterator over a range.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        let (view, seq) = self.moment(options)?;
        Ok(Iter::new(self.state.clone(), view, seq, options.block_options(), range))
    }

    /// An iterator over the keys with a prefix, from a bound on.
    pub fn prefix(&self, options: &ReadOptions, prefix: &[u8], from: Bound<&[u8]>) -> Result<Iter> {
        let (view, seq) = self.moment(options)?;
        Iter::with_prefix(self.state.clone(), view, seq, options.block_options(), prefix, from)
    }

    fn moment(&self, options: &ReadOptions) -> Result<(Arc<ReadView>, SeqNo)> {
        let view = self.state.view_owned();
        let seq = self.seq(options)?;
        Ok((view, seq))
    }

    /// About how many bytes of table files hold the keys in `range`.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        let view = self.state.view_owned();
        // Whether a bound is in the range or just outside makes no difference that matters.
        let key = |bound: Bound<&K>| match bound {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => {
                Some(internal_key(key.as_ref(), MAX_SEQ_NO, KIND_FOR_SEEK))
            }
        };
        let from = key(range.start_bound());
        let to = key(range.end_bound());
        let start = from.map_or(Ok(0), |from| self.offset_of(&view.version, &from))?;
        let end = match to {
            None => (0..NUM_LEVELS).map(|level| view.version.level_bytes(level)).sum(),
            Some(to) => self.offset_of(&view.version, &to)?,
        };
        Ok(end.saturating_sub(start))
    }

    /// The bytes of all tables that lie before an internal key.
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

/// A range of keys as its first and last key. An excluded end counts as included: ranges given so
/// are only ever widened.
pub fn key_range<'a, K: AsRef<[u8]> + 'a>(range: &'a impl RangeBounds<K>) -> KeyRange<'a> {
    let key = |bound: Bound<&'a K>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key.as_ref()),
    };
    KeyRange { from: key(range.start_bound()), to: key(range.end_bound()) }
}
