//! Makes snapshots of the current state.

use std::path::Path;

use minikv::fs::Fs;
use minikv::{Db, Readable};
use openraft::{LogId, Node, SnapshotMeta};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::snapshot::{
    BUILDING, DB, SnapshotDir, SnapshotFile, decode_membership, new_head, write_head,
};
use crate::store::{files, keys};

/// Makes a snapshot of the state as it is now, while writes continue. If the latest snapshot
/// already contains this state, returns that snapshot instead.
pub(crate) fn build<N: Node>(store: &Store) -> Result<(SnapshotMeta<u64, N>, SnapshotDir)> {
    let mut current = store.snapshot();
    let home = &store.home;
    let fs = &*home.fs;
    let building = home.snapshots().join(BUILDING);
    // Otherwise a part of a directory that was removed would be made again.
    store.check_home()?;
    files::remove_tree(fs, &building)?;
    files::create_dir(fs, &building)?;
    let db = building.join(DB);
    store.state().db().checkpoint(&db)?;

    let copy = Db::open_read_only(&db, home.options.clone())?;
    let state = copy.keyspace(keys::STATE)?;
    let applied = state.get(keys::APPLIED)?;
    let last_log_id =
        applied.map(|bytes| keys::decode_log_id(keys::APPLIED, &bytes)).transpose()?;
    let last_membership = decode_membership(state.get(keys::MEMBERSHIP)?.as_deref())?;
    drop((state, copy));
    if let Some(snapshot) = &*current
        && last_log_id.is_some()
    {
        let head = snapshot.head::<N>()?;
        if head.meta.last_log_id == last_log_id {
            files::remove_tree(fs, &building)?;
            return Ok((head.meta, snapshot.clone()));
        }
    }

    let id = snapshot_id(last_log_id.as_ref())?;
    let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id: id.clone() };
    write_head(fs, &building, &new_head(meta.clone(), database_files(fs, &db)?))?;
    // Once the snapshot is complete, the log may be purged up to the last entry in the snapshot.
    // From then on, a crash must not lose any change of the state up to that entry.
    store.state().db().sync()?;
    let path = home.snapshots().join(&id);
    files::rename(fs, &building, &path)?;
    let snapshot = SnapshotDir::new(&home.fs, path);
    if let Some(older) = current.replace(snapshot.clone()) {
        older.make_obsolete();
    }
    Ok((meta, snapshot))
}

/// Returns the files of a checkpoint that are part of the database.
fn database_files(fs: &dyn Fs, db: &Path) -> Result<Vec<SnapshotFile>> {
    let mut found = Vec::new();
    for name in files::list(fs, db)? {
        let path = db.join(&name);
        let bytes = fs.len(&path).map_err(Error::file("query", &path))?;
        let file = SnapshotFile { name, bytes };
        if file.has_good_name() {
            found.push(file);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Returns a name for a snapshot. The name differs from the names of all other snapshots, even of a
/// snapshot that another node makes at the same log entry: an interrupted transfer must not
/// continue with another node's files.
fn snapshot_id(last: Option<&LogId<u64>>) -> Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|e| Error::Refused(format!("no random numbers from the system: {e}")))?;
    let random = u64::from_be_bytes(random);
    let (term, node, index) =
        last.map_or((0, 0, 0), |id| (id.leader_id.term, id.leader_id.node_id, id.index));
    Ok(format!("{term}-{node}-{index}-{random:016x}"))
}
