//! Writes with an expiry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::base::clock::millis_of;
use crate::base::{Error, Result};
use crate::bulk::writer::TableWriter;
use crate::db::Db;
use crate::format::batch::WriteBatch;
use crate::format::expiry::{NEVER, with_expiry};
use crate::keyspace::Keyspace;
use crate::readable::Readable;
use crate::transaction::Transaction;

/// The expiry of an entry, as [`Keyspace::expiry`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The entry does not expire.
    Never,
    /// The entry expires at this time.
    At(SystemTime),
}

impl Expiry {
    /// Returns the expiry that is stored as `millis`, in milliseconds since the Unix epoch.
    pub(super) fn from_millis(millis: u64) -> Expiry {
        let time = || UNIX_EPOCH.checked_add(Duration::from_millis(millis));
        match millis {
            NEVER => Expiry::Never,
            // A time that the system cannot represent never arrives.
            _ => time().map_or(Expiry::Never, Expiry::At),
        }
    }
}

impl<H: Readable> Keyspace<H> {
    /// Returns the expiry of the entry of `key`, or `None` if there is no entry or the entry has
    /// expired. In a keyspace that is not expiring, entries never expire.
    ///
    /// ```
    /// # use minikv::{Db, Expiry};
    /// # use std::time::{Duration, SystemTime};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
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
    /// As [`Readable::get`].
    pub fn expiry(&self, key: impl AsRef<[u8]>) -> Result<Option<Expiry>> {
        let key = &*self.space.key(key.as_ref());
        let Some(stored) = self.handle.get(key)? else { return Ok(None) };
        let live = self.space.live(key, &stored, || self.clock().now_millis())?;
        Ok(live.map(|(_, expiry)| Expiry::from_millis(expiry)))
    }
    /// Returns the stored key and the stored value of an entry that expires after `ttl`.
    ///
    /// # Errors
    /// Invalid argument if entries of the keyspace do not expire.
    fn entry_for(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<(Vec<u8>, Vec<u8>)> {
        self.require_expiring()?;
        let expiry = self.clock().millis_after(ttl);
        Ok((self.space.key(key).into_owned(), with_expiry(value, expiry)))
    }
}

impl<H> Keyspace<H> {
    /// Returns the stored key and the stored value of an entry that expires at `time`.
    ///
    /// # Errors
    /// As [`Keyspace::entry_for`].
    fn entry_until(
        &self,
        key: &[u8],
        value: &[u8],
        time: SystemTime,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        self.require_expiring()?;
        Ok((self.space.key(key).into_owned(), with_expiry(value, millis_of(time))))
    }

    fn require_expiring(&self) -> Result<()> {
        if self.space.expires() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "entries of keyspace \"{}\" do not expire; those of an expiring keyspace do",
            self.name().escape_ascii()
        )))
    }
}

/// Writes to expiring keyspaces.
impl Keyspace<Db> {
    /// Sets the value of `key` for the duration `ttl`. After that, no read shows the value. The
    /// expiry is stored in whole milliseconds, rounded down. If it is later than the last time that
    /// the system can represent, the entry never expires.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// let sessions = db.expiring_keyspace("sessions")?;
    /// sessions.put_for("s1", "ann", Duration::from_secs(3600))?;
    /// assert!(sessions.contains_key("s1")?);
    /// let users = db.keyspace("users")?;
    /// assert!(users.put_for("ann", "", Duration::from_secs(1)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace is
    /// not an expiring one.
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let (key, stored) = self.entry_for(key.as_ref(), value.as_ref(), ttl)?;
        self.handle.put(key, stored)
    }

    /// Sets the value of `key` until `time`. From then on, no read shows the value. The expiry is
    /// stored in whole milliseconds, rounded down. A time in the past removes the value.
    ///
    /// # Errors
    /// As [`put_for`](Self::put_for).
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let (key, stored) = self.entry_until(key.as_ref(), value.as_ref(), time)?;
        self.handle.put(key, stored)
    }

    /// Replaces the value of `key` in an expiring keyspace with the result of `change`. The entry
    /// keeps its expiry.
    pub(super) fn update_expiring<E: From<Error> + 'static>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Bytes>, E>,
    ) -> Result<Option<Bytes>, E> {
        let key = self.space.key(key);
        self.handle.try_transact(|tx| {
            let stored = tx.get(&key)?;
            let now = || self.clock().now_millis();
            let live = stored.as_deref().map(|stored| self.space.live(&key, stored, now));
            let live = live.transpose()?.flatten();
            let new = change(live.map(|(value, _)| value))?;
            match (&new, live) {
                (Some(new), live) => {
                    let expiry = live.map_or(NEVER, |(_, expiry)| expiry);
                    tx.put(&key, self.space.stored(new, expiry));
                }
                (None, Some(_)) => tx.delete(&key),
                (None, None) => {}
            }
            Ok(new)
        })
    }
}

/// Writes with an expiry, to several keyspaces at once.
impl WriteBatch {
    /// Adds a put of `value` under `key` in `keyspace`, for the duration `ttl`, which starts with
    /// this call, like [`Keyspace::put_for`].
    ///
    /// ```
    /// # use minikv::{Db, WriteBatch};
    /// # use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
    /// let (users, sessions) = (db.keyspace("users")?, db.expiring_keyspace("sessions")?);
    /// let mut batch = WriteBatch::new();
    /// batch.put_in(&users, "ann", "online");
    /// batch.put_for_in(&sessions, "s1", "ann", Duration::from_secs(3600))?;
    /// db.write(batch)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace is not an expiring
    /// one.
    pub fn put_for_in<H: Readable>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let (key, stored) = keyspace.entry_for(key.as_ref(), value.as_ref(), ttl)?;
        self.put(key, stored);
        Ok(())
    }

    /// Adds a put of `value` under `key` in `keyspace`. The entry expires at `time`, as with
    /// [`Keyspace::put_until`].
    ///
    /// # Errors
    /// As [`put_for_in`](Self::put_for_in).
    pub fn put_until_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let (key, stored) = keyspace.entry_until(key.as_ref(), value.as_ref(), time)?;
        self.put(key, stored);
        Ok(())
    }
}

/// Writes with an expiry.
impl Transaction {
    /// Sets the value of `key` in `keyspace` for the duration `ttl`, which starts with this call,
    /// like [`Keyspace::put_for`]. The put takes effect when the transaction is committed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace is not an expiring
    /// one.
    pub fn put_for_in<H: Readable>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let (key, stored) = keyspace.entry_for(key.as_ref(), value.as_ref(), ttl)?;
        self.put(key, stored);
        Ok(())
    }

    /// Sets the value of `key` in `keyspace` until `time`, like [`Keyspace::put_until`]. The put
    /// takes effect when the transaction is committed.
    ///
    /// # Errors
    /// As [`put_for_in`](Self::put_for_in).
    pub fn put_until_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let (key, stored) = keyspace.entry_until(key.as_ref(), value.as_ref(), time)?;
        self.put(key, stored);
        Ok(())
    }
}

/// Adds entries with an expiry to tables.
impl TableWriter {
    /// Adds to `keyspace` an entry that expires at `time`, like [`Keyspace::put_until`].
    ///
    /// # Errors
    /// As [`put_in`](Self::put_in); [`Error::InvalidArgument`](crate::Error::InvalidArgument) if
    /// the keyspace is not an expiring one.
    pub fn put_until_in<H>(
        &mut self,
        keyspace: &Keyspace<H>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let (key, stored) = keyspace.entry_until(key.as_ref(), value.as_ref(), time)?;
        self.put(key, stored)
    }
}
