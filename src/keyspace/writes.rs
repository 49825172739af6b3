//! The writes of a keyspace, and batches of writes to several.

use std::ops::RangeBounds;

use bytes::Bytes;

use crate::base::Result;
use crate::bulk::writer::TableWriter;
use crate::db::Db;
use crate::engine::options::{ReadOptions, WriteOptions};
use crate::format::batch::WriteBatch;
use crate::keyspace::Keyspace;
use crate::keyspace::reads::range_in;

/// Size of a batch of deletions at which [`Keyspace::clear`] writes it, in bytes. A higher limit
/// clears larger keyspaces in one step, and takes several times as much memory.
const CLEAR_BATCH_BYTES: usize = 32 << 20;

/// The writes. Each is that of [`Db`] with the same name, with keys within the keyspace.
impl Keyspace<Db> {
    /// Sets the value of `key`.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(&WriteOptions::default(), key, value)
    }

    /// Like [`put`](Self::put), with options.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put_with(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.handle.put_with(options, self.space.key(key.as_ref()), value)
    }

    /// Deletes `key`. Succeeds even if it has no value.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(&WriteOptions::default(), key)
    }

    /// Like [`delete`](Self::delete), with options.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_with(&self, options: &WriteOptions, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.delete_with(options, self.space.key(key.as_ref()))
    }

    /// Replaces the value of `key` by what `change` returns for it, like [`Db::update`].
    ///
    /// # Errors
    /// As [`Db::update`].
    pub fn update<V: Into<Bytes>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        self.update_with(&WriteOptions::default(), key, change)
    }

    /// Like [`update`](Self::update), with options for the write.
    ///
    /// # Errors
    /// As [`Db::update`].
    pub fn update_with<V: Into<Bytes>>(
        &self,
        options: &WriteOptions,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        self.handle.update_with(options, self.space.key(key.as_ref()), change)
    }

    /// Compacts everything in `range` into one level, like [`Db::compact_range`]. After a
    /// [`clear`](Self::clear), `..` gives the space back.
    ///
    /// # Errors
    /// As [`Db::compact_range`].
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.handle.compact_range(range_in(&self.space, &range))
    }

    /// Deletes all entries that the keyspace has at the moment of the call. Returns their number.
    ///
    /// They go in one batch, which readers see as a whole and which survives a crash as a whole, as
    /// long as their keys need less than 32 MiB: a million keys of 20 bytes. Beyond that they go in
    /// several such batches, in key order; a reader, or a crash, can come in between. Entries that
    /// other threads put meanwhile may stay.
    ///
    /// It reads all keys and writes one deletion for each. The space comes back by compactions, as
    /// after [`delete`](Self::delete).
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let carts = db.keyspace("carts")?;
    /// carts.put("a1", "ann")?;
    /// carts.put("b7", "bob")?;
    /// assert_eq!(carts.clear()?, 2);
    /// assert!(carts.is_empty()? && db.keyspaces()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`], and those of [`get`](Self::get).
    pub fn clear(&self) -> Result<u64> {
        self.clear_with(&WriteOptions::default())
    }

    /// Like [`clear`](Self::clear), with options for the writes.
    ///
    /// # Errors
    /// As [`clear`](Self::clear).
    pub fn clear_with(&self, options: &WriteOptions) -> Result<u64> {
        let mut cursor = self.cursor_with(&ReadOptions::default().fill_cache(false))?;
        let mut batch = WriteBatch::new();
        let mut deleted = 0;
        let mut valid = cursor.seek_to_first()?;
        while valid {
            batch.delete_in(self, cursor.key());
            deleted += 1;
            valid = cursor.next()?;
            if !valid || batch.approximate_bytes() >= CLEAR_BATCH_BYTES {
                self.handle.write_with(options, std::mem::take(&mut batch))?;
            }
        }
        Ok(deleted)
    }

    /// Removes the keyspace: all its entries, like [`clear`](Self::clear), and so its name from
    /// [`Db::keyspaces`]. Nothing else is left of a keyspace without entries. Other handles of it
    /// stay usable; a put brings it back.
    ///
    /// # Errors
    /// As [`clear`](Self::clear).
    pub fn remove(self) -> Result<()> {
        self.clear().map(drop)
    }
}

/// Writes to several keyspaces at once.
impl WriteBatch {
    /// Adds a put of `value` under `key` of `keyspace`. Of that, only the name counts.
    ///
    /// ```
    /// # use minikv::{Db, Options, WriteBatch};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let (open, done) = (db.keyspace("open")?, db.keyspace("done")?);
    /// open.put("task/1", "write")?;
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.delete_in(&open, "task/1");
    /// batch.put_in(&done, "task/1", "write");
    /// db.write(batch)?;
    /// assert!(open.is_empty()? && done.contains_key("task/1")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        self.put(keyspace.space.key(key.as_ref()), value);
    }

    /// Adds a deletion of `key` of `keyspace`. Of that, only the name counts.
    pub fn delete_in<H>(&mut self, keyspace: &Keyspace<H>, key: impl AsRef<[u8]>) {
        self.delete(keyspace.space.key(key.as_ref()));
    }
}

/// Tables of keyspaces.
impl TableWriter {
    /// Adds an entry of `keyspace`, of which only the name counts. The keyspaces of a table come
    /// after keys that are text, the shorter names first, and names of one length in byte order.
    ///
    /// # Errors
    /// As [`put`](Self::put). The keys in an error are those of the database.
    pub fn put_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put(keyspace.space.key(key.as_ref()), value)
    }
}
