//! A snapshot: the database as it was at one moment.

use std::sync::Arc;

use crate::engine::read::view::{HeldSeq, ReadState};

/// The database as it was at one moment.
///
/// It holds a sequence number: while it lives, compactions keep what it sees. Clones are cheap
/// and hold it together. It borrows nothing and may outlive every other handle.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) held: Arc<HeldSeq>,
}

impl Snapshot {
    /// Takes a snapshot of the database as it is now.
    pub(crate) fn now(state: &Arc<ReadState>) -> Snapshot {
        Snapshot { held: Arc::new(HeldSeq::now(state)) }
    }

    /// The sequence number of the last write it sees.
    pub fn sequence(&self) -> u64 {
        self.held.seq()
    }
}
