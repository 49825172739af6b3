//! The handles a program holds. No logic: what they do is in `engine`.

use std::ops::{Bound, RangeBounds};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::advice::{self, FilterAdvice};
use crate::base::Result;
use crate::base::sync::{LockRank, Mutex};
use crate::engine::Engine;
use crate::engine::health::Health;
use crate::engine::open::read_only::{self, Opened};
use crate::engine::open::replay::Recovery;
use crate::engine::options::{Options, ReadOptions, WriteOptions};
pub use crate::engine::read::iter::{Cursor, Iter};
use crate::engine::read::reader::{Reader, key_range};
pub use crate::engine::read::snapshot::Snapshot;
use crate::engine::stats::property::{self, Stats};
use crate::engine::stats::trace::ReadTrace;
use crate::engine::worker::Workers;
use crate::engine::write::queue::Write;
use crate::explain::{self, Explanation};
use crate::format::batch::WriteBatch;

/// An open database: an ordered map from byte strings to byte strings, in a directory.
///
/// Cheap to clone, and every clone may be used from any thread. The database is closed when the
/// last clone is dropped; its directory stays locked until the last snapshot, cursor and iterator
/// is gone too.
///
/// ```
/// use minikv::{Db, Options};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let db = Db::open(path, Options::default().create_if_missing(true))?;
/// db.put("capital/France", "Paris")?;
/// assert_eq!(db.get("capital/France")?.as_deref(), Some(&b"Paris"[..]));
/// for entry in db.prefix("capital/")? {
///     let (key, value) = entry?;
///     println!("{key:?} = {value:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Arc<Engine>,
    workers: Mutex<Workers>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.workers.get_mut().stop(&self.engine);
    }
}

/// A database opened for reading only: as it was at that moment, whatever a writer does since.
///
/// Opening and reading touch nothing in the directory, not even its lock, so it works on a
/// read-only medium and beside a process that writes. The tables are held open, so that a writer
/// may remove them: as many as half of the file descriptors that the process may have
/// (`RLIMIT_NOFILE`). Of more, [`ReadOnlyDb::unheld_tables`] says how many are not.
#[derive(Clone, Debug)]
pub struct ReadOnlyDb {
    opened: Arc<Opened>,
}

impl Db {
    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// [`Error::DatabaseMissing`](crate::Error::DatabaseMissing) unless `create_if_missing` is on,
    /// [`Error::DatabaseExists`](crate::Error::DatabaseExists) if `error_if_exists` is,
    /// [`Error::Locked`](crate::Error::Locked) if it is open elsewhere,
    /// [`Error::Unsupported`](crate::Error::Unsupported) if it was made with another comparator,
    /// corruption and I/O errors.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        let engine = Engine::open(path.as_ref(), options)?;
        let workers = Mutex::ranked(LockRank::Workers, Workers::start(&engine)?);
        Ok(Db { inner: Arc::new(Inner { engine, workers }) })
    }

    /// Opens the database in the directory `path` for reading only.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path();
    /// let writer = Db::open(path, Options::default().create_if_missing(true))?;
    /// writer.put("seen", "1")?;
    /// let reader = Db::open_read_only(path, Options::default())?;
    /// writer.put("later", "1")?;
    /// assert!(reader.contains_key("seen")? && !reader.contains_key("later")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::open`], but for the lock: there is none.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<ReadOnlyDb> {
        Ok(ReadOnlyDb { opened: Arc::new(read_only::open(path.as_ref(), &options)?) })
    }

    /// The directory the database is in.
    pub fn path(&self) -> &Path {
        &self.inner.engine.dir
    }

    /// Sets the value of `key`. Both may be empty, and have up to 3 GiB (3,221,225,471 bytes) each.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if one is longer than that, I/O
    /// errors of the log, and [`Error::ReadOnly`](crate::Error::ReadOnly) after one, until
    /// [`Db::resume`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(&WriteOptions::default(), key, value)
    }

    /// [`Db::put`], with options.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put_with(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.inner.engine.write(options, Write::Put(key.as_ref(), value.as_ref()))
    }

    /// Deletes `key`. It need not be there.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(&WriteOptions::default(), key)
    }

    /// [`Db::delete`], with options.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_with(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.engine.write(options, Write::Delete(key.as_ref()))
    }

    /// Applies the operations of `batch` in their order, all or none.
    ///
    /// ```
    /// # use minikv::{Db, Options, WriteBatch, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("alice", "70");
    /// batch.put("bob", "30");
    /// batch.delete("pending");
    /// db.write_with(&WriteOptions::default().sync(true), batch)?;
    /// assert_eq!(db.get("bob")?.as_deref(), Some(&b"30"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(&WriteOptions::default(), batch)
    }

    /// [`Db::write`], with options.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn write_with(&self, options: &WriteOptions, batch: WriteBatch) -> Result<()> {
        self.inner.engine.write(options, Write::Batch(batch))
    }

    /// The database as it is now, to read from later.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// db.put("price", "10")?;
    /// let before = db.snapshot();
    /// db.put("price", "12")?;
    /// assert_eq!(before.get("price")?.as_deref(), Some(&b"10"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.inner.engine.reads)
    }

    /// Writes what is in memory into a table, and waits for it.
    ///
    /// # Errors
    /// What kept the table from being written.
    pub fn flush(&self) -> Result<()> {
        self.inner.engine.flush()
    }

    /// Compacts everything in `range` into one level: deleted and overwritten entries that no
    /// snapshot holds give their space back. `..` is everything. Ends count as within.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// db.compact_range::<&str>(..)?;
    /// db.compact_range("log/2023"..="log/2024")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What kept it from being done; nothing is lost.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.inner.engine.compact_range(key_range(&range))
    }

    /// Makes a copy of the database as it is at this moment in the directory `dir`, which must be
    /// empty or not there: a database of its own, durable when this returns.
    ///
    /// Tables are not copied but get a second name there (a hard link), unless the filesystem
    /// cannot; logs are copied. Reads and writes go on meanwhile. Cut short by a crash, it leaves
    /// a directory that no open takes for a database.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let home = tempfile::tempdir()?;
    /// # let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    /// let db = Db::open(&path, Options::default().create_if_missing(true))?;
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
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is something in `dir`;
    /// I/O errors, after which what was made is removed again.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.inner.engine.checkpoint(dir.as_ref())
    }

    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    /// What keeps one that is due from being done.
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.engine.wait_idle()
    }

    /// What the database can do at this moment, and why not more.
    pub fn health(&self) -> Health {
        self.inner.engine.health()
    }

    /// Takes writes again after trouble made it stop: a full disk that has space again, say.
    /// With nothing wrong, what failed in the background is tried again at once.
    ///
    /// Every acknowledged write is still there; a write that failed is not, and never will be.
    ///
    /// # Errors
    /// What still keeps it from writing; it stays as it was.
    pub fn resume(&self) -> Result<()> {
        self.inner.engine.resume()
    }

    /// The counters since the database was opened.
    pub fn stats(&self) -> Stats {
        self.inner.engine.stats()
    }

    /// What recovery found when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.engine.recovery
    }

    /// Ends background work, syncs the log, and says if that failed. Other clones get
    /// [`Error::Closed`](crate::Error::Closed) for writes from then on. Dropping the last clone
    /// ends background work too, but does not sync.
    ///
    /// # Errors
    /// I/O errors of the log.
    pub fn close(self) -> Result<()> {
        self.inner.workers.lock().stop(&self.inner.engine);
        self.inner.engine.close()
    }

    /// About how many bytes of table files hold the keys in `range`. What is in memory only does
    /// not count.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables at the ends.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.reader().approximate_size(range)
    }

    /// A property, as text: `leveldb.num-files-at-level<N>`, `leveldb.stats`, `leveldb.sstables`,
    /// `leveldb.approximate-memory-usage`. `None` for an unknown name.
    pub fn property(&self, name: &str) -> Option<String> {
        let view = self.inner.engine.reads.view_owned();
        property::property(name, &self.stats(), &view.version)
    }

    fn reader(&self) -> Reader<'_> {
        Reader::now(&self.inner.engine.reads)
    }
}

impl ReadOnlyDb {
    /// The counters since the database was opened.
    pub fn stats(&self) -> Stats {
        property::read_stats(&self.opened.state, &self.opened.state.view_owned())
    }

    /// What recovery found in the logs.
    pub fn recovery(&self) -> &Recovery {
        &self.opened.recovery
    }

    /// Number of tables that could not be held open: 0, unless there are more than half of the file
    /// descriptors that the process may have. They are opened for each read, and once a writer has
    /// removed one, reads of it are errors that say so.
    pub fn unheld_tables(&self) -> u64 {
        self.opened.unheld_tables
    }

    /// See [`Db::approximate_size`].
    ///
    /// # Errors
    /// As there.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.reader().approximate_size(range)
    }

    /// See [`Db::property`].
    pub fn property(&self, name: &str) -> Option<String> {
        property::property(name, &self.stats(), &self.opened.state.view_owned().version)
    }

    fn reader(&self) -> Reader<'_> {
        Reader::now(&self.opened.state)
    }
}

impl Snapshot {
    fn reader(&self) -> Reader<'_> {
        Reader::at(self)
    }
}

/// The reads that all three handles have.
macro_rules! reads {
    ($handle:ty) => {
        impl $handle {
            /// The value of `key`, if it has one.
            ///
            /// A value of more than 1 KiB shares, and keeps alive, the block it is in, and one
            /// from a memtable a piece of that: copy what is kept for long. Shorter ones from
            /// tables are copies.
            ///
            /// # Errors
            /// Corruption and I/O errors. Damage is never reported as "no value".
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
                self.get_with(&ReadOptions::default(), key)
            }

            /// [`get`](Self::get), with options.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn get_with(
                &self,
                options: &ReadOptions,
                key: impl AsRef<[u8]>,
            ) -> Result<Option<Bytes>> {
                self.reader().get(options, key.as_ref())
            }

            /// The value of `key`, and what finding it took.
            ///
            /// ```
            /// # use minikv::{Db, Options};
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
            /// db.put("apple", "red")?;
            /// db.put("cherry", "dark red")?;
            /// db.flush()?;
            /// let (value, trace) = db.get_traced("banana")?;
            /// assert_eq!(value, None);
            /// // A table could have had it; its filter said no, and no data block was read.
            /// let total = trace.total();
            /// assert_eq!((total.filter_checks, total.filter_negatives), (1, 1));
            /// assert_eq!(trace.data_blocks(), 0);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, ReadTrace)> {
                self.get_traced_with(&ReadOptions::default(), key)
            }

            /// [`get_traced`](Self::get_traced), with options.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn get_traced_with(
                &self,
                options: &ReadOptions,
                key: impl AsRef<[u8]>,
            ) -> Result<(Option<Bytes>, ReadTrace)> {
                self.reader().get_traced(options, key.as_ref())
            }

            /// Gets `key` and tells how that went, step by step: what was asked in which order,
            /// what filters said and whether it was true, and what the same get costs without
            /// filters.
            ///
            /// Two gets are done, one of them without filters. Both count in the statistics; the
            /// one without filters puts nothing into the block cache.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
                self.explain_with(&ReadOptions::default(), key)
            }

            /// [`explain`](Self::explain), with options.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn explain_with(
                &self,
                options: &ReadOptions,
                key: impl AsRef<[u8]>,
            ) -> Result<Explanation> {
                let reader = self.reader();
                let (view, seq) = reader.moment(options)?;
                let options = &options.block_options();
                explain::explain(reader.state(), &view, seq, key.as_ref(), options)
            }

            /// Which filters the gets want that this database saw since it was opened: a sample
            /// of their keys is kept (8192 at most, in 1 MiB, of the last two million gets), and
            /// here replayed against filters of other kinds and sizes. Nothing is written, and
            /// the block cache stays as it is.
            ///
            /// Every table whose range holds one of those keys is read once, which takes as long
            /// as reading half of a full compaction. It counts in no statistics.
            ///
            /// ```
            /// # use minikv::{Db, FilterLayout, Options};
            /// # let dir = tempfile::tempdir()?;
            /// # let options = Options::default().create_if_missing(true);
            /// # let db = Db::open(dir.path(), options.filter(FilterLayout::None, 0))?;
            /// for i in 0..1000 {
            ///     db.put(format!("user/{i:04}"), "here")?;
            /// }
            /// db.flush()?;
            /// for i in 0..1000 {
            ///     db.get(format!("user/{i:04}/draft"))?; // never there
            /// }
            /// let advice = db.filter_advice()?;
            /// assert_ne!(advice.layout, FilterLayout::None);
            /// println!("{advice}");
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// Corruption and I/O errors of the tables;
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) under a comparator that
            /// may take different bytes for one key.
            pub fn filter_advice(&self) -> Result<FilterAdvice> {
                let reader = self.reader();
                let (view, seq) = reader.moment(&ReadOptions::default())?;
                advice::filter_advice(reader.state(), &view, seq)
            }

            /// The values of `keys`, all as of one moment, in the order asked.
            ///
            /// # Errors
            /// As [`get`](Self::get); the first one ends it.
            pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
                self.multi_get_with(&ReadOptions::default(), keys)
            }

            /// [`multi_get`](Self::multi_get), with options.
            ///
            /// # Errors
            /// As [`multi_get`](Self::multi_get).
            pub fn multi_get_with<K: AsRef<[u8]>>(
                &self,
                options: &ReadOptions,
                keys: &[K],
            ) -> Result<Vec<Option<Bytes>>> {
                self.reader().multi_get(options, keys)
            }

            /// Whether `key` has a value.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                Ok(self.get(key)?.is_some())
            }

            /// All entries, in key order; backwards with `.rev()`.
            ///
            /// # Errors
            /// None today; each step has its own.
            pub fn iter(&self) -> Result<Iter> {
                self.iter_with(&ReadOptions::default())
            }

            /// [`iter`](Self::iter), with options.
            ///
            /// # Errors
            /// As [`iter`](Self::iter).
            pub fn iter_with(&self, options: &ReadOptions) -> Result<Iter> {
                self.reader().range::<&[u8]>(options, ..)
            }

            /// The entries whose keys are in `range`.
            ///
            /// ```
            /// # use minikv::{Db, Options};
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
            /// for day in ["01", "02", "03", "04"] {
            ///     db.put(day, "")?;
            /// }
            /// assert_eq!(db.range("02".."04")?.count(), 2);
            /// assert_eq!(db.range("02"..)?.next_back().unwrap()?.0, "04");
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// As [`iter`](Self::iter).
            pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
                self.range_with(&ReadOptions::default(), range)
            }

            /// [`range`](Self::range), with options.
            ///
            /// # Errors
            /// As [`iter`](Self::iter).
            pub fn range_with<K: AsRef<[u8]>>(
                &self,
                options: &ReadOptions,
                range: impl RangeBounds<K>,
            ) -> Result<Iter> {
                self.reader().range(options, range)
            }

            /// The entries whose keys start with `prefix`.
            ///
            /// # Errors
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) under a comparator other
            /// than byte order.
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
                self.prefix_with(&ReadOptions::default(), prefix)
            }

            /// [`prefix`](Self::prefix), with options.
            ///
            /// # Errors
            /// As [`prefix`](Self::prefix).
            pub fn prefix_with(
                &self,
                options: &ReadOptions,
                prefix: impl AsRef<[u8]>,
            ) -> Result<Iter> {
                self.reader().prefix(options, prefix.as_ref(), Bound::Unbounded)
            }

            /// The entries whose keys start with `prefix`, from a key on: a page of a long listing
            /// begins after the last key of the page before. A bound that no key with the prefix
            /// reaches gives nothing.
            ///
            /// ```
            /// # use minikv::{Db, Options};
            /// # use std::ops::Bound;
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
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
            pub fn prefix_from<K: AsRef<[u8]>>(
                &self,
                prefix: impl AsRef<[u8]>,
                from: Bound<K>,
            ) -> Result<Iter> {
                self.prefix_from_with(&ReadOptions::default(), prefix, from)
            }

            /// [`prefix_from`](Self::prefix_from), with options.
            ///
            /// # Errors
            /// As [`prefix`](Self::prefix).
            pub fn prefix_from_with<K: AsRef<[u8]>>(
                &self,
                options: &ReadOptions,
                prefix: impl AsRef<[u8]>,
                from: Bound<K>,
            ) -> Result<Iter> {
                let from = from.as_ref().map(AsRef::as_ref);
                self.reader().prefix(options, prefix.as_ref(), from)
            }

            /// The entry with the first key in order; `None` if there is no entry.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn first_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.iter()?.next().transpose()
            }

            /// The entry with the last key in order; `None` if there is no entry.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn last_key_value(&self) -> Result<Option<(Bytes, Bytes)>> {
                self.iter()?.next_back().transpose()
            }

            /// Whether there is no entry. There is no `len`: counting entries reads them all.
            ///
            /// # Errors
            /// As [`get`](Self::get).
            pub fn is_empty(&self) -> Result<bool> {
                Ok(self.first_key_value()?.is_none())
            }

            /// A cursor, at no entry yet.
            ///
            /// # Errors
            /// Corruption and I/O errors of the tables of level 0, which it opens.
            pub fn cursor(&self) -> Result<Cursor> {
                self.cursor_with(&ReadOptions::default())
            }

            /// [`cursor`](Self::cursor), with options.
            ///
            /// # Errors
            /// As [`cursor`](Self::cursor).
            pub fn cursor_with(&self, options: &ReadOptions) -> Result<Cursor> {
                self.reader().cursor(options)
            }
        }
    };
}

reads!(Db);
reads!(ReadOnlyDb);
reads!(Snapshot);
