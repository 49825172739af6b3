//! Keyspaces: how calls name them, and writes into them.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, UNIX_EPOCH};

use minikv::{
    Bytes, Db, Keyspace, KeyspaceKind, ReadOnlyDb, Result, Snapshot, Transaction, WriteBatch,
};

use crate::error::Fault;
use crate::frames;
use crate::slot::{Handle, either, lock};

/// The expiry of an entry that never expires, as `lib/frames.js` writes it.
const NEVER: u64 = u64::MAX;

/// Name and kind of a keyspace.
#[derive(Clone)]
pub struct SpaceName {
    pub name: Vec<u8>,
    pub is_expiring: bool,
}

/// A keyspace whose kind may not be known yet.
pub struct Space {
    name: Vec<u8>,
    /// The kind that was asked for: whether entries may expire. `None` stands for the kind that has
    /// entries.
    asked: Option<bool>,
    /// The kind that was found last. The lock is held meanwhile, so that all get the same answer.
    found: Mutex<Option<Found>>,
}

/// The kind of a keyspace in an open database.
struct Found {
    is_expiring: bool,
    /// The database. After it was closed, the keyspace may become one of another kind.
    handle: Weak<Handle>,
}

impl Space {
    pub fn new(name: &[u8], asked: Option<bool>) -> Space {
        Space { name: name.to_vec(), asked, found: Mutex::new(None) }
    }

    /// Returns name and kind in the open database `handle`. The first call finds the kind there.
    ///
    /// # Errors
    /// Those of [`Spaces::find`].
    pub fn known(&self, handle: &Arc<Handle>) -> Result<SpaceName, Fault> {
        let mut found = lock(&self.found);
        match found.as_ref().filter(|found| Weak::as_ptr(&found.handle) == Arc::as_ptr(handle)) {
            Some(found) => Ok(self.named(found.is_expiring)),
            None => self.find_as(&mut found, handle),
        }
    }

    /// Finds the kind in the open database `handle`, with one or two seeks, even if it was found
    /// before. Returns name and kind.
    ///
    /// # Errors
    /// Those of [`Spaces::find`].
    pub fn find(&self, handle: &Arc<Handle>) -> Result<SpaceName, Fault> {
        self.find_as(&mut lock(&self.found), handle)
    }

    fn find_as(&self, found: &mut Option<Found>, handle: &Arc<Handle>) -> Result<SpaceName, Fault> {
        let is_expiring = either!(&**handle, db => db.find(&self.name, self.asked)?);
        *found = Some(Found { is_expiring, handle: Arc::downgrade(handle) });
        Ok(self.named(is_expiring))
    }

    fn named(&self, is_expiring: bool) -> SpaceName {
        SpaceName { name: self.name.clone(), is_expiring }
    }
}

/// Opens keyspaces from one of the library's handles.
pub trait Spaces: Sized {
    /// Returns the keyspace `name`.
    ///
    /// # Errors
    /// [`minikv::Error::InvalidArgument`] for a name of 0 bytes or of more than 255.
    fn space(&self, name: &SpaceName) -> Result<Keyspace<Self>>;

    /// Returns whether the keyspace `name` is an expiring one: the one that has entries if `asked`
    /// is `None`, otherwise the one that is asked for.
    ///
    /// # Errors
    /// Those of [`Self::space`] and of reads; [`minikv::Error::InvalidArgument`] if an expiring one
    /// is asked for and an ordinary one has entries, or if both have entries.
    fn find(&self, name: &[u8], asked: Option<bool>) -> Result<bool>;
}

macro_rules! spaces_of {
    ($($handle:ty)*) => {
        $(impl Spaces for $handle {
            fn space(&self, name: &SpaceName) -> Result<Keyspace<Self>> {
                let kind = match name.is_expiring {
                    true => KeyspaceKind::Expiring,
                    false => KeyspaceKind::Ordinary,
                };
                self.keyspace_of(kind, &name.name)
            }

            fn find(&self, name: &[u8], asked: Option<bool>) -> Result<bool> {
                match asked {
                    None => Ok(self.keyspace(name)?.is_expiring()),
                    Some(true) => Ok(self.expiring_keyspace(name)?.is_expiring()),
                    Some(false) => Ok(false),
                }
            }
        })*
    };
}
spaces_of! { Db ReadOnlyDb Snapshot }

/// Returns the names of the expiring ones among `keyspaces`, or of the others.
pub fn names_of<H>(keyspaces: &[Keyspace<H>], is_expiring: bool) -> Vec<Option<Bytes>> {
    let named = keyspaces.iter().filter(|space| space.is_expiring() == is_expiring);
    named.map(|space| Some(Bytes::copy_from_slice(space.name()))).collect()
}

/// Collects the writes that frames encode.
pub trait Target: Sized {
    fn put_outside(&mut self, key: &[u8], value: &[u8]);
    fn delete_outside(&mut self, key: &[u8]);
    fn put_never<H>(&mut self, space: &Keyspace<H>, key: &[u8], value: &[u8]);
    fn put_millis<H>(
        &mut self,
        space: &Keyspace<H>,
        key: &[u8],
        value: &[u8],
        millis: u64,
    ) -> Result<()>;
    fn delete_inside<H>(&mut self, space: &Keyspace<H>, key: &[u8]);

    /// Adds the writes that `frames` encode, to the keyspace `space` if there is one.
    fn fill<H>(&mut self, frames: &[u8], space: Option<&Keyspace<H>>) -> Result<(), Fault> {
        frames::each_operation(frames, |key, value| {
            match (space, value) {
                (None, Some(value)) => self.put_outside(key, value),
                (None, None) => self.delete_outside(key),
                (Some(space), None) => self.delete_inside(space, key),
                (Some(space), Some(value)) if space.is_expiring() => {
                    let (value, expiry) = value.split_last_chunk().ok_or_else(frames::malformed)?;
                    match u64::from_le_bytes(*expiry) {
                        NEVER => self.put_never(space, key, value),
                        millis => self.put_millis(space, key, value, millis)?,
                    }
                }
                (Some(space), Some(value)) => self.put_never(space, key, value),
            }
            Ok(())
        })
    }
}

macro_rules! target {
    ($($target:ty)*) => {
        $(impl Target for $target {
            fn put_outside(&mut self, key: &[u8], value: &[u8]) {
                self.put(key, value);
            }

            fn delete_outside(&mut self, key: &[u8]) {
                self.delete(key);
            }

            fn put_never<H>(&mut self, space: &Keyspace<H>, key: &[u8], value: &[u8]) {
                self.put_in(space, key, value);
            }

            fn put_millis<H>(
                &mut self,
                space: &Keyspace<H>,
                key: &[u8],
                value: &[u8],
                millis: u64,
            ) -> Result<()> {
                match UNIX_EPOCH.checked_add(Duration::from_millis(millis)) {
                    Some(time) => self.put_until_in(space, key, value, time),
                    None => {
                        self.put_in(space, key, value);
                        Ok(())
                    }
                }
            }

            fn delete_inside<H>(&mut self, space: &Keyspace<H>, key: &[u8]) {
                self.delete_in(space, key);
            }
        })*
    };
}
target! { WriteBatch Transaction }
