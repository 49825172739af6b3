//! Transactions: reads at one moment, writes that are applied atomically, and a check at the
//! commit. The commit fails if a key or range that the transaction has read was written in the
//! meantime.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `own` | the writes of a transaction, and its savepoints |
//! | `reads` | the record of what a transaction has read |
//! | `merged` | a walk over the database and the transaction's own writes |
//! | `cursor`, `iter` | the public cursor and iterator, which record the ranges that they pass |
//! | `retry` | running a transaction again after a conflict |
//!
//! The engine knows nothing of transactions except that a write may carry a check
//! ([`write::check`](crate::engine::write::check)).

use std::any::Any;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::clock::Clock;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::options::{ReadOptions, WriteOptions};
use crate::engine::read::iter::{IterSource, prefix_bounds};
use crate::engine::read::reader::Reader;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::span::Span;
use crate::engine::write::check::{Check, Horizon};
use crate::engine::write::queue::Write;
use crate::format::batch::WriteBatch;
use crate::transaction::cursor::TransactionCursor;
use crate::transaction::iter::TransactionIter;
use crate::transaction::merged::MergedCursor;
use crate::transaction::own::OwnWrites;
use crate::transaction::reads::{ReadLog, Walk};

pub(crate) mod cursor;
pub(crate) mod iter;
mod merged;
mod own;
mod reads;
pub(crate) mod retry;

/// A transaction: reads and writes that have the same effect as if nothing else had happened
/// between the first and the last of them.
///
/// The reads show the database as it was when the transaction began, and the transaction's own
/// writes. The writes are in memory until [`commit`](Transaction::commit) applies all of them at
/// once. If a key that the transaction has read was written in the meantime, or a key was added to
/// or removed from a range that it has read, the commit fails with [`Error::Conflict`] and nothing
/// is written. So committed transactions are *serializable*: they could have run one after the
/// other. Dropping a transaction drops its writes.
///
/// A transaction holds no lock, and nobody waits for it. Like a snapshot, it makes compactions keep
/// the entries that it sees, so it should be short. Its iterators and cursors borrow the
/// transaction, so they must be dropped before the next write. `docs/transactions.md` says what is
/// guaranteed, and what a transaction costs.
///
/// ```
/// # use minikv::{Db, Options};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
/// db.put("seat/12", "free")?;
/// let mut ann = db.transaction();
/// let mut bob = db.transaction();
/// for (tx, name) in [(&mut ann, "ann"), (&mut bob, "bob")] {
///     assert_eq!(tx.get("seat/12")?.as_deref(), Some(&b"free"[..]));
///     tx.put("seat/12", name);
/// }
/// ann.commit()?;
/// let error = bob.commit().unwrap_err();
/// assert!(error.is_conflict());
/// assert_eq!(db.get("seat/12")?.as_deref(), Some(&b"ann"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transaction {
    engine: Arc<Engine>,
    snapshot: Snapshot,
    horizon: Horizon,
    own: OwnWrites,
    reads: ReadLog,
    /// Distinguishes the savepoints of this transaction from those of others.
    identity: Arc<()>,
    /// Keeps the database open.
    _open: Arc<dyn Any + Send + Sync>,
}

/// A point to which a transaction can be rolled back, set by [`Transaction::savepoint`].
#[derive(Clone, Debug)]
pub struct Savepoint {
    transaction: Arc<()>,
    number: u64,
}

impl Transaction {
    /// Returns a transaction that begins now. `open` keeps the database open.
    pub(crate) fn begin(engine: Arc<Engine>, open: Arc<dyn Any + Send + Sync>) -> Transaction {
        let (snapshot, horizon) = Horizon::begin(&engine.reads);
        let order = engine.reads.order.user().clone();
        Transaction {
            snapshot,
            horizon,
            own: OwnWrites::new(order.clone()),
            reads: ReadLog::new(order),
            identity: Arc::new(()),
            engine,
            _open: open,
        }
    }

    /// Returns the snapshot that the transaction reads. Reads made directly from the snapshot do
    /// not include the transaction's own writes, and the commit does not check these reads.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the value of `key`, or `None` if `key` has no value.
    ///
    /// # Errors
    /// Corruption and I/O errors, as [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        if let Some(own) = self.own.get(key) {
            return Ok(own.value.cloned());
        }
        self.reads.read_key(key);
        self.base().get(&ReadOptions::default(), key)
    }

    /// Like [`get`](Self::get), but the commit does not check the read: the commit may succeed
    /// although the value has changed. Use this method only for values that do not affect what the
    /// transaction writes.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_untracked(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = key.as_ref();
        match self.own.get(key) {
            Some(own) => Ok(own.value.cloned()),
            None => self.base().get(&ReadOptions::default(), key),
        }
    }

    /// Returns the values of `keys`, in the order of `keys`.
    ///
    /// # Errors
    /// As [`get`](Self::get). If any key fails, only the first error is returned.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let is_own = |key: &&K| self.own.get(key.as_ref()).is_some();
        let others: Vec<&K> = keys.iter().filter(|key| !is_own(key)).collect();
        others.iter().for_each(|key| self.reads.read_key(key.as_ref()));
        let mut others = self.base().multi_get(&ReadOptions::default(), &others)?.into_iter();
        let value = |key: &K| match self.own.get(key.as_ref()) {
            Some(own) => own.value.cloned(),
            None => others.next().flatten(),
        };
        Ok(keys.iter().map(value).collect())
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns an iterator over all entries in key order. It can be used from both ends.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter): a read error is an item of the iterator, which ends after
    /// that item.
    pub fn iter(&self) -> Result<TransactionIter<'_>> {
        self.range::<&[u8]>(..)
    }

    /// Returns an iterator over the entries whose keys are in `range`.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<TransactionIter<'_>> {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let span = Span { from: own(range.start_bound()), to: own(range.end_bound()) };
        self.walk_over(span, b"")
    }

    /// Returns an iterator over the entries whose keys start with `prefix`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the database has a comparator other than byte order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIter<'_>> {
        let prefix = prefix.as_ref();
        let (from, to) = prefix_bounds(self.own.order(), prefix, Bound::Unbounded)?;
        self.walk_over(Span { from, to }, prefix)
    }

    /// Returns the entry with the first key in order, or `None` if there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter()?.next().transpose()
    }

    /// Returns the entry with the last key in order, or `None` if there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
        self.iter()?.next_back().transpose()
    }

    /// Returns whether there is no entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first_key_value()?.is_none())
    }

    /// Returns a cursor. It is at no entry until it is first moved.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables of level 0, which this method opens.
    pub fn cursor(&self) -> Result<TransactionCursor<'_>> {
        let base = self.base().cursor(&ReadOptions::default())?;
        let merged = MergedCursor::new(base, &self.own);
        Ok(TransactionCursor::new(merged, Walk::new(&self.reads)))
    }

    /// Sets the value of `key` when the transaction is committed.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.write(key.as_ref(), Some(Bytes::copy_from_slice(value.as_ref())));
    }

    /// Deletes `key` when the transaction is committed. The key need not have a value.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.write(key.as_ref(), None);
    }

    fn write(&mut self, key: &[u8], value: Option<Bytes>) {
        self.own.write(key, value);
    }

    /// Sets a savepoint and returns it. [`rollback_to`](Self::rollback_to) undoes the writes since
    /// the savepoint.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let mut tx = db.transaction();
    /// tx.put("order", "book");
    /// let savepoint = tx.savepoint();
    /// tx.put("gift", "yes");
    /// tx.rollback_to(&savepoint)?;
    /// tx.commit()?;
    /// assert!(db.contains_key("order")? && !db.contains_key("gift")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        Savepoint { transaction: self.identity.clone(), number: self.own.savepoint() }
    }

    /// Drops the writes since `savepoint`. The savepoint stays valid, but later savepoints do not.
    /// Reads since the savepoint are still checked at the commit.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the savepoint belongs to another transaction, or if the
    /// transaction has since rolled back to an earlier savepoint.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if !Arc::ptr_eq(&savepoint.transaction, &self.identity) {
            return Err(Error::invalid("the savepoint belongs to another transaction"));
        }
        match self.own.rollback_to(savepoint.number) {
            true => Ok(()),
            false => Err(Error::invalid("the savepoint was rolled back")),
        }
    }

    /// Applies the writes atomically, even across a crash. They survive the end of the process,
    /// like those of [`Db::write`](crate::Db::write).
    ///
    /// A transaction without writes always succeeds, and a transaction without reads never
    /// conflicts.
    ///
    /// # Errors
    /// - [`Error::Conflict`] if something that the transaction has read was written in the
    ///   meantime;
    /// - the errors of [`Db::write`](crate::Db::write), and errors of reading tables for the check.
    ///
    /// After an error nothing is written, unless the error is an I/O error of the log.
    pub fn commit(self) -> Result<()> {
        self.commit_with(&WriteOptions::default())
    }

    /// Like [`commit`](Self::commit), with options. With `sync`, the writes survive a loss of
    /// power, and so does everything that was committed before.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(mut self, options: &WriteOptions) -> Result<()> {
        if self.own.is_empty() && !options.sync {
            return Ok(());
        }
        let batch = self.own.to_batch();
        let write = self.checked(batch)?;
        self.engine.write(options, write)
    }

    /// Returns a write of `batch`, with a check of the transaction's reads if the check is needed.
    fn checked(&mut self, batch: WriteBatch) -> Result<Write<'static>> {
        let reads = self.reads.take();
        if batch.is_empty() || reads.is_empty() {
            return Ok(Write::Batch(batch));
        }
        let mut check = Check::new(reads, self.horizon.clone());
        check.advance(&self.engine.reads)?;
        Ok(Write::Checked(batch, Arc::new(check)))
    }

    /// Returns the clock that decides which entries have expired.
    pub(crate) fn clock(&self) -> &Clock {
        &self.engine.reads.clock
    }

    /// Returns a reader of the database as it was when the transaction began.
    fn base(&self) -> Reader<'_> {
        Reader::at(&self.snapshot)
    }

    fn walk_over(&self, span: Span, start: &[u8]) -> Result<TransactionIter<'_>> {
        let options = ReadOptions::default();
        let point = self.base().point(&options)?.into_owned();
        let range = (span.from.as_ref().map(Vec::as_slice), span.to.as_ref().map(Vec::as_slice));
        let source = IterSource::new(point, range, start);
        Ok(TransactionIter::new(source, span, &self.own, Walk::new(&self.reads)))
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("sequence", &self.snapshot.sequence())
            .field("writes", &self.own.len())
            .finish_non_exhaustive()
    }
}
