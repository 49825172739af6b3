//! The writes of a keyspace, and batches of writes to several keyspaces.

use std::ops::Bound;

use bytes::Bytes;

use crate::base::key_bounds::KeyBounds;
use crate::base::{Error, Result};
use crate::bulk::writer::TableWriter;
use crate::db::Db;
use crate::engine::delete_range::DeletedRange;
use crate::engine::options::WriteOptions;
use crate::engine::span::Span;
use crate::format::batch::WriteBatch;
use crate::format::expiry::NEVER;
use crate::keyspace::Keyspace;
use crate::transaction::Transaction;

/// Writes. Each method works like the method of [`Db`] with the same name, but only on keys of the
/// keyspace.
impl Keyspace<Db> {
    /// Returns a handle of the same keyspace whose writes have `options`, like [`Db::writing`].
    #[must_use]
    pub fn writing(&self, options: WriteOptions) -> Keyspace {
        Keyspace { handle: self.handle.writing(options), space: self.space.clone() }
    }

    /// Sets the value of `key`. In an expiring keyspace, the entry never expires.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.handle.put(self.space.key(key.as_ref()), self.space.stored(value.as_ref(), NEVER))
    }

    /// Deletes `key`. Succeeds even if `key` has no value.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.handle.delete(self.space.key(key.as_ref()))
    }

    /// Replaces the value of `key` with the result of `change`, like [`Db::update`]. In an expiring
    /// keyspace, the update of an existing entry keeps the entry's expiry, and a new entry never
    /// expires.
    ///
    /// # Errors
    /// As [`Db::update`].
    pub fn update<V: Into<Bytes>>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Bytes>> {
        if self.space.expires() {
            let change = |old: Option<&[u8]>| Ok(change(old).map(Into::into));
            return self.update_expiring(key.as_ref(), change);
        }
        self.handle.update(self.space.key(key.as_ref()), change)
    }

    /// Does the same as [`update`](Self::update), for a `change` that can fail, like
    /// [`Db::try_update`].
    ///
    /// # Errors
    /// As [`Db::try_update`].
    pub fn try_update<V: Into<Bytes>, E: From<Error> + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<V>, E>,
    ) -> Result<Option<Bytes>, E> {
        if self.space.expires() {
            let change = |old: Option<&[u8]>| Ok(change(old)?.map(Into::into));
            return self.update_expiring(key.as_ref(), change);
        }
        self.handle.try_update(self.space.key(key.as_ref()), change)
    }

    /// Compacts everything in `range` into one level, like [`Db::compact_range`].
    ///
    /// # Errors
    /// As [`Db::compact_range`].
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.handle.compact_range(self.span(&range))
    }

    /// Deletes all entries with keys in `range`, like [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<DeletedRange> {
        self.handle.delete_range(self.span(&range))
    }

    /// Deletes all entries whose keys start with `prefix`, like [`Db::delete_prefix`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<DeletedRange> {
        self.handle.delete_prefix(self.space.key(prefix.as_ref()))
    }

    /// Deletes all entries of the keyspace, by a [`delete_range`](Self::delete_range) over all of
    /// its keys.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// let carts = db.keyspace("carts")?;
    /// carts.put("a1", "ann")?;
    /// carts.put("b7", "bob")?;
    /// carts.clear()?;
    /// assert!(carts.is_empty()? && db.keyspaces()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn clear(&self) -> Result<DeletedRange> {
        self.delete_range(..)
    }

    /// Removes the keyspace by deleting all its entries, like [`clear`](Self::clear). Nothing else
    /// is stored for the keyspace, so [`Db::keyspaces`] no longer lists it. Other handles of the
    /// keyspace stay usable, and a put creates the keyspace again.
    ///
    /// # Errors
    /// As [`clear`](Self::clear).
    pub fn remove(self) -> Result<()> {
        self.clear().map(drop)
    }

    /// Returns the bounds in the database of `range`, a range within the keyspace.
    fn span(&self, range: &impl KeyBounds) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let Span { from, to } = Span::within(&self.space, range.key_bounds());
        (from, to)
    }
}

/// Writes to several keyspaces at once.
impl WriteBatch {
    /// Adds a put of `value` under `key` in `keyspace`. Only the name and kind of `keyspace`
    /// matter.
    ///
    /// ```
    /// # use minikv::{Db, Readable, WriteBatch};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
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
        self.put(keyspace.space.key(key.as_ref()), keyspace.space.stored(value.as_ref(), NEVER));
    }

    /// Adds a deletion of `key` in `keyspace`. Only the name and kind of `keyspace` matter.
    pub fn delete_in<H>(&mut self, keyspace: &Keyspace<H>, key: impl AsRef<[u8]>) {
        self.delete(keyspace.space.key(key.as_ref()));
    }
}

/// Writes to keyspaces.
impl Transaction {
    /// Sets the value of `key` in `keyspace` when the transaction is committed. Only the name and
    /// kind of `keyspace` matter.
    pub fn put_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        self.put(keyspace.space.key(key.as_ref()), keyspace.space.stored(value.as_ref(), NEVER));
    }

    /// Deletes `key` in `keyspace` when the transaction is committed. The key need not have a
    /// value.
    pub fn delete_in<H>(&mut self, keyspace: &Keyspace<H>, key: impl AsRef<[u8]>) {
        self.delete(keyspace.space.key(key.as_ref()));
    }
}

/// Adds entries of keyspaces to tables for a later ingest.
impl TableWriter {
    /// Adds an entry of `keyspace`. Only the name and kind of `keyspace` matter. In a table, keys
    /// in keyspaces come after keys that are text. Ordinary keyspaces come before expiring ones,
    /// shorter names before longer ones, and names of the same length are in byte order.
    ///
    /// # Errors
    /// As [`put`](Self::put). An error shows keys as the database stores them.
    pub fn put_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put(keyspace.space.key(key.as_ref()), keyspace.space.stored(value.as_ref(), NEVER))
    }
}
