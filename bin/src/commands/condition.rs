//! Conditional writes, which depend on the current value of a key: `--if-absent` and `--if-value`.

use std::time::Duration;

use minikv::{Db, WriteOptions};

use crate::args::Global;
use crate::error::{CliError, Result};
use crate::keyspace::Target;

/// The condition for a write.
#[derive(Debug)]
pub enum Condition {
    /// The key has no value.
    Absent,
    /// The key has this value.
    Value(Vec<u8>),
}

impl Condition {
    fn holds(&self, value: Option<&[u8]>) -> bool {
        match self {
            Condition::Absent => value.is_none(),
            Condition::Value(expected) => value == Some(expected),
        }
    }

    /// Writes to `key` in `target` if the condition holds. If `new` is a value, puts the value,
    /// with an optional time to live. If `new` is `None`, deletes the key.
    pub fn write(
        &self,
        (db, target, global): (&Db, &Target, &Global),
        options: &WriteOptions,
        key: &[u8],
        new: Option<(&[u8], Option<Duration>)>,
    ) -> Result<()> {
        let found = db.writing(*options).transact(|tx| {
            let old = target.get_in(tx, key)?;
            if self.holds(old.as_deref()) {
                match new {
                    Some((new, ttl)) => target.put_in(tx, key, new, ttl)?,
                    None => target.delete_in(tx, key),
                }
                return Ok(None);
            }
            Ok(Some(if old.is_some() { "another value" } else { "no value" }))
        })?;
        let Some(found) = found else { return Ok(()) };
        let key = global.key_format.unwrap_or_default().show(key);
        Err(CliError::Unmet(match self {
            Condition::Absent => format!("{key} already has a value; nothing was written"),
            Condition::Value(_) => {
                format!("{key} has {found}; nothing was written; `minikv get` shows what it has")
            }
        }))
    }
}
