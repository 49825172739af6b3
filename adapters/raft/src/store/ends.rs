//! Checks that the log and the state of a node fit together.

use minikv::Readable;
use openraft::LogId;

use crate::store::error::{Error, Result};
use crate::store::keys;
use crate::store::state::{Log, State};

/// Checks that the log has all entries after the purged ones and up to the end of the state.
/// `installed` is the last entry of the current snapshot, which may be newer than the log if a
/// crash came between the installation of the snapshot and the purge of the log.
pub(crate) fn check(log: &Log, state: &State, installed: Option<LogId<u64>>) -> Result<()> {
    let (purged, applied) = (log.id(keys::PURGED)?, state.applied()?);
    let dir = log.db.path().display().to_string();
    let damaged = |what: String| Err(Error::Damaged { what: format!("{dir}: {what}") });
    let index = |id: Option<LogId<u64>>| id.map(|id| id.index);
    let name = |index: Option<u64>| index.map_or("no entry".into(), |i| format!("entry {i}"));
    if index(purged) > index(applied) {
        let (purged, applied) = (name(index(purged)), name(index(applied)));
        return damaged(format!("the log begins after {purged}, but the state ends at {applied}"));
    }
    let start = purged.map_or(Some(0), |id| id.index.checked_add(1));
    let mut cursor = log.entries.cursor()?;
    if let Some(start) = start
        && cursor.seek(start.to_be_bytes())?
        && keys::index_of(cursor.key())? != start
    {
        let first = keys::index_of(cursor.key())?;
        return damaged(format!("the log begins at entry {first} instead of entry {start}"));
    }
    let last = match log.entries.last_key_value()? {
        Some((key, value)) => Some(keys::decode_id(keys::index_of(&key)?, &value)?).max(purged),
        None => purged,
    };
    if last < applied && applied != installed {
        let (last, applied) = (name(index(last)), name(index(applied)));
        return damaged(format!("the log ends at {last}, but the state contains {applied}"));
    }
    Ok(())
}
