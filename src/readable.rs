//! The reads, which are the same for everything that can be read.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::Result;
use crate::base::key_bounds::KeyBounds;
use crate::engine::options::ReadOptions;
use crate::engine::read::cursor::Cursor;
use crate::engine::read::iter::Iter;
use crate::engine::read::reader::Reader;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::stats::sample::ReadSample;
use crate::engine::stats::trace::ReadTrace;
use crate::explain::{self, Explanation};
use crate::transaction::Transaction;

/// Everything that can be read: a [`Db`](crate::Db), a [`ReadOnlyDb`](crate::ReadOnlyDb), a
/// [`Snapshot`], a [`Transaction`], a [`Keyspace`](crate::Keyspace) of any of them, and a
/// [`Reader`] with options.
///
/// Reads of a database each see its newest state. Reads of a [`Transaction`] see the database as it
/// was when the transaction began, with the transaction's own writes, and the commit checks them.
/// Reads of a keyspace see only its keys, without the keyspace's prefix, and no entries that have
/// expired.
///
/// ```
/// use minikv::{Db, ReadOptions, Readable, Result};
///
/// /// Returns the name of the user with this number, from anything that can be read.
/// fn name(users: &impl Readable, number: u32) -> Result<Option<String>> {
///     let name = users.get(number.to_be_bytes())?;
///     Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
/// }
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::create(dir.path())?;
/// db.put(7u32.to_be_bytes(), "Ann")?;
/// let before = db.snapshot();
/// db.put(7u32.to_be_bytes(), "Anna")?;
/// assert_eq!(name(&db, 7)?.as_deref(), Some("Anna"));
/// assert_eq!(name(&before, 7)?.as_deref(), Some("Ann"));
///
/// // A long scan should not evict the blocks that gets need.
/// assert_eq!(db.reading(ReadOptions::default().fill_cache(false)).iter().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Readable {
    /// Returns a reader of this with the default options. A type of your own that wraps something
    /// readable returns the reader of what it wraps.
    fn reader(&self) -> Reader<'_>;

    /// Returns a reader of this with `options`, which has the same reads.
    fn reading(&self, options: ReadOptions) -> Reader<'_> {
        self.reader().with(options)
    }

    /// Returns the value of `key`, or `None` if `key` has no value.
    ///
    /// A value from a table is a copy if it is at most 1 KiB long. A longer value shares the memory
    /// of its block, and a value from a memtable shares memory of the memtable: copy a value that
    /// is kept for a long time.
    ///
    /// # Errors
    /// Corruption and I/O errors. Damage is never reported as `None`.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.reader().point().get(key.as_ref())
    }

    /// Returns the values of `keys`, in the order of `keys`. All values are from the same moment.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// db.put("b", "2")?;
    /// let values = db.multi_get(&["b", "a"])?;
    /// assert_eq!(values[0].as_deref(), Some(&b"2"[..]));
    /// assert_eq!(values[1], None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get). If any key fails, only the first error is returned.
    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        self.reader().point().multi_get(keys)
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns an iterator over all entries in key order. It can also be used from the back, with
    /// `next_back` or `rev`. A read error is an item of the iterator, which ends after that item.
    fn iter(&self) -> Iter {
        self.range(..)
    }

    /// Returns an iterator over the entries whose keys are in `range`.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for day in ["01", "02", "03", "04"] {
    ///     db.put(day, "")?;
    /// }
    /// assert_eq!(db.range("02".."04").count(), 2);
    /// assert_eq!(db.range("02"..).next_back().unwrap()?.0, "04");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn range(&self, range: impl KeyBounds) -> Iter {
        self.reader().point().range(range.key_bounds())
    }

    /// Returns an iterator over the entries whose keys start with `prefix`. If the tables have
    /// prefix filters ([`Options::filter_prefix`](crate::Options::filter_prefix)), the iterator
    /// uses them to skip tables.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the comparator is not byte
    /// order.
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.prefix_from(prefix, Bound::<&[u8]>::Unbounded)
    }

    /// Returns an iterator over the entries whose keys start with `prefix` and are not before the
    /// lower bound `from`. To get the next page of a long listing, pass the last key of the
    /// previous page as an excluded bound. If the bound is after all keys with the prefix, the
    /// iterator is empty.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # use std::ops::Bound;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for name in ["user/ann", "user/bob", "user/cid", "visit/1"] {
    ///     db.put(name, "")?;
    /// }
    /// let rest = db.prefix_from("user/", Bound::Excluded("user/ann"))?;
    /// assert_eq!(rest.count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`prefix`](Self::prefix).
    fn prefix_from<K: AsRef<[u8]>>(
        &self,
        prefix: impl AsRef<[u8]>,
        from: Bound<K>,
    ) -> Result<Iter> {
        let from = from.as_ref().map(AsRef::as_ref);
        self.reader().point().prefix(prefix.as_ref(), from)
    }

    /// Returns the entry with the first key in order, or `None` if there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter().next().transpose()
    }

    /// Returns the entry with the last key in order, or `None` if there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter().next_back().transpose()
    }

    /// Returns whether there is no entry. There is no `len`, because counting the entries would
    /// read all of them.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn is_empty(&self) -> Result<bool> {
        Ok(self.first_key_value()?.is_none())
    }

    /// Returns the number of entries whose keys are in `range`. Walks over the entries, but copies
    /// neither keys nor values.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for day in ["01", "02", "03"] {
    ///     db.put(day, "")?;
    /// }
    /// assert_eq!((db.count("02"..)?, db.count(..)?), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Corruption and I/O errors.
    fn count(&self, range: impl KeyBounds) -> Result<u64> {
        self.range(range).count_entries()
    }

    /// Returns a cursor, which is at no entry until it is first moved.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables of level 0, which this method opens.
    fn cursor(&self) -> Result<Cursor> {
        self.reader().point().cursor()
    }

    /// Returns the value of `key`, and counts of the work done to find the value. The work is
    /// nothing if the key was written by the transaction that reads.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// db.put("apple", "red")?;
    /// db.put("cherry", "dark red")?;
    /// db.flush()?;
    /// let (value, trace) = db.get_traced("banana")?;
    /// assert_eq!(value, None);
    /// // The key is in the table's range, but its filter rules it out: no block is read.
    /// let total = trace.total();
    /// assert_eq!((total.filter_checks, total.filter_negatives), (1, 1));
    /// assert_eq!(trace.data_blocks(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, ReadTrace)> {
        self.reader().point().get_traced(key.as_ref())
    }

    /// Gets `key` from the database and returns a step-by-step explanation: what was searched in
    /// which order, what filters answered and whether the answers were right, and the cost of the
    /// same get without filters.
    ///
    /// This method does two gets, one of them without filters. Both count in the statistics. The
    /// get without filters adds nothing to the block cache. The explanation shows keys as the
    /// database stores them, with a keyspace's prefix. If the entry has expired, the value is
    /// `None`, although a step found the entry. The writes of a transaction are not looked at, and
    /// its commit does not check the gets.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        explain::explain(self.reader().point(), key.as_ref())
    }

    /// Returns approximately how many bytes the entries in `range` take in the table files and,
    /// before they are flushed, in memory. Overwritten and deleted entries count as long as they
    /// are stored. A memtable with many entries is sampled. Measures the current tables and
    /// memtables, even on a snapshot.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables that contain the bounds.
    fn approximate_size(&self, range: impl KeyBounds) -> Result<u64> {
        self.reader().approximate_size(range.key_bounds())
    }
}

impl ReadSample {
    /// Returns the sample that was given to
    /// [`Options::sample_reads`](crate::Options::sample_reads) when `db` was opened, if there was
    /// one.
    pub fn of(db: &impl Readable) -> Option<ReadSample> {
        db.reader().state().sample.clone()
    }
}

impl Readable for Snapshot {
    fn reader(&self) -> Reader<'_> {
        Reader::at(self)
    }
}

impl Readable for Transaction {
    fn reader(&self) -> Reader<'_> {
        Transaction::reader(self)
    }
}

impl Readable for Reader<'_> {
    fn reader(&self) -> Reader<'_> {
        *self
    }
}

impl<R: Readable> Readable for &R {
    fn reader(&self) -> Reader<'_> {
        (**self).reader()
    }
}
