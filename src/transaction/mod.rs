//! Transactions: reads at one moment, writes that are applied atomically, and a check at the
//! commit. The commit fails if a key or range that the transaction has read was written in the
//! meantime.
//!
//! The read path lays the writes over the database's entries
//! ([`own`](crate::engine::read::own)), and records what is read
//! ([`read_log`](crate::engine::read::read_log)). `retry` runs a transaction again after a
//! conflict.
//!
//! Apart from that, the engine knows only that a write may carry a check
//! ([`write::check`](crate::engine::write::check)).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::engine::options::WriteOptions;
use crate::engine::read::own::OwnWrites;
use crate::engine::read::point::Overlay;
use crate::engine::read::read_log::ReadLog;
use crate::engine::read::reader::Reader;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::write::check::{Check, Horizon};
use crate::engine::write::queue::Write;
use crate::format::batch::WriteBatch;

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
/// the entries that it sees, so it should be short. Drop its iterators and cursors before the next
/// write, which otherwise copies the transaction's writes, and before the commit.
/// `docs/transactions.md` says what is guaranteed, and what a transaction costs.
///
/// ```
/// # use minikv::{Db, Readable};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
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
    overlay: Overlay,
    options: WriteOptions,
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
    /// Returns a transaction that begins now, whose commit has `options`. `open` keeps the database
    /// open.
    pub(crate) fn begin(
        engine: Arc<Engine>,
        options: WriteOptions,
        open: Arc<dyn Any + Send + Sync>,
    ) -> Transaction {
        let (snapshot, horizon) = Horizon::begin(&engine.reads);
        let order = &engine.reads.order;
        let writes = OwnWrites::new(order.clone());
        let log = Arc::new(ReadLog::new(order.user().clone()));
        let (overlay, identity) = (Overlay { writes, log }, Arc::new(()));
        Transaction { snapshot, horizon, overlay, options, identity, engine, _open: open }
    }

    /// Returns the snapshot that the transaction reads. Reads made directly from the snapshot do
    /// not include the transaction's own writes, and the commit does not check these reads.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
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
        self.overlay.writes.write(key, value);
    }

    /// Sets a savepoint and returns it. [`rollback_to`](Self::rollback_to) undoes the writes since
    /// the savepoint.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
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
        Savepoint { transaction: self.identity.clone(), number: self.overlay.writes.savepoint() }
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
        match self.overlay.writes.rollback_to(savepoint.number) {
            true => Ok(()),
            false => Err(Error::invalid("the savepoint was rolled back")),
        }
    }

    /// Returns this transaction with `options` for its commit, like
    /// [`Db::writing`](crate::Db::writing).
    #[must_use]
    pub fn writing(self, options: WriteOptions) -> Transaction {
        Transaction { options, ..self }
    }

    /// Applies the writes atomically, even across a crash. They survive the end of the process,
    /// like those of [`Db::write`](crate::Db::write).
    ///
    /// A transaction without writes always succeeds, and syncs nothing. A transaction without reads
    /// never conflicts.
    ///
    /// # Errors
    /// - [`Error::Conflict`] if something that the transaction has read was written in the
    ///   meantime;
    /// - the errors of [`Db::write`](crate::Db::write), and errors of reading tables for the check.
    ///
    /// After an error nothing is written, unless the error is an I/O error of the log.
    pub fn commit(self) -> Result<()> {
        if self.overlay.writes.is_empty() {
            return Ok(());
        }
        let write = self.checked(self.overlay.writes.to_batch())?;
        self.engine.write(&self.options, write)
    }

    /// Returns a write of `batch`, with a check of the transaction's reads if the check is needed.
    fn checked(&self, batch: WriteBatch) -> Result<Write<'static>> {
        let reads = self.overlay.log.take();
        if reads.is_empty() {
            return Ok(Write::Batch(batch));
        }
        let mut check = Check::new(reads, self.horizon.clone());
        check.advance(&self.engine.reads)?;
        Ok(Write::Checked(batch, Arc::new(check)))
    }

    /// Returns a reader of the database as it was when the transaction began, with the
    /// transaction's own writes.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader::at(&self.snapshot).under(&self.overlay)
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("sequence", &self.snapshot.sequence())
            .field("writes", &self.overlay.writes.len())
            .finish_non_exhaustive()
    }
}
