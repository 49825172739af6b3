//! Keyspaces: how calls name them, and writes into them.

use minikv::{
    Db, Keyspace, KeyspaceKind, ReadOnlyDb, Readable, Result, Snapshot, Transaction, WriteBatch,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::expiry::Expires;

const MAX_NAME_BYTES: usize = 255;

/// Name and kind of a keyspace.
#[derive(Clone)]
pub struct SpaceName {
    pub name: Vec<u8>,
    pub is_expiring: bool,
}

impl SpaceName {
    /// Checks the name of a keyspace.
    ///
    /// # Errors
    /// A `ValueError` for a name of 0 bytes or of more than 255.
    pub fn check(name: &[u8]) -> PyResult<()> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let text = format!("'name' must have 1 to {MAX_NAME_BYTES} bytes");
            return Err(PyValueError::new_err(text));
        }
        Ok(())
    }
}

/// Opens keyspaces from one of the library's handles.
pub trait Spaces: Sized {
    /// Returns the keyspace `name`.
    ///
    /// # Errors
    /// [`minikv::Error::InvalidArgument`] for a name of 0 bytes or of more than 255, and if the
    /// database has a comparator.
    fn space(&self, name: &SpaceName) -> Result<Keyspace<Self>>;

    /// Returns the name and kind of the keyspace `name`: the one that is there if `is_expiring` is
    /// `None`, otherwise the one that is asked for.
    ///
    /// # Errors
    /// Those of [`Self::space`] and of reads; [`minikv::Error::InvalidArgument`] if the keyspace
    /// that is there is not the one that is asked for.
    fn find(&self, name: &[u8], is_expiring: Option<bool>) -> Result<SpaceName>;
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

            fn find(&self, name: &[u8], is_expiring: Option<bool>) -> Result<SpaceName> {
                let space = match is_expiring {
                    None => self.keyspace(name)?,
                    Some(true) => self.expiring_keyspace(name)?,
                    Some(false) => self.keyspace_of(KeyspaceKind::Ordinary, name)?,
                };
                Ok(SpaceName { name: name.to_vec(), is_expiring: space.is_expiring() })
            }
        })*
    };
}
spaces_of! { Db ReadOnlyDb Snapshot }

/// Returns the names and kinds of keyspaces.
pub fn names_of<H>(keyspaces: &[Keyspace<H>]) -> Vec<SpaceName> {
    let name_of = |space: &Keyspace<H>| SpaceName {
        name: space.name().to_vec(),
        is_expiring: space.is_expiring(),
    };
    keyspaces.iter().map(name_of).collect()
}

/// Reads from `$handle`, or from its keyspace `$space` if that is not `None`.
macro_rules! within {
    ($handle:expr, $space:expr, $from:ident => $call:expr) => {
        match $space {
            Some(space) => {
                let $from = &$crate::space::Spaces::space($handle, space)?;
                $call
            }
            None => {
                let $from = $handle;
                $call
            }
        }
    };
}
pub(crate) use within;

/// Collects writes.
pub trait Target {
    /// Adds a put to a keyspace. An entry of an ordinary keyspace never expires.
    fn put_at<H: Readable>(
        &mut self,
        space: &Keyspace<H>,
        key: &[u8],
        value: &[u8],
        expires: Expires,
    ) -> Result<()>;
}

macro_rules! targets {
    ($($target:ty)*) => {
        $(impl Target for $target {
            fn put_at<H: Readable>(
                &mut self,
                space: &Keyspace<H>,
                key: &[u8],
                value: &[u8],
                expires: Expires,
            ) -> Result<()> {
                match expires {
                    Expires::Never => {
                        self.put_in(space, key, value);
                        Ok(())
                    }
                    Expires::After(ttl) => self.put_for_in(space, key, value, ttl),
                    Expires::At(time) => self.put_until_in(space, key, value, time),
                }
            }
        })*
    };
}
targets! { WriteBatch Transaction }
