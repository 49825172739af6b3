//! Replacing the state with a snapshot.
//!
//! 1. The snapshot, complete and durable, is renamed into `snapshots/`. From here on, an open of
//!    the store installs it.
//! 2. A database is made from the snapshot with hard links to its tables; the snapshot itself does
//!    not change. If log and state share a database, this node's log replaces the one in the
//!    snapshot.
//! 3. `LIVE` is replaced atomically and now names the new database.
//! 4. New reads use the new database. The old one is removed when its last reader ends.

use std::path::Path;
use std::sync::Arc;

use minikv::{WriteBatch, WriteOptions};
use openraft::{Node, SnapshotMeta};

use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::files;
use crate::store::home::{Layout, state_name};
use crate::store::snapshot::{self, DB, SnapshotDir};
use crate::store::state::{Current, Log, State};

/// Size of the log entries that are copied in one batch, in bytes.
const COPY_BATCH_BYTES: usize = 1 << 20;

/// Installs a snapshot that has been received.
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
    let fs = &*home.fs;
    if received.path()? != path {
        let waiting = match received.path()?.starts_with(home.incoming()) {
            true => received.path()?.to_path_buf(),
            false => copy(store, received, meta)?,
        };
        if fs.exists(&path).map_err(Error::file("query", &path))? {
            files::remove_tree(fs, &waiting)?;
        } else {
            files::move_to(fs, &waiting, &path)?;
        }
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

/// Copies a snapshot from another directory into `incoming/`, with hard links where possible.
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

/// Performs steps 2 to 4 of the list at the top of this file.
pub(crate) fn replace_state(store: &Store, snapshot: &SnapshotDir) -> Result<()> {
    let home = &store.home;
    let number = store.state().number + 1;
    let dir = home.path(&state_name(number));
    files::remove_tree(&*home.fs, &dir)?;
    minikv::checkpoint(snapshot.path()?.join(DB), &dir, &home.options)?;
    files::sync_dir(&*home.fs, &home.dir)?;
    let state = Arc::new(store.open_state(number)?);
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

/// Durably replaces the log `to`, which came with the snapshot, with `from`, the log of this node.
fn take_over_log(from: &Log, to: &Log) -> Result<()> {
    to.entries.clear()?;
    to.meta.clear()?;
    let mut batch = WriteBatch::new();
    for (source, target) in [(&from.meta, &to.meta), (&from.entries, &to.entries)] {
        for entry in source.iter()? {
            let (key, value) = entry?;
            batch.put_in(target, key, value);
            if batch.approximate_bytes() > COPY_BATCH_BYTES {
                to.db.write(std::mem::take(&mut batch))?;
            }
        }
    }
    to.db.write_with(&WriteOptions::default().sync(true), batch)?;
    Ok(())
}
