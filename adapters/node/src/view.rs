//! Views: the whole database, or one of its keyspaces, at one moment, as a call reads it.

use std::ops::Bound;
use std::time::UNIX_EPOCH;

use minikv::{Expiry, Keyspace, Readable, Reader, Result, Snapshot};

use crate::error::Fault;
use crate::job::Reply;
use crate::space::{SpaceName, Spaces};

/// The keys from one bound to the other.
pub type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The database, or one of its keyspaces, at one moment.
pub enum View {
    Whole(Snapshot),
    Space(Keyspace<Snapshot>),
}

impl Readable for View {
    fn reader(&self) -> Reader<'_> {
        match self {
            View::Whole(snapshot) => snapshot.reader(),
            View::Space(space) => space.reader(),
        }
    }
}

impl View {
    /// Returns the view of the keyspace `space`, or of the whole database, at `moment`.
    pub fn new(moment: Snapshot, space: Option<&SpaceName>) -> Result<View> {
        Ok(match space {
            Some(space) => View::Space(moment.space(space)?),
            None => View::Whole(moment),
        })
    }

    /// Replies with the time at which the entry of `key` expires, in milliseconds since 1970, or
    /// with infinity.
    pub fn expiry(&self, key: &[u8]) -> Result<Reply, Fault> {
        let expiry = match self {
            View::Whole(_) => return Err(Fault::Other("not a keyspace".to_owned())),
            View::Space(space) => space.expiry(key)?,
        };
        Ok(match expiry {
            Some(Expiry::At(time)) => {
                let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
                Reply::Number(since.as_millis() as f64)
            }
            Some(Expiry::Never) => Reply::Number(f64::INFINITY),
            None => Reply::Nothing,
        })
    }
}
