//! Bounds the log by its size. openraft counts entries, whatever their size.

use std::time::Duration;

use openraft::Raft;

use crate::kv::TypeConfig;
use crate::store::LogStore;

const INTERVAL: Duration = Duration::from_millis(500);

/// The sizes, in bytes, that bound the log.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Size of the entries since the last snapshot at which another snapshot is made.
    pub(crate) snapshot: u64,
    /// Size of the entries before the last snapshot that stay in the log.
    pub(crate) keep: u64,
}

/// Makes snapshots and purges the log when the log gets too large, until Raft stops.
pub(crate) async fn trim(raft: Raft<TypeConfig>, log: LogStore<TypeConfig>, limits: Limits) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let (snapshot, is_running) = {
            let metrics = raft.metrics();
            let metrics = metrics.borrow();
            (metrics.snapshot.map(|id| id.index), metrics.running_state.is_ok())
        };
        let new = log.bytes_after(snapshot);
        let made = match new > limits.snapshot {
            true => raft.trigger().snapshot().await,
            false => Ok(()),
        };
        let purged = match (log.end_before(new + limits.keep), snapshot) {
            (Some(end), Some(snapshot)) => raft.trigger().purge_log(end.min(snapshot)).await,
            _ => Ok(()),
        };
        if !is_running || made.is_err() || purged.is_err() {
            return;
        }
    }
}
