//! Creates a new cluster of one node from a backup. The state in the backup becomes the state of
//! the node.
//!
//! The log begins after the last entry of the backup, as if all earlier entries had been purged.
//! Nodes that join therefore receive a snapshot, which contains the data.

use std::path::Path;

use minikv::{WriteBatch, WriteOptions};
use openraft::{BasicNode, LogId, Membership, StoredMembership, Vote};

use crate::store::backup::Origin;
use crate::store::cluster::ClusterFile;
use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::home::{Layout, StoreOptions};
use crate::store::state::Log;
use crate::store::{keys, snapshot};

impl Store {
    /// Creates the store of the node `id` in the new directory `dir`, from a copy of the database
    /// in `origin`, after every byte of the database was checked. Other nodes reach the node at
    /// `address`. Returns the id of the last log entry in the database.
    ///
    /// # Errors
    /// [`Error::Refused`] if `dir` exists; [`Error::Backup`] if the database is damaged or
    /// incomplete, or does not come from a replicated database; errors of files.
    pub fn restore(
        origin: Origin<'_>,
        dir: &Path,
        options: StoreOptions,
        id: u64,
        address: &str,
    ) -> Result<LogId<u64>> {
        let fs = options.fs.clone();
        let dir = &fs.absolute(dir).map_err(Error::file("resolve", dir))?;
        if fs.exists(dir).map_err(Error::file("query", dir))? {
            return Err(Error::Refused(format!("{}: exists already", dir.display())));
        }
        let database = options.database.clone().fs(fs);
        let last = origin.check(&options)?;

        // The store is built in a temporary directory next to `dir`. When the store is complete,
        // this directory is renamed to `dir`.
        let mut building = dir.as_os_str().to_os_string();
        building.push(".restoring");
        let building = Path::new(&building);
        super::files::remove_tree(&*options.fs, building)?;
        let store = Store::open(building, options.clone())?;
        let number = store.state().number + 1;
        let target = building.join(super::home::state_name(number));
        minikv::checkpoint(origin.dir(), &target, &database)?;
        begin(&store, number, last, id, address)?;
        store.set_cluster(&ClusterFile::random()?)?;
        store.home.set_live(number)?;
        drop(store);
        super::files::rename(&*options.fs, building, dir)?;
        Ok(last)
    }
}

/// Changes the state with this number into the state of a cluster of one node, with an empty log.
fn begin(store: &Store, number: u64, last: LogId<u64>, id: u64, address: &str) -> Result<()> {
    let sync = WriteOptions::default().sync(true);
    let state = store.open_state(number)?;
    let db = state.db();
    for name in [keys::LOG, keys::META] {
        db.keyspace(name)?.clear()?;
    }
    let node = BasicNode::new(address);
    let members =
        Membership::new(vec![[id].into()], std::collections::BTreeMap::from([(id, node)]));
    let json = serde_json::to_vec(&StoredMembership::new(Some(last), members))
        .map_err(|e| Error::format("a membership", e.to_string()))?;
    debug_assert!(snapshot::decode_membership::<BasicNode>(Some(&json)).is_ok());
    state.spaces().state.writing(sync).put(keys::MEMBERSHIP, json)?;

    let log = match store.layout() {
        Layout::One => Log::of(db)?,
        Layout::Two => Log::of(&store.log_db())?,
    };
    let mut batch = WriteBatch::new();
    let vote = Vote::new(last.leader_id.term, id);
    batch.put_in(&log.meta, keys::VOTE, keys::encode_vote(&vote));
    batch.put_in(&log.meta, keys::PURGED, keys::encode_log_id(&last));
    batch.put_in(&log.meta, keys::COMMITTED, keys::encode_log_id(&last));
    Ok(log.db.writing(sync).write(batch)?)
}
