//! Snapshots: the database as it was at one point in time.

use std::sync::Arc;

use crate::engine::read::view::{ReadSeq, ReadState, ReadView};

/// The database as it was at one point in time. It has all the reads of
/// [`Readable`](crate::Readable).
///
/// A snapshot holds a sequence number, and shows the writes up to that number. While the snapshot
/// exists, compactions keep all versions that it shows, so a snapshot held for long costs disk
/// space. After a range delete, and after a compaction filter has changed something, the snapshot
/// keeps the tables and memtables from before the change. Clones are cheap and share the sequence
/// number. A snapshot borrows nothing, and may outlive every other handle of the database.
///
/// ```
/// # use minikv::{Db, Readable};
/// # let dir = tempfile::tempdir()?;
/// # let db = Db::create(dir.path())?;
/// db.put("stock", "5")?;
/// let morning = db.snapshot();
/// db.delete("stock")?;
/// assert!(morning.contains_key("stock")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) seq: Arc<ReadSeq>,
}

impl Snapshot {
    /// Returns a snapshot of the database as it is now.
    pub(crate) fn now(state: &Arc<ReadState>) -> Snapshot {
        Snapshot::with_view(state).0
    }

    /// Returns a snapshot of the database as it is now, and the view that has the last write of the
    /// snapshot as its own.
    pub(crate) fn with_view(state: &Arc<ReadState>) -> (Snapshot, Arc<ReadView>) {
        let (seq, view) = ReadSeq::now(state);
        (Snapshot { seq: Arc::new(seq) }, view)
    }

    /// Returns the sequence number of the last write that the snapshot shows; 0 if it shows no
    /// write.
    pub fn sequence(&self) -> u64 {
        self.seq.sequence()
    }
}
