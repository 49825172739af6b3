//! The interface that an engine implements to be measured.

use std::path::{Path, PathBuf};

use crate::workload::Group;

/// An error of an engine, or of a check of what it returned.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of all functions here.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The options that differ between workloads. Other options are the same for all workloads: filters
/// of 10 bits per key, blocks of 4 KiB, the log on, checksums verified, and snappy if the engine
/// has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Size of a memtable, in bytes.
    pub write_buffer_bytes: usize,
    /// Size of the block cache, in bytes.
    pub cache_bytes: usize,
    /// Whether the database is opened for transactions, which is another kind of database in some
    /// engines.
    pub transactions: bool,
    /// Whether compactions remove the entries of [`is_removed`](crate::is_removed), in engines with
    /// compaction filters.
    pub filtered: bool,
}

impl Settings {
    /// Returns the settings of most workloads, with these sizes.
    pub fn new(write_buffer_bytes: usize, cache_bytes: usize) -> Settings {
        Settings { write_buffer_bytes, cache_bytes, transactions: false, filtered: false }
    }
}

/// A function that takes an entry.
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
    /// The transaction has failed, because data that it had read was changed.
    Conflict,
}

/// A space of keys: a keyspace of a database, or one of several databases.
pub trait Space {
    /// Sets one value, unsynced.
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

/// A handle for reading a database that another handle writes.
pub trait Follower {
    /// Makes all writes before the call visible.
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

/// Returns the error for a feature that the engine lacks ([`Store::has`]).
fn missing<T>() -> Result<T> {
    Err("the engine does not have this".into())
}

/// An open database of some engine. Dropping it closes it.
pub trait Store: Send + Sync {
    /// Returns whether the engine has the features that the workloads of an optional group need
    /// ([`Group::is_optional`]).
    fn has(&self, _optional: Group) -> bool {
        false
    }

    /// Sets one value. With `sync`, returns when the write survives a power loss.
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

    /// Deletes the keys from `from` up to and excluding `to`. An engine without range deletes
    /// deletes the keys one by one.
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

    /// Loads sorted entries into the empty database in the engine's fastest way, and makes the
    /// entries durable. By default, writes the entries in batches.
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

    /// Runs `body` in an optimistic, serializable transaction, unsynced.
    ///
    /// # Errors
    /// Errors of the engine and of `body`.
    fn transact(&self, _body: &mut dyn FnMut(&mut dyn Transact) -> Result<()>) -> Result<Ended> {
        missing()
    }

    /// Makes every write so far durable.
    ///
    /// # Errors
    /// Errors of the engine.
    fn sync(&self) -> Result<()>;

    /// Creates `count` keyspaces. If each keyspace has a write buffer of its own,
    /// [`Settings::write_buffer_bytes`] is divided among the keyspaces.
    ///
    /// # Errors
    /// Errors of the engine.
    fn keyspaces(&mut self, _count: usize) -> Result<Vec<Box<dyn Space + '_>>> {
        missing()
    }

    /// Creates databases in `dirs` that share background threads and, for memtables, indexes,
    /// filters and cached blocks together, a budget of [`Settings::cache_bytes`].
    ///
    /// # Errors
    /// Errors of the engine.
    fn open_shared(&self, _dirs: &[PathBuf], _settings: &Settings) -> Result<Vec<Box<dyn Space>>> {
        missing()
    }

    /// Adds a durable backup to the folder `folder`.
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

    /// Opens the database once more, to follow the writes of this handle.
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

    /// Passes entries to `visit` until it returns false: forward from the first key that is at
    /// least `from`, or backward from the last key that is at most `from`. Without `from`, starts
    /// at the first or last key.
    ///
    /// # Errors
    /// Errors of the engine.
    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Compacts everything, including memtables, and waits until the compaction is done.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact(&mut self) -> Result<()>;

    /// Compacts everything as [`compact`](Store::compact) does, while other threads use the
    /// database. Returns false if the engine cannot do this.
    ///
    /// # Errors
    /// Errors of the engine.
    fn compact_beside(&self) -> Result<bool> {
        Ok(false)
    }

    /// Waits until background work is done. Returns false if the engine does not support that; the
    /// runner then waits until the process uses no processor time.
    ///
    /// # Errors
    /// Errors of the engine.
    fn wait_idle(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the engine's name, version and options in one line.
    fn describe(&self) -> String;
}
