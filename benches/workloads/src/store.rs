//! The interface that a measured engine implements.

use std::path::{Path, PathBuf};

use crate::workload::Group;

/// An error of an engine, or an error from checking its results.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of most functions in this crate.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The options that differ between workloads. All other options are the same for all workloads:
/// filters with 10 bits per key, blocks of 4 KiB, a log, verified checksums, and snappy compression
/// if the engine supports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size of a memtable, in bytes.
    pub write_buffer_bytes: usize,
    /// Size of the block cache, in bytes.
    pub cache_bytes: usize,
    /// Whether the database is opened for transactions. Some engines have another type of database
    /// for this purpose.
    pub transactions: bool,
    /// Whether compactions remove the entries for which [`is_removed`](crate::is_removed) returns
    /// true. Only for engines with compaction filters.
    pub filtered: bool,
}

impl Settings {
    /// Returns the settings of most workloads, with the given sizes.
    pub fn new(write_buffer_bytes: usize, cache_bytes: usize) -> Settings {
        Settings { write_buffer_bytes, cache_bytes, transactions: false, filtered: false }
    }
}

/// A function that receives entries.
pub type Sink<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// A function that passes entries to a sink, in ascending order of their keys.
pub type Source<'a> = dyn FnMut(&mut Sink<'_>) -> Result<()> + 'a;

/// A transaction of some engine, as seen by the function that runs in it.
pub trait Transact {
    /// Passes the value of `key` to `found`. The transaction fails if another transaction changes
    /// the entry before this transaction is committed.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Sets one value.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The writes of the transaction are visible.
    Committed,
    /// The transaction has failed, because data that it had read has changed.
    Conflict,
}

/// A key space: a keyspace of a database, or one of several databases.
pub trait Space {
    /// Sets one value. The write is not synced.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Passes the value of `key` to `found`. Returns whether there is a value.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// A handle for reading a database to which another handle writes.
pub trait Follower {
    /// Makes all writes that completed before this call visible to this handle.
    ///
    /// # Errors
    /// Errors of the engine.
    fn catch_up(&self) -> Result<()>;

    /// Passes the value of `key` to `found`. Returns whether there is a value.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards larger keys.
    Forward,
    /// Towards smaller keys.
    Backward,
}

/// Returns the error for a feature that the engine lacks (see [`Store::has`]).
fn missing<T>() -> Result<T> {
    Err("the engine does not have this".into())
}

/// An open database of some engine. Dropping the value closes the database.
pub trait Store: Send + Sync {
    /// Returns whether the engine has the features needed by the workloads of an optional group
    /// ([`Group::is_optional`]).
    fn has(&self, _optional: Group) -> bool {
        false
    }

    /// Sets one value. If `sync` is true, returns only when the write would survive a loss of
    /// power.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()>;

    /// Sets all values atomically.
    ///
    /// # Errors
    /// Errors of the engine.
    fn put_batch(&self, entries: &[Entry<'_>]) -> Result<()>;

    /// Deletes one key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete(&self, key: &[u8]) -> Result<()>;

    /// Deletes the keys from `from` (inclusive) to `to` (exclusive). The default implementation,
    /// for engines without range deletes, deletes the keys one by one.
    ///
    /// # Errors
    /// Errors of the engine.
    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.scan(Some(from), Direction::Forward, &mut |key, _| {
            let is_in = key < to;
            if is_in {
                keys.push(key.to_vec());
            }
            is_in
        })?;
        keys.iter().try_for_each(|key| self.delete(key))
    }

    /// Loads sorted entries into the empty database in the fastest way that the engine offers, and
    /// makes them durable. The default implementation writes the entries in batches.
    ///
    /// # Errors
    /// Errors of the engine and of `entries`.
    fn load_sorted(&mut self, entries: &mut Source<'_>) -> Result<()> {
        const BATCH: usize = 1000;
        let mut batch: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(BATCH);
        let write = |batch: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            let refs: Vec<Entry<'_>> = batch.iter().map(|(k, v)| (&k[..], &v[..])).collect();
            self.put_batch(&refs)?;
            batch.clear();
            Ok(())
        };
        entries(&mut |key, value| {
            batch.push((key.to_vec(), value.to_vec()));
            if batch.len() == BATCH { write(&mut batch) } else { Ok(()) }
        })?;
        let last = batch.pop();
        write(&mut batch)?;
        last.map_or(Ok(()), |(key, value)| self.put(&key, &value, true))
    }

    /// Runs `body` in an optimistic, serializable transaction. The commit is not synced.
    ///
    /// # Errors
    /// Errors of the engine and of `body`.
    fn transact(&self, _body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        missing()
    }

    /// Makes all previous writes durable.
    ///
    /// # Errors
    /// Errors of the engine.
    fn sync(&self) -> Result<()>;

    /// Creates `count` keyspaces. If each keyspace has its own write buffer,
    /// [`Settings::write_buffer_bytes`] is divided among the keyspaces.
    ///
    /// # Errors
    /// Errors of the engine.
    fn keyspaces(&mut self, _count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        missing()
    }

    /// Creates databases in `dirs` that share background threads and a memory budget of
    /// [`Settings::cache_bytes`]. Memtables, indexes, filters and cached blocks all count against
    /// this budget.
    ///
    /// # Errors
    /// Errors of the engine.
    fn open_shared(&self, _dirs: &[PathBuf], _settings: &Settings) -> Result<Vec<Box<dyn Space>>> {
        missing()
    }

    /// Adds a durable backup to `folder`.
    ///
    /// # Errors
    /// Errors of the engine.
    fn backup(&self, _folder: &Path) -> Result<()> {
        missing()
    }

    /// Restores the latest backup in `folder` as a new database in `dir`.
    ///
    /// # Errors
    /// Errors of the engine.
    fn restore(&self, _folder: &Path, _dir: &Path) -> Result<()> {
        missing()
    }

    /// Opens a second handle, which follows the writes of this handle.
    ///
    /// # Errors
    /// Errors of the engine.
    fn follow(&self) -> Result<Box<dyn Follower>> {
        missing()
    }

    /// Passes the value of `key` to `found`. Returns whether there is a value.
    ///
    /// # Errors
    /// Errors of the engine.
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes entries to `visit` until `visit` returns false. Scans forward from the first key that
    /// is at least `from`, or backward from the last key that is at most `from`. If `from` is
    /// `None`, starts at the first or the last key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Compacts the whole database, including memtables, and waits until the compaction is done.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact(&mut self) -> Result<()>;

    /// Compacts the whole database as [`compact`](Store::compact) does, but other threads may use
    /// the database at the same time. Returns false if the engine does not support this.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact_beside(&self) -> Result<bool> {
        Ok(false)
    }

    /// Waits until background work is done. Returns false if the engine does not support this wait;
    /// the runner then waits until the process uses hardly any processor time.
    ///
    /// # Errors
    /// Errors of the engine.
    fn wait_idle(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the engine's name, version and options in one line.
    fn describe(&self) -> String;
}
