//! Replaces the state of a node with a snapshot.
//!
//! 1. The snapshot, which is complete and durable, is moved into `snapshots/`. From here on,
//!    opening the store would install the snapshot.
//! 2. A database is created from the snapshot, with hard links to the tables of the snapshot. If
//!    the log and the state share a database, the log of this node replaces the log in the new
//!    database. The snapshot itself does not change.
//! 3. `LIVE` is replaced atomically and now names the new database.
//! 4. New reads use the new database. The old database is removed when its last reader has ended.

use std::path::Path;
use std::sync::Arc;

use minikv::{Readable, WriteBatch, WriteOptions};
use openraft::{LogId, Node, SnapshotMeta};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::files;
use crate::store::home::{Layout, state_name};
use crate::store::snapshot::{self, DB, SnapshotDir};
use crate::store::state::{Current, Log, State};

/// Size of the log entries, in bytes, above which a batch of copied entries is written.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// Installs a snapshot that was received.
pub(crate) fn install<N: Node>(
    store: &Store,
    meta: &SnapshotMeta<u64, N>,
    received: &SnapshotDir,
) -> Result<()> {
    let mut current = store.snapshot();
    let home = &store.home;
    let id = &meta.snapshot_id;
    if !snapshot::is_good_id(id) {
        return Err(Error::Refused(format!("`{id}` is not the id of a snapshot")));
    }
    let path = home.snapshots().join(id);
    if received.path()? != path {
        let waiting = match received.path()?.starts_with(home.incoming()) {
            true => received.path()?.to_path_buf(),
            false => copy(store, received, meta)?,
        };
        keep(store, &waiting, &path)?;
    }
    let snapshot = SnapshotDir::new(&home.fs, path);
    replace_state(store, &snapshot)?;
    if let Some(older) = current.replace(snapshot.clone())
        && older.path()? != snapshot.path()?
    {
        older.make_obsolete();
    }
    Ok(())
}

/// Moves the complete snapshot `waiting` to `path` in `snapshots/`.
fn keep(store: &Store, waiting: &Path, path: &Path) -> Result<()> {
    let fs = &*store.home.fs;
    if fs.exists(path).map_err(Error::file("query", path))? {
        files::remove_tree(fs, waiting)?;
    } else {
        files::move_to(fs, waiting, path)?;
    }
    store.received().retain(|other| other.path().is_ok_and(|other| other != waiting));
    Ok(())
}

/// Performs step 1 of the list at the beginning of this file, if the state does not contain the
/// entry `id` and a received snapshot does. openraft 0.9 asks for the installation of a snapshot
/// and for the purge of the log at once, and a purged log needs a snapshot that a crash cannot
/// undo.
pub(crate) fn keep_received(store: &Store, id: LogId<u64>) -> Result<()> {
    if store.state().applied()? >= Some(id) {
        return Ok(());
    }
    // Until here, an installation may have been under way.
    let _current = store.snapshot();
    let received = store.received().clone();
    for received in received {
        if snapshot::read_last_log_id(&received)? >= Some(id) {
            let path = store.home.snapshots().join(received.id()?);
            return keep(store, received.path()?, &path);
        }
    }
    Ok(())
}

/// Copies a snapshot from another directory into `incoming/`, using hard links where possible.
fn copy<N: Node>(
    store: &Store,
    from: &SnapshotDir,
    meta: &SnapshotMeta<u64, N>,
) -> Result<std::path::PathBuf> {
    let fs = &*store.home.fs;
    let to = store.home.incoming().join(&meta.snapshot_id);
    files::remove_tree(fs, &to)?;
    files::create_dir(fs, &to.join(DB))?;
    let listed = from.files()?;
    for file in &listed {
        let is_table = Path::new(&file.name).extension().is_some_and(|e| e == "ldb" || e == "sst");
        let (source, target) =
            (from.path()?.join(DB).join(&file.name), to.join(DB).join(&file.name));
        files::link_or_copy(fs, &source, &target, is_table)?;
    }
    files::sync_dir(fs, &to.join(DB))?;
    snapshot::write_head(fs, &to, &snapshot::new_head(meta.clone(), listed))?;
    Ok(to)
}

/// Performs steps 2 to 4 of the list at the beginning of this file.
pub(crate) fn replace_state(store: &Store, snapshot: &SnapshotDir) -> Result<()> {
    let home = &store.home;
    let number = store.state().number + 1;
    let dir = home.path(&state_name(number));
    files::remove_tree(&*home.fs, &dir)?;
    minikv::checkpoint(snapshot.path()?.join(DB), &dir, &home.options)?;
    files::sync_dir(&*home.fs, &home.dir)?;
    let state = Arc::new(store.open_state(number)?);
    let (found, expected) = (state.applied()?, snapshot::read_last_log_id(snapshot)?);
    if found != expected {
        let what = format!("the state ends at {found:?}, but `SNAPSHOT` says {expected:?}");
        return Err(Error::Damaged { what: format!("{}: {what}", snapshot.path()?.display()) });
    }
    store.with_current(|current| swap(store, current, state))
}

fn swap(store: &Store, current: &mut Current, state: Arc<State>) -> Result<()> {
    let log = match store.home.layout {
        Layout::Two => current.log.clone(),
        Layout::One => {
            let log = Log::of(state.db())?;
            take_over_log(&current.log, &log)?;
            log
        }
    };
    store.home.set_live(state.number)?;
    let old = std::mem::replace(current, Current { state, log });
    old.state.make_obsolete();
    Ok(())
}

/// Durably replaces `to`, the log that came with the snapshot, with `from`, the log of this node.
fn take_over_log(from: &Log, to: &Log) -> Result<()> {
    to.entries.clear()?;
    to.meta.clear()?;
    let mut batch = WriteBatch::new();
    for (source, target) in [(&from.meta, &to.meta), (&from.entries, &to.entries)] {
        for entry in source.iter() {
            let (key, value) = entry?;
            batch.put_in(target, key, value);
            if batch.approximate_bytes() > COPY_BATCH_BYTES {
                to.db.write(std::mem::take(&mut batch))?;
            }
        }
    }
    to.db.writing(WriteOptions::default().sync(true)).write(batch)?;
    Ok(())
}
