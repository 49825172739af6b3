//! Keyspaces: named parts of a database, each with keys of its own. Nothing is stored for a
//! keyspace except its entries; [`format::keyspace`](crate::format::keyspace) describes the format
//! of the entries' keys.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `mod` | the handle, and the list of keyspaces |
//! | `writes` | the writes of a keyspace, and writes to several keyspaces at once |
//! | `expiry` | writes with an expiry |
//!
//! The reads are those of [`Readable`].

use std::fmt;

use crate::base::clock::Clock;
use crate::base::prefix::prefix_end;
use crate::base::{Error, Result};
use crate::db::{Db, ReadOnlyDb};
use crate::engine::read::cursor::Cursor;
use crate::engine::read::reader::Reader;
use crate::engine::read::snapshot::Snapshot;
use crate::format::keyspace::{EXPIRING_TAG, KeyspaceKind, Space, TAG, split};
use crate::readable::Readable;
use crate::transaction::Transaction;

pub(crate) mod expiry;
mod writes;

/// A keyspace: a named, ordered space of keys within a database. It is opened from a handle
/// ([`Db::keyspace`], [`ReadOnlyDb::keyspace`] or [`Snapshot::keyspace`]), and has the reads and
/// writes of that handle. Entries of an expiring keyspace ([`Db::expiring_keyspace`]) may have a
/// time to live.
///
/// The same key may have a value in each keyspace, and another value outside of all keyspaces. A
/// keyspace exists while it has entries; opening a keyspace writes nothing. Clones are cheap.
///
/// Entries of a keyspace are ordinary entries, whose keys begin with `FF FE 6B 73`, the length of
/// the name in one byte, and the name. So the reads of [`Db`] itself, and LevelDB, show these
/// entries, too, after all keys that are text. `docs/keyspaces.md` has the details. The maximum
/// length of a key is that of [`Db::put`], less the length of this prefix.
///
/// [`WriteBatch::put_in`](crate::WriteBatch::put_in) and
/// [`Transaction::put_in`](crate::Transaction::put_in) write to several keyspaces atomically. A
/// [`Snapshot`] shows all keyspaces at the same moment.
///
/// ```
/// use minikv::{Db, Readable, WriteBatch};
///
/// # let dir = tempfile::tempdir()?;
/// let db = Db::create(dir.path())?;
/// let (users, emails) = (db.keyspace("users")?, db.keyspace("emails")?);
///
/// let mut batch = WriteBatch::new();
/// batch.put_in(&users, "ann", "Ann Lee");
/// batch.put_in(&emails, "ann@example.org", "ann");
/// db.write(batch)?;
///
/// assert_eq!(users.get("ann")?.as_deref(), Some(&b"Ann Lee"[..]));
/// assert_eq!(emails.get("ann")?, None);
/// assert_eq!(users.iter().next().unwrap()?.0, "ann");
/// assert_eq!(db.keyspaces()?, [emails, users]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyspace<H = Db> {
    handle: H,
    space: Space,
}

impl<H> Keyspace<H> {
    /// Returns the name of the keyspace.
    pub fn name(&self) -> &[u8] {
        self.space.name()
    }

    /// Returns whether this is an [expiring keyspace](Db::expiring_keyspace).
    pub fn is_expiring(&self) -> bool {
        self.space.expires()
    }
}

impl<H: Readable> Readable for Keyspace<H> {
    fn reader(&self) -> Reader<'_> {
        self.handle.reader().within(&self.space)
    }
}

impl<H: Readable> Keyspace<H> {
    /// Returns whether the keyspace has entries, expired ones included. `cursor` is one over the
    /// whole database.
    fn has_entries(&self, cursor: &mut Cursor) -> Result<bool> {
        let prefix = self.space.key(b"");
        Ok(cursor.seek(&prefix)? && cursor.key().starts_with(&prefix))
    }

    /// Returns the clock that decides which entries have expired.
    fn clock(&self) -> &Clock {
        &self.handle.reader().state().clock
    }
}

impl<H> fmt::Debug for Keyspace<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyspace").field(&self.name().escape_ascii().to_string()).finish()
    }
}

/// Two handles are equal if they have the same name and kind, and read the same database at the
/// same moment: two handles of one open [`Db`] are, those of different snapshots are not.
///
/// ```
/// # use minikv::Db;
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
/// assert_eq!(db.keyspace("users")?, db.clone().keyspace("users")?);
/// assert_ne!(db.keyspace("users")?, db.keyspace("emails")?);
/// assert_ne!(db.keyspace("users")?, db.expiring_keyspace("users")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<H: Readable> PartialEq for Keyspace<H> {
    fn eq(&self, other: &Keyspace<H>) -> bool {
        let is_same_space =
            self.name() == other.name() && self.is_expiring() == other.is_expiring();
        is_same_space && self.reader().reads_the_same(&other.reader())
    }
}

impl<H: Readable> Eq for Keyspace<H> {}

/// Fails if the order of the database is not byte order.
fn require_byte_order(reader: Reader<'_>) -> Result<()> {
    match reader.state().order.user().custom() {
        None => Ok(()),
        Some(order) => Err(Error::invalid(format!(
            "keyspaces require byte order; this database has the order of {}",
            order.name()
        ))),
    }
}

/// Returns the keyspace of this kind and name. Reads nothing.
///
/// # Errors
/// Invalid argument, for a name of a wrong length or an order other than byte order.
fn of_kind<H: Readable + Clone>(
    handle: &H,
    kind: KeyspaceKind,
    name: &[u8],
) -> Result<Keyspace<H>> {
    require_byte_order(handle.reader())?;
    Ok(Keyspace { handle: handle.clone(), space: Space::new(kind, name)? })
}

/// Returns the keyspace `name` that has entries, or the ordinary one if neither has.
///
/// # Errors
/// The errors of [`of_kind`] and of reads; invalid argument, if both kinds have entries.
fn find<H: Readable + Clone>(handle: &H, name: &[u8]) -> Result<Keyspace<H>> {
    let ordinary = of_kind(handle, KeyspaceKind::Ordinary, name)?;
    let expiring = of_kind(handle, KeyspaceKind::Expiring, name)?;
    // One cursor sees both kinds at one moment, and so no half of a batch that moves the entries
    // from one kind to the other.
    let mut cursor = handle.cursor()?;
    if !expiring.has_entries(&mut cursor)? {
        return Ok(ordinary);
    }
    match ordinary.has_entries(&mut cursor)? {
        false => Ok(expiring),
        true => Err(Error::invalid(format!(
            "there are two keyspaces \"{}\", an ordinary and an expiring one: \
             `keyspace_of` opens either",
            name.escape_ascii()
        ))),
    }
}

/// Returns the expiring keyspace `name`.
///
/// # Errors
/// The errors of [`of_kind`] and of reads; invalid argument, if only the ordinary keyspace of that
/// name has entries.
fn expiring<H: Readable + Clone>(handle: &H, name: &[u8]) -> Result<Keyspace<H>> {
    let expiring = of_kind(handle, KeyspaceKind::Expiring, name)?;
    let ordinary = of_kind(handle, KeyspaceKind::Ordinary, name)?;
    let mut cursor = handle.cursor()?;
    match expiring.has_entries(&mut cursor)? || !ordinary.has_entries(&mut cursor)? {
        true => Ok(expiring),
        false => Err(Error::invalid(format!(
            "keyspace \"{}\" has entries that do not expire, so it cannot be an expiring one",
            name.escape_ascii()
        ))),
    }
}

/// Returns the keyspaces that have entries, by name.
///
/// # Errors
/// As [`of_kind`] and reads.
fn all<H: Readable + Clone>(handle: &H) -> Result<Vec<Keyspace<H>>> {
    require_byte_order(handle.reader())?;
    let mut spaces = Vec::new();
    let mut cursor = handle.cursor()?;
    for kind in [KeyspaceKind::Ordinary, KeyspaceKind::Expiring] {
        for name in names(&mut cursor, kind)? {
            spaces.push(Space::new(kind, &name)?);
        }
    }
    spaces.sort_by(|a, b| (a.name(), a.expires()).cmp(&(b.name(), b.expires())));
    Ok(spaces.into_iter().map(|space| Keyspace { handle: handle.clone(), space }).collect())
}

/// Returns the names of the keyspaces of this kind that have entries. `cursor` is one over the
/// whole database.
fn names(cursor: &mut Cursor, kind: KeyspaceKind) -> Result<Vec<Vec<u8>>> {
    let tag = match kind {
        KeyspaceKind::Ordinary => TAG,
        KeyspaceKind::Expiring => EXPIRING_TAG,
    };
    let mut names = Vec::new();
    let mut valid = cursor.seek(tag)?;
    while valid && cursor.key().starts_with(tag) {
        let Some((name, rest)) = split(cursor.key()) else {
            // This entry begins with the tag, but belongs to no keyspace.
            valid = cursor.next()?;
            continue;
        };
        names.push(name.to_vec());
        let prefix = &cursor.key()[..cursor.key().len() - rest.len()];
        valid = match prefix_end(prefix) {
            Some(end) => cursor.seek(end)?,
            None => false,
        };
    }
    Ok(names)
}

/// Keyspaces in transactions.
impl Transaction {
    /// Returns `keyspace` for reads in this transaction. They see the keyspace as it was when the
    /// transaction began, with the transaction's own writes, and the commit checks them. Only the
    /// name and kind of `keyspace` matter.
    ///
    /// ```
    /// # use minikv::{Db, Readable};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::create(dir.path())?;
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
    pub fn keyspace<H>(&self, keyspace: &Keyspace<H>) -> Keyspace<&Transaction> {
        Keyspace { handle: self, space: keyspace.space.clone() }
    }
}

/// Defines the methods with which the handles open and list keyspaces.
macro_rules! keyspaces_of {
    ($handle:ty) => {
        impl $handle {
            /// Returns the keyspace `name`. A keyspace without entries is an ordinary one, and need
            /// not be made; a keyspace with entries is of the kind that
            /// [`expiring_keyspace`](Self::expiring_keyspace) gave it, or an ordinary one. Takes
            /// one or two seeks, and writes nothing.
            ///
            /// ```
            /// # use minikv::{Db, Readable};
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::create(dir.path())?;
            /// let users = db.keyspace("users")?;
            /// users.put("ann", "Ann Lee")?;
            /// assert!(users.contains_key("ann")? && !db.contains_key("ann")?);
            /// let then = db.snapshot().keyspace("users")?;
            /// users.delete("ann")?;
            /// assert!(then.contains_key("ann")?);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the name has 0 or more
            /// than 255 bytes, if the database has a comparator other than byte order, or if
            /// there are two keyspaces of that name (see [`keyspace_of`](Self::keyspace_of)); the
            /// errors of [`get`](Readable::get).
            pub fn keyspace(&self, name: impl AsRef<[u8]>) -> Result<Keyspace<$handle>> {
                find(self, name.as_ref())
            }

            /// Returns the expiring keyspace `name`: a keyspace whose entries may have a time to
            /// live ([`put_for`](Keyspace::put_for), [`put_until`](Keyspace::put_until)). Reads
            /// never show entries that have expired at the time of the read, and compactions remove
            /// them. `docs/expiry.md` has the details.
            ///
            /// The first put makes the keyspace an expiring one. While it has entries,
            /// [`keyspace`](Self::keyspace) finds it, too. Values take eight bytes more.
            ///
            /// ```
            /// # use minikv::{Db, Readable};
            /// # use std::time::Duration;
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::create(dir.path())?;
            /// let sessions = db.expiring_keyspace("sessions")?;
            /// sessions.put_for("s1", "ann", Duration::from_millis(20))?;
            /// sessions.put("s2", "root")?; // never expires
            /// std::thread::sleep(Duration::from_millis(30));
            /// assert_eq!(sessions.get("s1")?, None);
            /// assert_eq!(sessions.iter().count(), 1);
            /// assert_eq!(db.keyspace("sessions")?, sessions);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// As [`keyspace`](Self::keyspace);
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the keyspace of that
            /// name has entries and is not an expiring one.
            pub fn expiring_keyspace(&self, name: impl AsRef<[u8]>) -> Result<Keyspace<$handle>> {
                expiring(self, name.as_ref())
            }

            /// Returns the keyspace of this kind and name, whatever is there. Reads nothing.
            ///
            /// The keys of the two kinds differ, so a database can have both under one name:
            /// earlier builds made them, and so do two handles that were opened while there were no
            /// entries. Then [`keyspace`](Self::keyspace) fails, and this method opens either.
            ///
            /// # Errors
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the name has 0 or more
            /// than 255 bytes, or if the database has a comparator other than byte order.
            pub fn keyspace_of(
                &self,
                kind: KeyspaceKind,
                name: impl AsRef<[u8]>,
            ) -> Result<Keyspace<$handle>> {
                of_kind(self, kind, name.as_ref())
            }

            /// Returns the keyspaces that have entries, in byte order of their names. Expired
            /// entries count as entries until a compaction has removed them. Takes one seek per
            /// keyspace.
            ///
            /// ```
            /// # use minikv::{Db, Options, Readable};
            /// # let dir = tempfile::tempdir()?;
            /// # let db = Db::open(dir.path(), Options::default().create_if_missing(true))?;
            /// db.keyspace("users")?.put("ann", "Ann Lee")?;
            /// db.expiring_keyspace("sessions")?.put("s1", "ann")?;
            /// for keyspace in db.keyspaces()? {
            ///     println!("{keyspace:?} has {} bytes", keyspace.approximate_size(..)?);
            ///     assert_eq!(keyspace.is_expiring(), keyspace.name() == b"sessions");
            /// }
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// As [`get`](Readable::get);
            /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the database has a
            /// comparator other than byte order.
            pub fn keyspaces(&self) -> Result<Vec<Keyspace<$handle>>> {
                all(self)
            }
        }
    };
}

keyspaces_of!(Db);
keyspaces_of!(ReadOnlyDb);
keyspaces_of!(Snapshot);
