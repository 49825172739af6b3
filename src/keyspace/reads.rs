//! The reads of a keyspace, which are the same for all kinds of handles.

use std::ops::{Bound, RangeBounds};

use bytes::Bytes;

use crate::base::Result;
use crate::engine::options::ReadOptions;
use crate::engine::read::iter::Iter;
use crate::engine::stats::trace::ReadTrace;
use crate::explain::{self, Explanation};
use crate::format::keyspace::Space;
use crate::keyspace::Keyspace;
use crate::keyspace::cursor::KeyspaceCursor;
use crate::keyspace::expiry::Expiry;

/// Reads. Each method works like the method of [`Db`](crate::Db) with the same name, but only on
/// keys of the keyspace.
impl<H> Keyspace<H> {
    /// Returns the value of `key`, or `None` if `key` has no value.
    ///
    /// # Errors
    /// Corruption and I/O errors. Damage is never reported as `None`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        self.get_with(&ReadOptions::default(), key)
    }

    /// Like [`get`](Self::get), with options.
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the
    /// options name a snapshot of another database.
    pub fn get_with(&self, options: &ReadOptions, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        let key = self.space.key(key.as_ref());
        let stored = self.reader().get(options, &key)?;
        self.live(&key, stored)
    }

    /// Returns the value of `key`, and counts of the work that was done to find the value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_traced(&self, key: impl AsRef<[u8]>) -> Result<(Option<Bytes>, ReadTrace)> {
        self.get_traced_with(&ReadOptions::default(), key)
    }

    /// Like [`get_traced`](Self::get_traced), with options.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_traced_with(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<(Option<Bytes>, ReadTrace)> {
        let key = self.space.key(key.as_ref());
        let (stored, trace) = self.reader().get_traced(options, &key)?;
        Ok((self.live(&key, stored)?, trace))
    }

    /// Gets `key` and returns an explanation, step by step, like
    /// [`Db::explain`](crate::Db::explain). The explanation shows keys as the database stores them,
    /// with the keyspace's prefix. If the entry has expired, the value is `None`, although a step
    /// found the entry.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn explain(&self, key: impl AsRef<[u8]>) -> Result<Explanation> {
        self.explain_with(&ReadOptions::default(), key)
    }

    /// Like [`explain`](Self::explain), with options.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn explain_with(
        &self,
        options: &ReadOptions,
        key: impl AsRef<[u8]>,
    ) -> Result<Explanation> {
        let key = self.space.key(key.as_ref());
        let explained = explain::explain(self.reader().point(options)?, &key)?;
        let value = self.live(&key, explained.value)?;
        Ok(Explanation { value, ..explained })
    }

    /// Returns the values that `keys` have at one moment, in the order of `keys`.
    ///
    /// # Errors
    /// As [`get`](Self::get). If any key fails, only the first error is returned.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>> {
        self.multi_get_with(&ReadOptions::default(), keys)
    }

    /// Like [`multi_get`](Self::multi_get), with options.
    ///
    /// # Errors
    /// As [`multi_get`](Self::multi_get).
    pub fn multi_get_with<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        keys: &[K],
    ) -> Result<Vec<Option<Bytes>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| self.space.key(key.as_ref())).collect();
        let stored = self.reader().multi_get(options, &keys)?;
        if !self.space.expires() {
            return Ok(stored);
        }
        let now = self.clock().now_millis();
        let entries = keys.iter().zip(stored);
        entries.map(|(key, stored)| self.space.live_value(key, stored, || now)).collect()
    }

    /// Returns the expiry of the entry of `key`, or `None` if there is no entry or the entry has
    /// expired. In a keyspace that is not expiring, entries never expire.
    ///
    /// ```
    /// # use minikv::{Db, Expiry, Options};
    /// # use std::time::{Duration, SystemTime};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let codes = db.expiring_keyspace("codes")?;
    /// codes.put("root", "0000")?;
    /// codes.put_for("ann", "1234", Duration::from_secs(60))?;
    /// assert_eq!(codes.expiry("root")?, Some(Expiry::Never));
    /// let Some(Expiry::At(time)) = codes.expiry("ann")? else { panic!() };
    /// assert!(time > SystemTime::now());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        let key = self.space.key(key.as_ref());
        let Some(stored) = self.reader().get(&ReadOptions::default(), &key)? else {
            return Ok(None);
        };
        let live = self.space.live(&key, &stored, || self.clock().now_millis())?;
        Ok(live.map(|(_, expiry)| Expiry::from_millis(expiry)))
    }

    /// Returns the value in `stored`, which was read under the database's key `key`. Returns `None`
    /// if nothing was read, or if the entry has expired.
    fn live(&self, key: &[u8], stored: Option<Bytes>) -> Result<Option<Bytes>> {
        self.space.live_value(key, stored, || self.clock().now_millis())
    }

    /// Returns whether `key` has a value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns an iterator over all entries in key order. It can also be used from the back, with
    /// `next_back` or `rev`.
    ///
    /// # Errors
    /// For methods with options: [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the
    /// options name a snapshot of another database. A read error is an item of the iterator, which
    /// ends after that item.
    pub fn iter(&self) -> Result<Iter> {
        self.iter_with(&ReadOptions::default())
    }

    /// Like [`iter`](Self::iter), with options.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn iter_with(&self, options: &ReadOptions) -> Result<Iter> {
        self.range_with::<&[u8]>(options, ..)
    }

    /// Returns an iterator over the entries whose keys are in `range`.
    ///
    /// ```
    /// # use minikv::{Db, Options};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
    /// let days = db.keyspace("days")?;
    /// for day in ["01", "02", "03", "04"] {
    ///     days.put(day, "")?;
    /// }
    /// assert_eq!(days.range("02".."04")?.count(), 2);
    /// assert_eq!(days.range("02"..)?.next_back().unwrap()?.0, "04");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.range_with(&ReadOptions::default(), range)
    }

    /// Like [`range`](Self::range), with options.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn range_with<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        range: impl RangeBounds<K>,
    ) -> Result<Iter> {
        let iter = self.reader().range(options, range_in(&self.space, &range))?;
        Ok(iter.in_space(self.space.clone()))
    }

    /// Returns an iterator over the entries whose keys start with `prefix`. If the tables have
    /// prefix filters ([`Options::filter_prefix_in`]), the iterator uses them to skip tables.
    ///
    /// [`Options::filter_prefix_in`]: crate::Options::filter_prefix_in
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.prefix_with(&ReadOptions::default(), prefix)
    }

    /// Like [`prefix`](Self::prefix), with options.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn prefix_with(&self, options: &ReadOptions, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.prefix_from_with::<&[u8]>(options, prefix, Bound::Unbounded)
    }

    /// Returns an iterator over the entries whose keys start with `prefix` and are not before the
    /// lower bound `from`, like
    /// [`Db::prefix_from`](crate::Db::prefix_from).
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn prefix_from<K: AsRef<[u8]>>(
        &self,
        prefix: impl AsRef<[u8]>,
        from: Bound<K>,
    ) -> Result<Iter> {
        self.prefix_from_with(&ReadOptions::default(), prefix, from)
    }

    /// Like [`prefix_from`](Self::prefix_from), with options.
    ///
    /// # Errors
    /// As [`iter`](Self::iter).
    pub fn prefix_from_with<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        prefix: impl AsRef<[u8]>,
        from: Bound<K>,
    ) -> Result<Iter> {
        let from = self.space.lower(from.as_ref().map(AsRef::as_ref));
        let from = from.as_ref().map(Vec::as_slice);
        let iter = self.reader().prefix(options, &self.space.key(prefix.as_ref()), from)?;
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

    /// Returns the number of entries whose keys are in `range`, like
    /// [`Db::count`](crate::Db::count). Expired entries do not count.
    ///
    /// # Errors
    /// Corruption and I/O errors.
    pub fn count<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.range(range)?.count_entries()
    }

    /// Returns a cursor. It is at no entry until it is first moved.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables of level 0, which this method opens.
    pub fn cursor(&self) -> Result<KeyspaceCursor> {
        self.cursor_with(&ReadOptions::default())
    }

    /// Like [`cursor`](Self::cursor), with options.
    ///
    /// # Errors
    /// As [`cursor`](Self::cursor).
    pub fn cursor_with(&self, options: &ReadOptions) -> Result<KeyspaceCursor> {
        let (cursor, clock) = (self.reader().cursor(options)?, self.clock().clone());
        Ok(KeyspaceCursor::new(cursor, self.space.clone(), clock))
    }

    /// Returns the approximate number of bytes that the entries in `range` take, like
    /// [`Db::approximate_size`](crate::Db::approximate_size). The range `..` is the whole keyspace.
    /// Measures the current tables and memtables, even on a snapshot.
    ///
    /// # Errors
    /// Corruption and I/O errors of the tables that contain the bounds.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.reader().approximate_size(range_in(&self.space, &range))
    }
}

/// Returns the bounds on the database's keys that correspond to a range within a keyspace.
pub(super) fn range_in<K: AsRef<[u8]>>(
    space: &Space,
    range: &impl RangeBounds<K>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (from, to) = (range.start_bound(), range.end_bound());
    (space.lower(from.map(AsRef::as_ref)), space.upper(to.map(AsRef::as_ref)))
}
