//! The option `--keyspace`, and reads and writes within the keyspace given by this option. Without
//! the option, reads and writes concern all keys.

use std::ffi::OsString;
use std::ops::Bound;
use std::time::Duration;

use minikv::bulk::TableWriter;
use minikv::{
    Bytes, Db, DeletedRange, Explanation, Iter, Keyspace, KeyspaceKind, Readable, Snapshot,
    Transaction, WriteBatch, WriteOptions,
};

use crate::args::Global;
use crate::codec::Format;
use crate::error::{CliError, Result};
use crate::system::argument_bytes;

const MAX_NAME_BYTES: usize = 255;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct InKeyspace {
    /// Work within this keyspace; `minikv keyspaces` lists them. NAME has 1 to 255 bytes, escaped
    #[arg(long, value_name = "NAME")]
    keyspace: Option<OsString>,
    /// The keyspace is an expiring one, as created by `put --ttl`; without this, either is found
    #[arg(long, requires = "keyspace")]
    expiring: bool,
}

/// The name of a keyspace; `None` for all keys of the database.
#[derive(Debug)]
pub struct Name(Option<KeyspaceId>);

/// The name of a keyspace, and whether an expiring one is asked for.
#[derive(Debug)]
struct KeyspaceId {
    name: Vec<u8>,
    is_expiring: bool,
}

impl InKeyspace {
    /// Returns the option with its keyspace marked as expiring.
    pub fn expiring(self) -> InKeyspace {
        InKeyspace { expiring: true, ..self }
    }

    /// Returns the keyspace name given on the command line.
    pub fn name(&self, global: &Global) -> Result<Name> {
        let Some(argument) = &self.keyspace else { return Ok(Name(None)) };
        let refused = |what| {
            let given = argument.to_string_lossy();
            Err(CliError::Usage(format!("--keyspace {given:?}: {what}")))
        };
        if global.ignores_comparator() {
            return refused("keyspaces need byte order, so leave --comparator out".to_string());
        }
        match argument_bytes(argument).and_then(|name| Format::Escaped.decode(&name)) {
            Ok(name) if (1..=MAX_NAME_BYTES).contains(&name.len()) => {
                Ok(Name(Some(KeyspaceId { name, is_expiring: self.expiring })))
            }
            Ok(name) => refused(format!("a name has 1 to 255 bytes, not {}", name.len())),
            Err(what) => refused(what),
        }
    }
}

/// Opens a keyspace of `$db`. If there is one of each kind, the ordinary one is meant, unless
/// `--expiring` asks for the other.
macro_rules! open {
    ($db:ident, $keys:ident) => {{
        let ordinary = $db.keyspace_of(KeyspaceKind::Ordinary, &$keys.name)?;
        match $keys.is_expiring {
            true => $db.expiring_keyspace(&$keys.name)?,
            false if ordinary.is_empty()? => $db.keyspace(&$keys.name)?,
            false => ordinary,
        }
    }};
}

impl Name {
    /// Returns the keys of `db` that a command may read.
    pub fn of_reader(&self, db: Snapshot) -> Result<ReadScope> {
        Ok(match &self.0 {
            None => ReadScope::All(db),
            Some(keys) => ReadScope::Keyspace(open!(db, keys)),
        })
    }

    /// Returns the keys of `db` that a command may write.
    pub fn of_writer(&self, db: &Db) -> Result<Target> {
        Ok(match &self.0 {
            None => Target::All(db.clone()),
            Some(keys) => Target::Keyspace(open!(db, keys)),
        })
    }
}

/// The keys to read: all keys of a database, or the keys of a keyspace.
pub enum ReadScope {
    All(Snapshot),
    Keyspace(Keyspace<Snapshot>),
}

impl ReadScope {
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(match self {
            ReadScope::All(db) => db.get(key)?,
            ReadScope::Keyspace(keyspace) => keyspace.get(key)?,
        })
    }

    pub fn explain(&self, key: &[u8]) -> Result<Explanation> {
        Ok(match self {
            ReadScope::All(db) => db.explain(key)?,
            ReadScope::Keyspace(keyspace) => keyspace.explain(key)?,
        })
    }

    pub fn range(&self, range: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Result<Iter> {
        Ok(match self {
            ReadScope::All(db) => db.range(range),
            ReadScope::Keyspace(keyspace) => keyspace.range(range),
        })
    }

    /// Visits every key and value in key order until `visit` returns false.
    pub fn each(&self, mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<()> {
        match self {
            ReadScope::All(db) => {
                let mut cursor = db.cursor()?;
                let mut valid = cursor.seek_to_first()?;
                while valid && visit(cursor.key(), cursor.value())? {
                    valid = cursor.next()?;
                }
            }
            ReadScope::Keyspace(keyspace) => {
                let mut cursor = keyspace.cursor()?;
                let mut valid = cursor.seek_to_first()?;
                while valid && visit(cursor.key(), cursor.value())? {
                    valid = cursor.next()?;
                }
            }
        }
        Ok(())
    }
}

/// The keys to write: all keys of a database, or the keys of a keyspace.
pub enum Target {
    All(Db),
    Keyspace(Keyspace),
}

impl Target {
    pub fn put(&self, batch: &mut WriteBatch, key: &[u8], value: &[u8]) {
        match self {
            Target::All(_) => batch.put(key, value),
            Target::Keyspace(keyspace) => batch.put_in(keyspace, key, value),
        }
    }

    pub fn delete(&self, batch: &mut WriteBatch, key: &[u8]) {
        match self {
            Target::All(_) => batch.delete(key),
            Target::Keyspace(keyspace) => batch.delete_in(keyspace, key),
        }
    }

    pub fn put_in_table(
        &self,
        writer: &mut TableWriter,
        key: &[u8],
        value: &[u8],
    ) -> minikv::Result<()> {
        match self {
            Target::All(_) => writer.put(key, value),
            Target::Keyspace(keyspace) => writer.put_in(keyspace, key, value),
        }
    }

    pub fn delete_range(
        &self,
        options: &WriteOptions,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Result<DeletedRange> {
        Ok(match self {
            Target::All(db) => db.writing(*options).delete_range(range)?,
            Target::Keyspace(keyspace) => keyspace.writing(*options).delete_range(range)?,
        })
    }

    pub fn get_in(&self, tx: &Transaction, key: &[u8]) -> minikv::Result<Option<Bytes>> {
        match self {
            Target::All(_) => tx.get(key),
            Target::Keyspace(keyspace) => tx.keyspace(keyspace).get(key),
        }
    }

    /// Adds a put to `batch`. Its value expires after `ttl`, or never if `ttl` is `None`.
    pub fn put_for(
        &self,
        batch: &mut WriteBatch,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> Result<()> {
        match (self, ttl) {
            (Target::Keyspace(keyspace), Some(ttl)) => {
                batch.put_for_in(keyspace, key, value, ttl)?
            }
            _ => self.put(batch, key, value),
        }
        Ok(())
    }

    pub fn put_in(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
    ) -> minikv::Result<()> {
        match (self, ttl) {
            (Target::Keyspace(keyspace), Some(ttl)) => tx.put_for_in(keyspace, key, value, ttl)?,
            _ => self.put_for_ever(tx, key, value),
        }
        Ok(())
    }

    fn put_for_ever(&self, tx: &mut Transaction, key: &[u8], value: &[u8]) {
        match self {
            Target::All(_) => tx.put(key, value),
            Target::Keyspace(keyspace) => tx.put_in(keyspace, key, value),
        }
    }

    pub fn delete_in(&self, tx: &mut Transaction, key: &[u8]) {
        match self {
            Target::All(_) => tx.delete(key),
            Target::Keyspace(keyspace) => tx.delete_in(keyspace, key),
        }
    }
}
