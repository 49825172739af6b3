//! The health of an open database.

use std::path::PathBuf;

use crate::base::Error;
use crate::engine::report::event::StallCause;

/// Operations that a database currently serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthState {
    /// Reads and writes.
    Good,
    /// Reads and writes, but compactions fail or cannot use damaged tables. Writes stop once level
    /// 0 is full and cannot be compacted for that reason.
    Degraded,
    /// Reads only, until [`Db::resume`](crate::Db::resume) or the next open.
    ReadOnly,
}

/// Operations that a database serves, and the failures that restrict them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// State of the database: which operations it serves.
    pub state: HealthState,
    /// The failure that caused `state`; `None` if `state` is [`HealthState::Good`].
    pub error: Option<Error>,
    /// Number of compactions that failed since the last one that succeeded.
    pub compaction_failures: u32,
    /// Tables that no compaction can read, each with its error. Reads of these tables return
    /// correct results or errors.
    pub damaged_tables: Vec<(PathBuf, Error)>,
    /// Cause of the current write stall; `None` if no write waits.
    pub stall: Option<StallCause>,
    /// Whether the directory is locked against other processes. False only with
    /// [`Options::allow_no_lock`](crate::Options::allow_no_lock) on a filesystem without locks.
    pub has_lock: bool,
    /// Whether the filesystem can sync directories. If not, it alone decides when the names of new
    /// files are durable: if it loses them in a crash, synced writes may be lost.
    pub syncs_names: bool,
}
