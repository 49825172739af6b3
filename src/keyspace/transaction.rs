//! Keyspaces in transactions.

use std::ops::RangeBounds;

use bytes::Bytes;

use crate::base::Result;
use crate::format::expiry::NEVER;
use crate::format::keyspace::Space;
use crate::keyspace::Keyspace;
use crate::keyspace::reads::range_in;
use crate::transaction::Transaction;
use crate::transaction::cursor::TransactionCursor;
use crate::transaction::iter::TransactionIter;

/// A keyspace for reads in a transaction, returned by [`Transaction::keyspace`]. Reads see the
/// keyspace as it was when the transaction began, with the transaction's own writes. The commit
/// checks these reads.
#[derive(Clone, Debug)]
pub struct TransactionKeyspace<'t> {
    transaction: &'t Transaction,
    space: Space,
}

/// Keyspaces in transactions.
impl Transaction {
    /// Returns `keyspace` for reads in this transaction. Only the name and kind of `keyspace`
    /// matter.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let (users, emails) = (db.keyspace("users")?, db.keyspace("emails")?);
    /// let is_new = db.transact(|tx| {
    ///     if tx.keyspace(&emails).contains_key("ann@example.org")? {
    ///         return Ok(false);
    ///     }
    ///     tx.put_in(&emails, "ann@example.org", "ann");
    ///     tx.put_in(&users, "ann", "Ann Lee");
    ///     Ok(true)
    /// })?;
    /// assert!(is_new && users.contains_key("ann")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyspace<H>(&self, keyspace: &Keyspace<H>) -> TransactionKeyspace<'_> {
        TransactionKeyspace { transaction: self, space: keyspace.space.clone() }
    }

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

impl<'t> TransactionKeyspace<'t> {
    /// Returns the value of `key`, or `None` if `key` has no value.
    ///
    /// # Errors
    /// Corruption and I/O errors, as [`Db::get`](crate::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = self.space.key(key.as_ref());
        self.live(&key, self.transaction.get(&key)?)
    }

    /// Like [`get`](Self::get), but the commit does not check the read, as with
    /// [`Transaction::get_untracked`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_untracked(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = self.space.key(key.as_ref());
        self.live(&key, self.transaction.get_untracked(&key)?)
    }

    /// Returns the values of `keys`, in the order of `keys`.
    ///
    /// # Errors
    /// As [`get`](Self::get). If any key fails, only the first error is returned.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| self.space.key(key.as_ref())).collect();
        let stored = self.transaction.multi_get(&keys)?;
        keys.iter().zip(stored).map(|(key, stored)| self.live(key, stored)).collect()
    }

    /// Returns the value in `stored`, which was read under the database's key `key`. Returns `None`
    /// if nothing was read, or if the entry has expired.
    fn live(&self, key: &[u8], stored: Option<Bytes>) -> Result<Option<Bytes>> {
        self.space.live_value(key, stored, || self.transaction.clock().now_millis())
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
    pub fn iter(&self) -> Result<TransactionIter<'t>> {
        self.range::<&[u8]>(..)
    }

    /// Returns an iterator over the entries whose keys are in `range`. The commit checks only the
    /// part of the range that the iterator has walked over, and nothing outside of the keyspace.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<TransactionIter<'t>> {
        let iter = self.transaction.range(range_in(&self.space, &range))?;
        Ok(iter.in_space(self.space.clone()))
    }

    /// Returns an iterator over the entries whose keys start with `prefix`.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIter<'t>> {
        let iter = self.transaction.prefix(self.space.key(prefix.as_ref()))?;
        Ok(iter.in_space(self.space.clone()))
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
    pub fn cursor(&self) -> Result<TransactionCursor<'t>> {
        Ok(self
            .transaction
            .cursor()?
            .in_space(self.space.clone(), self.transaction.clock().clone()))
    }
}
