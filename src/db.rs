//! The handles that a program uses: [`Db`], [`ReadOnlyDb`] and [`Snapshot`]. They have no logic of
//! their own; the work is done in `engine` and `transaction`.

use std::fmt;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::admin::backup::Backup;
use crate::admin::backup::take::take;
use crate::base::key_bounds::KeyBounds;
use crate::base::sync::{LockRank, Mutex};
use crate::base::{Error, Result};
use crate::bulk::sorted::{self, Ingested, SortedTable};
use crate::engine::Engine;
use crate::engine::compression::TableCompression;
use crate::engine::delete_range::DeletedRange;
use crate::engine::follow::changes::Changes;
use crate::engine::follow::poll::Follow;
use crate::engine::follow::{Followed, Refreshed};
use crate::engine::open::read_only;
use crate::engine::options::{Options, WriteOptions};
use crate::engine::read::iter::Iter;
use crate::engine::read::reader::Reader;
use crate::engine::read::reads::prefix_span;
use crate::engine::read::snapshot::Snapshot;
use crate::engine::report::health::Health;
use crate::engine::report::recovery::Recovery;
use crate::engine::report::stats::Stats;
use crate::engine::span::Span;
use crate::engine::stats::property;
use crate::engine::worker::Workers;
use crate::engine::write::queue::Write;
use crate::format::batch::WriteBatch;
use crate::readable::Readable;
use crate::transaction::{Transaction, retry};

/// An open database: an ordered map from byte strings to byte strings, in a directory.
///
/// Clones are cheap, share the database, and may be used from any thread. The database is closed
/// when the last clone is dropped. Its directory stays locked until the last snapshot, cursor and
/// iterator is dropped too.
///
/// ```
/// use minikv::{Db, Readable};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let db = Db::create(path)?;
/// db.put("capital/France", "Paris")?;
/// assert_eq!(db.get("capital/France")?.as_deref(), Some(&b"Paris"[..]));
/// for entry in db.prefix("capital/")? {
///     let (key, value) = entry?;
///     println!("{key:?} = {value:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<RunningEngine>,
    /// The options of the writes of this handle.
    options: WriteOptions,
}

struct RunningEngine {
    engine: Arc<Engine>,
    workers: Mutex<Workers>,
}

impl Drop for RunningEngine {
    fn drop(&mut self) {
        if self.engine.check_process().is_err() {
            // The end of the engine would cut its parent's logs and release its parent's lock.
            std::mem::forget(self.engine.clone());
            return;
        }
        self.workers.get_mut().stop(&self.engine);
        self.engine.end_observing();
    }
}

/// A database opened for reading only. The handle shows the database as it was when it was opened
/// or last refreshed ([`ReadOnlyDb::refresh`]), regardless of later writes. Clones are cheap and
/// share the state.
///
/// Neither opening nor reading changes the directory or takes its lock, so both work on a read-only
/// medium and while another process writes. Tables are held open, so that they stay readable after
/// a writer removes them. At most half of the file descriptors that the process may have
/// (`RLIMIT_NOFILE`) are used for this; [`ReadOnlyDb::unheld_tables`] returns the number of tables
/// beyond this limit.
#[derive(Clone)]
pub struct ReadOnlyDb {
    opened: Arc<Followed>,
}

impl Db {
    /// Opens the database in the directory `path` with the default options, and creates it if it
    /// does not exist.
    ///
    /// # Errors
    /// The same as for [`Db::open`], except that the database cannot be missing.
    pub fn create(path: impl AsRef<Path>) -> Result<Db> {
        Db::open(path, Options::default().create_if_missing(true))
    }

    /// Opens the database in the directory `path`, and replays its logs.
    ///
    /// # Errors
    /// - [`Error::DatabaseMissing`](crate::Error::DatabaseMissing) if the database does not exist,
    ///   unless [`Options::create_if_missing`] is on;
    /// - [`Error::DatabaseExists`](crate::Error::DatabaseExists) if the database exists and
    ///   [`Options::error_if_exists`] is on;
    /// - [`Error::Locked`](crate::Error::Locked) if the database is already open, in this or
    ///   another process;
    /// - [`Error::Unsupported`](crate::Error::Unsupported) if the database was created with another
    ///   comparator;
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) if an option has an invalid
    ///   value;
    /// - corruption and I/O errors.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        let engine = Engine::open(path.as_ref(), options)?;
        let workers = Mutex::ranked(LockRank::Workers, Workers::start(&engine)?);
        Ok(Db {
            inner: Arc::new(RunningEngine { engine, workers }),
            options: WriteOptions::default(),
        })
    }

    /// Opens the database in the directory `path` for reading only. Takes no lock.
    /// [`Options::create_if_missing`] and [`Options::error_if_exists`] have no effect.
    ///
    /// ```
    /// # use minikv::{Db, Options, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// let writer = Db::create(path)?;
    /// writer.put("seen", "1")?;
    /// let reader = Db::open_read_only(path, Options::default())?;
    /// writer.put("later", "1")?;
    /// assert!(reader.contains_key("seen")? && !reader.contains_key("later")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`Error::DatabaseMissing`](crate::Error::DatabaseMissing) if the database does not exist;
    /// - [`Error::Unsupported`](crate::Error::Unsupported) if the database was created with another
    ///   comparator;
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) if an option has an invalid
    ///   value;
    /// - corruption and I/O errors.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<ReadOnlyDb> {
        let opened = read_only::open(path.as_ref(), &options)?;
        Ok(ReadOnlyDb { opened: Arc::new(Followed::new(opened, options)?) })
    }

    /// Returns the absolute path of the database's directory.
    pub fn path(&self) -> &Path {
        &self.inner.engine.dir
    }

    /// Sets the value of `key`. The key and the value may each be up to 3 GiB - 1 byte
    /// (3,221,225,471 bytes) long, and either may be empty.
    ///
    /// # Errors
    /// - [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the key or the value is
    ///   longer;
    /// - an I/O error while writing or syncing the log. From then on every write fails with
    ///   [`Error::ReadOnly`](crate::Error::ReadOnly), until [`Db::resume`] succeeds. Reads do not
    ///   show the failed write, but it may be in the log: if the database is opened again without
    ///   a `resume` before, it may have happened;
    /// - [`Error::Closed`](crate::Error::Closed) after [`Db::close`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.engine.write(&self.options, Write::Put(key.as_ref(), value.as_ref()))
    }

    /// Deletes `key`. Succeeds even if `key` has no value.
    ///
    /// # Errors
    /// The same as for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.engine.write(&self.options, Write::Delete(key.as_ref()))
    }

    /// Applies the operations of `batch` in order and atomically: even after a crash, the database
    /// has either all of them or none.
    ///
    /// ```
    /// # use minikv::{Db, WriteBatch, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("alice", "70");
    /// batch.put("bob", "30");
    /// batch.delete("pending");
    /// db.writing(WriteOptions::default().sync(true)).write(batch)?;
    /// assert_eq!(db.get("bob")?.as_deref(), Some(&b"30"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`Db::put`].
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.inner.engine.write(&self.options, Write::Batch(batch))
    }

    /// Returns a handle of the same database whose writes have `options`, as have the writes of its
    /// keyspaces and transactions.
    ///
    /// ```
    /// # use minikv::{Db, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// db.put("draft", "1")?;
    /// let synced = db.writing(WriteOptions::default().sync(true));
    /// synced.put("order", "book")?; // and the draft before it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn writing(&self, options: WriteOptions) -> Db {
        Db { inner: self.inner.clone(), options }
    }

    /// Begins a transaction. Its reads show the database at the moment of this call, and the
    /// transaction's own writes. [`Transaction::commit`] applies the writes atomically if nothing
    /// that the transaction read has changed since this call. [`Db::transact`] runs a transaction
    /// again after a conflict.
    ///
    /// The transaction keeps the database open, like a clone of this handle.
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(self.inner.engine.clone(), self.options, self.inner.clone())
    }

    /// Runs `work` in a transaction and commits the transaction. After a conflict, runs `work`
    /// again in a new transaction, until a commit succeeds. Returns the result of the last call of
    /// `work`.
    ///
    /// Between two attempts, this method pauses for a random time of at most 10 ms. The number of
    /// attempts is not limited: each conflict means that another write succeeded, so some writer
    /// always makes progress. To give up, count the calls of `work` and return an error from it.
    ///
    /// ```
    /// # use minikv::{Db, Readable, Result};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// # let balance = |value: Option<minikv::Bytes>| -> u64 {
    /// #     value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
    /// # };
    /// db.put("alice", "100")?;
    /// let is_paid = db.transact(|tx| {
    ///     let (alice, bob) = (balance(tx.get("alice")?), balance(tx.get("bob")?));
    ///     if alice < 30 {
    ///         return Ok(false);
    ///     }
    ///     tx.put("alice", (alice - 30).to_string());
    ///     tx.put("bob", (bob + 30).to_string());
    ///     Ok(true)
    /// })?;
    /// assert!(is_paid);
    /// assert_eq!(db.get("alice")?.as_deref(), Some(&b"70"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that `work` returned, in which case nothing is written; errors of
    /// [`Transaction::commit`]. [`Error::Conflict`](crate::Error::Conflict) is never returned: if
    /// the commit conflicts, or `work` returns another transaction's conflict, `work` runs again.
    pub fn transact<T>(&self, work: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        retry::transact(|| self.transaction(), work)
    }

    /// Does the same as [`Db::transact`], for `work` that fails with an error type of the program's
    /// own. It is a method of its own because the compiler could not infer the error type of a
    /// closure that only uses `?`.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// #[derive(Debug)]
    /// enum PayError {
    ///     TooPoor,
    ///     Db(minikv::Error),
    /// }
    ///
    /// impl From<minikv::Error> for PayError {
    ///     fn from(error: minikv::Error) -> PayError {
    ///         PayError::Db(error)
    ///     }
    /// }
    ///
    /// let paid = db.try_transact(|tx| match tx.get("alice")? {
    ///     Some(_) => Ok(tx.put("alice", "0")),
    ///     None => Err(PayError::TooPoor),
    /// });
    /// assert!(matches!(paid, Err(PayError::TooPoor)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that `work` returned, in which case nothing is written; errors of
    /// [`Transaction::commit`] other than a conflict, after which `work` runs again. If `work`
    /// returns another transaction's conflict, it runs again only if its error is an
    /// [`Error`](crate::Error) or a box of one.
    pub fn try_transact<T, E: From<Error> + 'static>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        retry::transact(|| self.transaction(), work)
    }

    /// Replaces the value of `key` with the result of `change`, which is called with the current
    /// value. `None` stands for no value, both as argument and as result. The update is atomic: if
    /// another write changes the value in the meantime, `change` is called again with the new
    /// value. Returns the new value.
    ///
    /// ```
    /// # use minikv::Db;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// let count = |old: Option<&[u8]>| {
    ///     let old: u64 = old.map_or(0, |old| std::str::from_utf8(old).unwrap().parse().unwrap());
    ///     Some((old + 1).to_string())
    /// };
    /// db.update("visits", count)?;
    /// assert_eq!(db.update("visits", count)?.as_deref(), Some(&b"2"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Errors of [`Db::put`] and of [`Db::get`].
    pub fn update<V: Into<Bytes>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        let change = |old: Option<&[u8]>| Ok(change(old).map(Into::into));
        retry::update(|| self.transaction(), key.as_ref(), change)
    }

    /// Does the same as [`Db::update`], for a `change` that can fail. If it does, nothing is
    /// written.
    ///
    /// ```
    /// # use minikv::Db;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// type AnyError = Box<dyn std::error::Error + Send + Sync>;
    /// let add_one = |old: Option<&[u8]>| -> Result<Option<String>, AnyError> {
    ///     let old: u64 = old.map_or(Ok(0), |old| std::str::from_utf8(old).unwrap().parse())?;
    ///     Ok(Some((old + 1).to_string()))
    /// };
    /// assert_eq!(db.try_update("visits", add_one).unwrap().as_deref(), Some(&b"1"[..]));
    /// db.put("visits", "many")?;
    /// assert!(db.try_update("visits", add_one).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that `change` returned; errors of [`Db::put`] and of [`Db::get`].
    pub fn try_update<V: Into<Bytes>, E: From<Error> + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<V>, E>,
    ) -> Result<Option<Bytes>, E> {
        let change = |old: Option<&[u8]>| Ok(change(old)?.map(Into::into));
        retry::update(|| self.transaction(), key.as_ref(), change)
    }

    /// Makes all earlier writes durable, as if the last of them had been synced. Syncs nothing if
    /// all earlier writes are durable already. Threads that call this method at the same time share
    /// one sync of the log. Like a write, the call may wait for a flush.
    ///
    /// # Errors
    /// The same as for [`Db::put`].
    ///
    /// ```
    /// # use minikv::Db;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for n in 0..1000 {
    ///     db.put(format!("{n:04}"), "value")?;
    /// }
    /// db.sync()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.inner.engine.write(&WriteOptions { sync: true }, Write::Batch(WriteBatch::new()))
    }

    /// Returns the sequence number of the last write, or 0 if there is no write. Every put and
    /// every deletion takes one sequence number.
    pub fn sequence(&self) -> u64 {
        self.inner.engine.reads.visible_seq()
    }

    /// Returns an iterator over the batches that were committed after the sequence number
    /// `sequence`, in order, with their sequence numbers ([`WriteBatch::sequence`]). This is the
    /// counterpart of [`ReadOnlyDb::changes_since`] for the process that writes: the iterator
    /// yields a write once the write is acknowledged, whether or not it is synced. The iterator
    /// reads the logs that were kept ([`Options::keep_logs_bytes`], [`Options::keep_logs_for`]) and
    /// the logs that are not flushed yet. Its `next` returns `None` if there are no further writes
    /// yet; later calls may return more.
    ///
    /// Like an iterator over entries, the iterator keeps the database's directory locked.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// let options = Options::default().create_if_missing(true).keep_logs_bytes(64 << 20);
    /// let db = Db::open(dir.path(), options)?;
    /// db.put("price", "10")?;
    /// db.put("price", "12")?;
    /// db.flush()?;
    /// let mut changes = db.changes_since(1)?;
    /// assert_eq!(changes.next().unwrap()?.sequence(), 2);
    /// assert!(changes.next().is_none());
    /// db.delete("price")?;
    /// assert_eq!(changes.next().unwrap()?.sequence(), db.sequence());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`ReadOnlyDb::changes_since`].
    pub fn changes_since(&self, sequence: u64) -> Result<Changes> {
        Changes::of_engine(&self.inner.engine, sequence)
    }

    /// Returns a snapshot of the database as it is now, for later reads.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// db.put("price", "10")?;
    /// let before = db.snapshot();
    /// db.put("price", "12")?;
    /// assert_eq!(before.get("price")?.as_deref(), Some(&b"10"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.inner.engine.reads)
    }

    /// Writes everything in memory to tables, and returns when the tables are durable.
    ///
    /// # Errors
    /// The error that kept a table from being written. The table's entries remain in memory and in
    /// the log.
    pub fn flush(&self) -> Result<()> {
        self.inner.engine.check_caller()?;
        self.inner.engine.flush()
    }

    /// Compacts everything in `range` into one level. This frees the space of deleted and
    /// overwritten entries, except those that a snapshot needs. `..` means the whole database; an
    /// excluded bound is treated as included.
    ///
    /// ```
    /// # use minikv::Db;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// db.compact_range(..)?;
    /// db.compact_range("log/2023"..="log/2024")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that ended the compaction. No data is lost.
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.inner.engine.compact_range(Span::new(&range).closed())
    }

    /// Copies the current state of the database to the directory `dir`, which must be empty or
    /// missing. The copy is an independent database and is durable when this method returns.
    ///
    /// Tables are hard-linked, or copied if the filesystem cannot link them; logs are copied. Reads
    /// and writes continue during the call. A crash during the call leaves an incomplete copy,
    /// which cannot be opened.
    ///
    /// ```
    /// # use minikv::{Db, Options, Readable};
    /// # let home = tempfile::tempdir()?;
    /// # let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    /// let db = Db::create(&path)?;
    /// db.put("kept", "1")?;
    /// db.checkpoint(&copy)?;
    /// db.put("later", "1")?;
    /// let copied = Db::open(&copy, Options::default())?;
    /// assert!(copied.contains_key("kept")? && !copied.contains_key("later")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DatabaseExists`](crate::Error::DatabaseExists) and
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `dir` is not empty; I/O errors,
    /// after which the files that were created are removed again.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.inner.engine.checkpoint(dir.as_ref())
    }

    /// Adds a backup of the current state of the database to the folder `folder`, which is created
    /// if it is missing or empty. [`Backups`](crate::backup::Backups) lists, verifies and restores
    /// backups.
    ///
    /// Unlike a checkpoint, a backup shares no file with the database. The call reads all tables,
    /// and copies those that the previous backup does not contain. Reads and writes continue during
    /// the call. A crash during the call leaves the earlier backups as they were.
    ///
    /// ```
    /// # use minikv::backup::Backups;
    /// # use minikv::{Db, Options};
    /// # let home = tempfile::tempdir()?;
    /// # let (path, folder) = (home.path().join("db"), home.path().join("backups"));
    /// # let copy = home.path().join("copy");
    /// let db = Db::create(&path)?;
    /// db.put("kept", "1")?;
    /// db.backup(&folder)?;
    /// db.put("kept", "2")?;
    /// let second = db.backup(&folder)?;
    /// assert_eq!(second.number, 2);
    ///
    /// let backups = Backups::open(&folder, &Options::default())?;
    /// backups.restore(Some(1), &copy, |_| {})?;
    /// let copied = Db::open(&copy, Options::default())?;
    /// assert_eq!(copied.get("kept")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `folder` is neither empty nor a
    /// folder of backups; [`Error::Locked`](crate::Error::Locked) while another backup is being
    /// added to `folder`; I/O errors, after which `folder` holds the same backups as before.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<Backup> {
        let engine = &self.inner.engine;
        take(engine.source()?, folder.as_ref(), &engine.options, &mut |_| {})
    }

    /// Adds `tables` to the database atomically: reads show all entries of `tables` or none, and
    /// after a crash the database has all of the tables or none. When this method returns, the
    /// tables and everything written before are durable. The new entries replace existing entries
    /// with the same keys, but existing snapshots and iterators do not show them. The files of
    /// `tables` stay where they are.
    ///
    /// A new table is placed in the deepest level such that neither this level nor any level above
    /// it has a table with keys in the new table's range. If there is no such level, the new table
    /// is placed in level 0. Its file is hard-linked into the database, or copied if it is on
    /// another filesystem. The table is rewritten only in these cases:
    /// - the database holds newer writes, such as a table that was begun later and ingested first;
    /// - its sequence numbers are more than a day ahead of both the clock and the database;
    /// - it has another compression than the database's new tables, unless that compression was
    ///   chosen for its [`TableWriter`](crate::bulk::TableWriter).
    ///
    /// Writes wait while the tables are added, and while earlier writes are flushed.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if a table has another comparator than the
    /// database; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the ranges of two
    /// tables overlap; I/O errors. After an error the database has none of the tables, unless
    /// writing the MANIFEST failed: in that case the next open shows all of the tables or none.
    pub fn ingest(&self, tables: &[SortedTable]) -> Result<Ingested> {
        sorted::ingest(&self.inner.engine, tables)
    }

    /// Deletes all entries with keys in `range` as one write: reads show either all of these
    /// entries or none, and after a crash the database has either all of them or none. Existing
    /// snapshots, iterators and cursors still show the deleted entries. Returns counts of the work
    /// done.
    ///
    /// A range with few entries is deleted by a batch of deletions. In a larger range, tables that
    /// are entirely within the range are dropped whole, and only the keys in tables that straddle
    /// an end of the range are deleted one by one. The cost depends on the straddling tables, not
    /// on the number of entries, and the space is freed at once, except for entries that a snapshot
    /// or an iterator shows. The deletion of a larger range flushes everything written before,
    /// makes other writes wait until it is done, and is durable even without a sync.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for day in 1..=30 {
    ///     db.put(format!("log/2026-06-{day:02}"), "...")?;
    /// }
    /// db.delete_range("log/2026-06-01".."log/2026-06-11")?;
    /// assert_eq!(db.prefix("log/")?.count(), 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`Db::put`]; corruption and I/O errors of the tables that straddle the ends
    /// of the range. After an error the database has all of the entries, unless writing the
    /// MANIFEST failed: in that case the next open shows all of the entries or none.
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<DeletedRange> {
        self.inner.engine.delete_range(&self.options, &Span::new(&range))
    }

    /// Deletes all entries whose keys start with `prefix`, like [`delete_range`](Db::delete_range).
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// for name in ["user/ann", "user/bob", "visit/1"] {
    ///     db.put(name, "")?;
    /// }
    /// db.delete_prefix("user/")?;
    /// assert_eq!(db.count(..)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`delete_range`](Db::delete_range);
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the comparator is not byte
    /// order.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DeletedRange> {
        let order = self.inner.engine.reads.order.user();
        let span = prefix_span(order, prefix.as_ref(), Bound::Unbounded)?;
        self.inner.engine.delete_range(&self.options, &span)
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    /// The error that keeps a due flush or compaction from succeeding.
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.engine.wait_idle()
    }

    /// Returns which operations the database can serve at present, and the errors that restrict
    /// them.
    pub fn health(&self) -> Health {
        self.inner.engine.health()
    }

    /// Accepts writes again after an error has stopped writes: for example, once a full disk has
    /// space again. If nothing has stopped writes, retries failed background work at once.
    ///
    /// All acknowledged writes are still present. A write that failed is not present, and never
    /// will be.
    ///
    /// # Errors
    /// The error that still prevents writes; the database stays read-only.
    pub fn resume(&self) -> Result<()> {
        self.inner.engine.resume()
    }

    /// Returns counters of the work done since the database was opened, and the current sizes of
    /// its parts.
    pub fn stats(&self) -> Stats {
        self.inner.engine.stats()
    }

    /// Returns the report on the logs that were replayed when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.engine.recovery
    }

    /// Returns the compression of new tables, and that of the tables which the database had when it
    /// was opened. [`TableCompression::warning`] tells whether programs that read those cannot read
    /// the new ones.
    pub fn compression(&self) -> &TableCompression {
        self.inner.engine.table_compression()
    }

    /// Ends background work and syncs the log. A [`Db::compact_range`] in another thread is ended,
    /// too, with [`Error::Closed`](crate::Error::Closed). Afterwards, writes through other clones
    /// fail with this error. Dropping the last clone ends background work too, but does not sync.
    ///
    /// # Errors
    /// I/O errors of the log: the last writes may not be durable.
    pub fn close(self) -> Result<()> {
        let engine = &self.inner.engine;
        engine.check_process()?;
        engine.check_outside_thread()?;
        self.inner.workers.lock().stop(engine);
        engine.close()
    }

    /// Returns the value of `key`, or `None` if `key` has no value: see [`Readable::get`].
    ///
    /// # Errors
    /// Corruption and I/O errors. Damage is never reported as `None`.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.reader().point().get(key.as_ref())
    }

    /// Returns an iterator over all entries in key order: see [`Readable::iter`].
    pub fn iter(&self) -> Iter {
        Readable::iter(self)
    }

    /// Returns a property as text, as LevelDB's `GetProperty` does. Returns `None` for an unknown
    /// name.
    ///
    /// | name | value |
    /// | --- | --- |
    /// | `leveldb.num-files-at-level<N>` | number of tables at level N, 0 to 6 |
    /// | `leveldb.stats` | each level's size, and its compactions since the database was opened |
    /// | `leveldb.sstables` | the tables of each level, with their key ranges |
    /// | `leveldb.approximate-memory-usage` | bytes of memory in use |
    ///
    /// The memory in use consists of memtables, cached blocks, indexes and filters. The prefix
    /// `minikv.` may be used instead of `leveldb.`.
    pub fn property(&self, name: &str) -> Option<String> {
        let view = self.inner.engine.reads.view_owned();
        property::property(name, &self.stats(), &view.version)
    }
}

impl ReadOnlyDb {
    /// Returns counters of the work done since the database was opened, and the current sizes of
    /// its parts.
    pub fn stats(&self) -> Stats {
        let (state, view) = (&self.opened.state, self.opened.state.view_owned());
        state.load_all_expiry(&view.version);
        property::read_stats(state, &view)
    }

    /// Returns the report on the logs that were replayed when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.opened.recovery
    }

    /// Returns the number of tables that could not be held open. This number is 0 unless the number
    /// of tables exceeds half the number of file descriptors that the process may have. A table
    /// that is not held open is opened for each read. Once a writer has removed such a table, reads
    /// of the table fail with an error that says so.
    pub fn unheld_tables(&self) -> u64 {
        self.opened.unheld_tables()
    }

    /// Updates this handle and its clones to the current state of the files. Another process may be
    /// writing the files, with minikv, LevelDB or goleveldb. Existing iterators, cursors and
    /// snapshots keep their state.
    ///
    /// Reads only what was added to the MANIFEST and the logs, and lists the directory. Writes
    /// nothing and takes no lock; other threads can read during the call. Everything that the
    /// writer had acknowledged before the call is visible afterwards, and no batch is partly
    /// visible.
    ///
    /// ```
    /// # use minikv::{Db, Options, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// let writer = Db::create(path)?;
    /// let reader = Db::open_read_only(path, Options::default())?;
    /// writer.put("later", "1")?;
    /// assert!(!reader.contains_key("later")?);
    /// let refreshed = reader.refresh()?;
    /// assert!(refreshed.changed && reader.contains_key("later")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - the errors of [`Db::open_read_only`];
    /// - corruption of a log, even where opening the database would skip the damaged records and
    ///   report them in [`ReadOnlyDb::recovery`].
    ///
    /// After an error the handle shows the same state as before, and the next call tries again.
    pub fn refresh(&self) -> Result<Refreshed> {
        self.opened.refresh()
    }

    /// Returns an iterator that calls [`ReadOnlyDb::refresh`] every `poll_interval` and yields the
    /// result of the refresh whenever something has changed. The iterator sleeps between refreshes
    /// and never ends. After an error, which is also an item, the iterator continues.
    ///
    /// ```no_run
    /// # use minikv::{Db, Options, Readable};
    /// # use std::time::Duration;
    /// let db = Db::open_read_only("/var/lib/orders", Options::default())?;
    /// for refreshed in db.follow(Duration::from_millis(100)) {
    ///     println!("at {}: {:?}", refreshed?.sequence, db.last_key_value()?);
    /// }
    /// # Ok::<(), minikv::Error>(())
    /// ```
    pub fn follow(&self, poll_interval: Duration) -> Follow {
        Follow::new(self.opened.clone(), poll_interval)
    }

    /// Returns the sequence number of the last write that this handle shows, or 0 if it shows no
    /// write.
    pub fn sequence(&self) -> u64 {
        self.opened.sequence()
    }

    /// Returns an iterator over the batches that the writer committed after the sequence number
    /// `sequence`, in order, with their sequence numbers ([`WriteBatch::sequence`]). A batch may
    /// hold several writes that were written to the log as one record. The first batch may begin
    /// before `sequence`.
    ///
    /// The iterator reads the writer's logs. Its `next` returns `None` if there are no further
    /// writes yet; later calls may return more. Each time the iterator reaches the end, it
    /// refreshes this handle ([`ReadOnlyDb::refresh`]). A writer removes a log once the writes in
    /// the log are flushed and the log need not be kept ([`Options::keep_logs_bytes`],
    /// [`Options::keep_logs_for`]). If the writer keeps no logs, begin at [`ReadOnlyDb::sequence`],
    /// and call `next` again before the writer has filled two write buffers, which is a few
    /// megabytes.
    ///
    /// ```
    /// # use minikv::{BatchOp, Db, Options, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// let writer = Db::create(path)?;
    /// let reader = Db::open_read_only(path, Options::default())?;
    /// let mut changes = reader.changes_since(reader.sequence())?;
    /// assert!(changes.next().is_none());
    /// writer.put("price", "12")?;
    /// let batch = changes.next().unwrap()?;
    /// assert_eq!(batch.sequence(), 1);
    /// assert_eq!(batch.iter().next().unwrap()?, BatchOp::Put { key: b"price", value: b"12" });
    /// assert!(changes.next().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Corruption and I/O errors. Later errors are items of the iterator, which yields the same
    /// error from then on. One possible error is [`Error::ChangesLost`](crate::Error::ChangesLost):
    /// changes are never left out silently. This is also the error for a `sequence` that the
    /// database has not reached, which means that writes were lost.
    pub fn changes_since(&self, sequence: u64) -> Result<Changes> {
        Changes::of_followed(self.opened.clone(), sequence)
    }

    /// Returns a snapshot of the database as this handle shows it now. The snapshot does not change
    /// after a [`ReadOnlyDb::refresh`], and it holds open the tables that the handle shows now. Its
    /// reads do not count in [`ReadOnlyDb::stats`].
    pub fn snapshot(&self) -> Snapshot {
        self.opened.snapshot()
    }

    /// Returns a property as text, like [`Db::property`].
    pub fn property(&self, name: &str) -> Option<String> {
        property::property(name, &self.stats(), &self.opened.state.view_owned().version)
    }
}

impl Readable for Db {
    #[inline]
    fn reader(&self) -> Reader<'_> {
        Reader::now(&self.inner.engine.reads)
    }
}

impl Readable for ReadOnlyDb {
    #[inline]
    fn reader(&self) -> Reader<'_> {
        Reader::now(&self.opened.state)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish()
    }
}

impl fmt::Debug for ReadOnlyDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOnlyDb").field("path", &self.opened.dir()).finish()
    }
}

#[cfg(test)]
mod transcripts;
