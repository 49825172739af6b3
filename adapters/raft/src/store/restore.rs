//! Creates a new cluster of one node from a backup. The state in the backup becomes the state of
//! the node.
//!
//! The log begins long after the last entry of the backup, as if all earlier entries had been
//! purged. Nodes that join therefore receive a snapshot, which contains the data. No cluster that
//! has gone on after the backup has reached the entries of the new one, nor has another cluster
//! from the same backup: so what was numbered by an entry there, such as a session or a change, is
//! unknown here, and is not taken for another one.

use std::path::{Path, PathBuf};

use minikv::{WriteBatch, WriteOptions};
use openraft::{BasicNode, LogId, Membership, StoredMembership, Vote};

use crate::store::backup::Origin;
use crate::store::cluster::ClusterFile;
use crate::store::disk::Store;
use crate::store::error::{Error, Result};
use crate::store::home::{Layout, StoreOptions};
use crate::store::state::Log;
use crate::store::{keys, snapshot};

/// Number of entries that no cluster appends after a backup: at 5,000 entries per second, it would
/// take 159 days.
const GAP: u64 = 1 << 36;
/// The last entry after which a log may begin. The numbers of sessions have 12 bits more than those
/// of entries.
const LAST_INDEX: u64 = u64::MAX >> 16;

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
        let dir = fs.absolute(dir).map_err(Error::file("resolve", dir))?;
        // Without a slash at the end, behind which the suffix would be a name in `dir`.
        let dir = &dir.components().collect::<PathBuf>();
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
        begin(&store, number, after_gap(last)?, id, address)?;
        store.set_cluster(&ClusterFile::random()?)?;
        store.claim(id)?;
        store.home.set_live(number)?;
        drop(store);
        super::files::rename(&*options.fs, building, dir)?;
        Ok(last)
    }
}

/// Returns the id of the entry after which the log of a new cluster begins, which is made from a
/// state that ends with the entry `last`.
fn after_gap(last: LogId<u64>) -> Result<LogId<u64>> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|e| Error::Refused(format!("no random numbers from the system: {e}")))?;
    let gap = GAP + u64::from_be_bytes(random) % GAP;
    match last.index.checked_add(gap).filter(|index| *index <= LAST_INDEX) {
        Some(index) => Ok(LogId::new(last.leader_id, index)),
        None => Err(Error::Refused(format!("no cluster can begin after entry {}", last.index))),
    }
}

/// Changes the state with this number into the state of a cluster of one node, with an empty log
/// that begins after the entry `last`.
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
    let mut batch = WriteBatch::new();
    batch.put_in(&state.spaces().state, keys::MEMBERSHIP, json);
    batch.put_in(&state.spaces().state, keys::APPLIED, keys::encode_log_id(&last));
    db.writing(sync).write(batch)?;

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
