//! Tests crashes at every operation of the filesystem. After a crash, acknowledged data must be
//! there, and the log and the state must agree.
//!
//! A workload of votes, appends, truncations, applications, snapshots, purges, an interrupted
//! transfer and an installed snapshot runs on the simulated filesystem. For each operation of the
//! filesystem and for several kinds of crash, the test opens the store as the crash left it, and
//! compares its contents with the promises that the store made before the crash.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use minikv::fs::SimFs;
use minikv::fs::sim::CrashPlan;
use minikv::{Db, Readable};
use minikv_raft::kv::TypeConfig;
use minikv_raft::store::Layout;
use openraft::storage::{
    RaftLogReaderExt, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper,
};
use openraft::{RaftSnapshotBuilder, SnapshotMeta, Vote};

use crate::common::{Data, LAYOUTS, Opened, data_after, entry, id, members, open};

const NODE: &str = "/node";
const OTHER: &str = "/other";

/// The state that a store has promised to keep so far.
#[derive(Clone, Debug, Default, PartialEq)]
struct Promise {
    vote: Option<Vote<u64>>,
    /// The term of each log entry, by index.
    log: BTreeMap<u64, u64>,
    purged: Option<u64>,
    /// The index of the last entry in a snapshot. The state must not lose this entry.
    durable: Option<u64>,
    snapshot: Option<u64>,
}

/// The workload. Contains the store under test, and the promises of the store after each operation
/// of the workload.
struct Workload {
    fs: SimFs,
    /// Number of the last operation of the filesystem before the store under test is opened.
    first: u64,
    opened: Opened,
    now: Promise,
    promises: Vec<(u64, Promise)>,
}

impl Workload {
    async fn start(fs: &SimFs, layout: Layout) -> Workload {
        let first = fs.op_count();
        let opened = open(Arc::new(fs.clone()), Path::new(NODE), layout).unwrap();
        let (fs, now) = (fs.clone(), Promise::default());
        let promises = vec![(fs.op_count(), now.clone())];
        Workload { fs, first, opened, now, promises }
    }

    fn promise(&mut self) {
        self.promises.push((self.fs.op_count(), self.now.clone()));
    }

    async fn vote(&mut self, term: u64) {
        let vote = Vote::new_committed(term, 1);
        self.opened.1.save_vote(&vote).await.unwrap();
        self.now.vote = Some(vote);
        self.promise();
    }

    async fn append(&mut self, term: u64, indices: std::ops::Range<u64>) {
        let entries = indices.clone().map(|index| entry(term, index));
        self.opened.1.blocking_append(entries).await.unwrap();
        self.opened.0.log_durable().await.unwrap();
        self.now.log.extend(indices.map(|index| (index, term)));
        self.promise();
    }

    async fn truncate(&mut self, term: u64, index: u64) {
        self.opened.1.truncate(id(term, index)).await.unwrap();
        self.now.log.split_off(&index);
        self.promise();
    }

    async fn apply(&mut self, term: u64, indices: std::ops::Range<u64>) {
        let last = id(term, indices.end - 1);
        self.opened.1.save_committed(Some(last)).await.unwrap();
        self.opened.2.apply(indices.map(|index| entry(term, index))).await.unwrap();
    }

    async fn snapshot(&mut self) {
        let snapshot = self.opened.2.build_snapshot().await.unwrap();
        let last = snapshot.meta.last_log_id.map(|id| id.index);
        (self.now.snapshot, self.now.durable) = (last, last);
        self.promise();
    }

    async fn purge(&mut self, term: u64, index: u64) {
        self.opened.1.purge(id(term, index)).await.unwrap();
        self.now.log = self.now.log.split_off(&(index + 1));
        self.now.purged = Some(index);
        self.promise();
    }

    /// Receives the snapshot of the store `other`, or only about half of the snapshot if `cut` is
    /// true. Returns the metadata of the snapshot.
    async fn receive(
        &mut self,
        other: &Opened,
        cut: bool,
    ) -> SnapshotMeta<u64, openraft::BasicNode> {
        let snapshot = other.2.clone().get_current_snapshot().await.unwrap().unwrap();
        let (id, files) = (snapshot.meta.snapshot_id.clone(), snapshot.snapshot.files().unwrap());
        let mut at = self.opened.0.offer_snapshot(&id, files.clone()).unwrap();
        while let Some(file) = files.get(at.file) {
            let mut chunk = vec![0; (file.bytes - at.offset).min(3000) as usize];
            snapshot.snapshot.read_at(&file.name, &mut chunk, at.offset).unwrap();
            let next = self.opened.0.add_chunk(&id, at, &chunk).unwrap();
            // Sends the same chunk again, as a sender does after it has lost an answer.
            assert_eq!(self.opened.0.add_chunk(&id, at, &chunk).unwrap(), next);
            at = next;
            if cut && at.file > files.len() / 2 {
                break;
            }
        }
        if cut {
            assert!(self.opened.0.finish_transfer(&snapshot.meta).is_err());
        }
        snapshot.meta
    }

    async fn install(&mut self, other: &Opened) {
        let meta = self.receive(other, false).await;
        let received = self.opened.0.finish_transfer(&meta).unwrap();
        self.opened.2.install_snapshot(&meta, Box::new(received)).await.unwrap();
        let last = meta.last_log_id.map(|id| id.index);
        (self.now.snapshot, self.now.durable) = (last, last);
        self.promise();
    }
}

async fn run(fs: &SimFs, layout: Layout) -> Workload {
    // The other store is created first, so that its operations are not crash points.
    let mut other = open(Arc::new(fs.clone()), Path::new(OTHER), layout).unwrap();
    other.2.apply((0..90).map(|index| entry(1, index))).await.unwrap();
    other.2.build_snapshot().await.unwrap();
    fs.sync_all();
    fs.record_history();

    let mut w = Workload::start(fs, layout).await;
    w.vote(1).await;
    w.append(1, 0..10).await;
    w.append(1, 10..30).await;
    w.apply(1, 0..12).await;
    w.append(1, 30..31).await;
    w.apply(1, 12..31).await;
    w.snapshot().await;
    w.append(1, 31..50).await;
    w.purge(1, 25).await;
    w.vote(2).await;
    w.truncate(1, 45).await;
    w.append(2, 45..60).await;
    w.apply(1, 31..41).await;
    w.snapshot().await;
    w.purge(1, 40).await;
    w.receive(&other, true).await;
    w.append(2, 60..62).await;
    w.install(&other).await;
    w.purge(1, 89).await;
    w.append(2, 90..95).await;
    w.apply(2, 90..93).await;
    w.snapshot().await;
    w.vote(3).await;
    w
}

/// Opens the store that a crash has left behind. Compares the store with the promises before the
/// interrupted operation and with the promises after it.
async fn check(
    image: &SimFs,
    layout: Layout,
    before: &Promise,
    after: &Promise,
) -> Result<(), String> {
    let fs = Arc::new(image.clone());
    let opened = open(fs.clone(), Path::new(NODE), layout);
    let (store, mut log, mut machine) = opened.map_err(|e| format!("does not open: {e}"))?;
    let failed = |e: openraft::StorageError<u64>| e.to_string();

    let vote = log.read_vote().await.map_err(failed)?;
    if vote != before.vote && vote != after.vote {
        return Err(format!("vote {vote:?}"));
    }

    let state = log.get_log_state().await.map_err(failed)?;
    let entries = log.get_log_entries(..).await.map_err(failed)?;
    let found: BTreeMap<u64, u64> =
        entries.iter().map(|e| (e.log_id.index, e.log_id.leader_id.term)).collect();
    let purged = state.last_purged_log_id.map(|id| id.index);
    if purged != before.purged && purged != after.purged {
        return Err(format!("purged {purged:?}"));
    }
    for (index, term) in &before.log {
        let may_be_gone = after.log.get(index) != Some(term);
        if found.get(index) != Some(term) && !may_be_gone {
            return Err(format!("entry {index} of term {term} is {:?}", found.get(index)));
        }
    }
    for found in &entries {
        let index = found.log_id.index;
        let is_known = |promise: &Promise| {
            promise.log.get(&index).is_some_and(|term| *found == entry(*term, index))
        };
        if !is_known(before) && !is_known(after) {
            return Err(format!("entry {index} was never appended so"));
        }
    }
    let indices: Vec<u64> = found.keys().copied().collect();
    if indices.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        return Err(format!("a hole in the log: {indices:?}"));
    }

    let (applied, membership) = machine.applied_state().await.map_err(failed)?;
    let applied = applied.map(|id| id.index);
    if applied < before.durable || applied < purged {
        return Err(format!("applied {applied:?}, but purged {purged:?}"));
    }
    let data = read(store.state().data().iter())?;
    if data != data_after(applied) {
        return Err(format!("the data is not that after entry {applied:?}"));
    }
    let voters: Vec<u64> = membership.membership().voter_ids().collect();
    let expected: Vec<u64> =
        applied.map_or(Vec::new(), |index| members(index).into_iter().collect());
    if voters != expected {
        return Err(format!("members {voters:?} after entry {applied:?}"));
    }

    let snapshot = machine.get_current_snapshot().await.map_err(failed)?;
    let last = snapshot.as_ref().and_then(|s| s.meta.last_log_id).map(|id| id.index);
    if last != before.snapshot && last != after.snapshot {
        return Err(format!("snapshot {last:?}"));
    }
    if last > applied {
        return Err(format!("snapshot {last:?} was not installed; applied {applied:?}"));
    }
    if let Some(snapshot) = snapshot {
        let path = snapshot.snapshot.path().map_err(|e| e.to_string())?.join("db");
        let options = minikv::Options::default().fs(fs.clone());
        let db = Db::open_read_only(&path, options).map_err(|e| format!("the snapshot: {e}"))?;
        let copy = db.keyspace("data").map_err(|e| e.to_string())?;
        if read(copy.iter())? != data_after(last) {
            return Err(format!("the snapshot is not the data after entry {last:?}"));
        }
    }
    // When openraft starts, it calls this function, which applies committed entries that may not
    // have been applied.
    let mut helper = StorageHelper::<TypeConfig, _, _>::new(&mut log, &mut machine);
    helper.get_initial_state().await.map_err(|e| format!("openraft does not start: {e}"))?;

    // The opened store must also accept new entries.
    let next = log.get_log_state().await.map_err(failed)?.last_log_id.map_or(0, |id| id.index + 1);
    log.blocking_append([entry(9, next)]).await.map_err(failed)?;
    store.log_durable().await.map_err(|e| e.to_string())?;
    log.save_vote(&Vote::new(9, 1)).await.map_err(failed)?;
    drop((store, log, machine));
    let strict = image.crash_image(&CrashPlan::strict());
    let (_, mut log, _) =
        open(Arc::new(strict), Path::new(NODE), layout).map_err(|e| format!("again: {e}"))?;
    let last = log.try_get_log_entry(next).await.map_err(failed)?;
    let vote = log.read_vote().await.map_err(failed)?;
    match last.is_some_and(|last| last == entry(9, next)) && vote == Some(Vote::new(9, 1)) {
        true => Ok(()),
        false => Err("what was written after the crash is lost".into()),
    }
}

fn read(entries: minikv::Iter) -> Result<Data, String> {
    let owned = |entry: minikv::Result<(minikv::Bytes, minikv::Bytes)>| {
        let (key, value) = entry.map_err(|e| e.to_string())?;
        Ok((key.to_vec(), value.to_vec()))
    };
    entries.map(owned).collect()
}

fn at_every_operation(layout: Layout) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let fs = SimFs::new(11);
    let w = runtime.block_on(run(&fs, layout));
    let last = fs.op_count();
    let seeds: u64 = std::env::var("MINIKV_RAFT_CRASHES").map_or(1, |n| n.parse().unwrap());
    let mut images = 0;
    for op in w.first..=last {
        let mut plans =
            vec![CrashPlan::strict(), CrashPlan::everything(), CrashPlan::process_kill()];
        plans.extend((0..seeds).map(|seed| CrashPlan::random(op * 1000 + seed)));
        for plan in plans {
            let plan = plan.at_op(op);
            // A store that is not open yet has promised nothing.
            let at = w.promises.iter().rposition(|(done, _)| *done <= op).unwrap_or(0);
            let before = &w.promises[at].1;
            let after = w.promises.get(at + 1).map_or(before, |(_, promise)| promise);
            let checked = runtime.block_on(check(&fs.crash_image(&plan), layout, before, after));
            if let Err(what) = checked {
                panic!("crash at operation {op} of {last}, {plan}: {what}\nbefore {before:?}");
            }
            images += 1;
        }
    }
    println!("{images} crashes at {} operations", last - w.first);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_with_one_database() {
    at_every_operation(LAYOUTS[0]);
}

#[test]
fn a_crash_at_any_operation_loses_nothing_with_two_databases() {
    at_every_operation(LAYOUTS[1]);
}
