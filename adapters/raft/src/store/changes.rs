//! The writes of one call of `apply`. Every command sees the writes of the earlier commands. All
//! writes, and the id of the last entry, are written in one batch.

use std::collections::HashMap;

use bytes::Bytes;
use minikv::{Keyspace, Readable, WriteBatch};

use crate::store::error::Result;
use crate::store::state::State;

/// A keyspace that a state machine can write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The user's entries.
    Data,
    /// The state machine's records of its clients.
    Sessions,
}

/// The stored state, and the changes that are not written yet.
pub struct Changes<'s> {
    state: &'s State,
    batch: WriteBatch,
    pending: HashMap<(Space, Bytes), Option<Bytes>>,
}

impl<'s> Changes<'s> {
    pub(crate) fn new(state: &'s State) -> Changes<'s> {
        Changes { state, batch: WriteBatch::new(), pending: HashMap::new() }
    }

    fn keyspace(&self, space: Space) -> &'s Keyspace {
        match space {
            Space::Data => &self.state.spaces().data,
            Space::Sessions => &self.state.spaces().sessions,
        }
    }

    /// Returns the value of `key`, including the changes so far.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn get(&self, space: Space, key: &Bytes) -> Result<Option<Bytes>> {
        match self.pending.get(&(space, key.clone())) {
            Some(value) => Ok(value.clone()),
            None => Ok(self.keyspace(space).get(key)?),
        }
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, space: Space, key: Bytes, value: Bytes) {
        self.batch.put_in(self.keyspace(space), &key, &value);
        self.pending.insert((space, key), Some(value));
    }

    /// Deletes `key`.
    pub fn delete(&mut self, space: Space, key: Bytes) {
        self.batch.delete_in(self.keyspace(space), &key);
        self.pending.insert((space, key), None);
    }

    /// Returns the stored state, without the changes.
    pub fn state(&self) -> &State {
        self.state
    }

    pub(crate) fn into_batch(self) -> WriteBatch {
        self.batch
    }
}
