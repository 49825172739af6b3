//! Tests orders of steps that the model of the store (`tests/protocol/src/raft`) has shown to need
//! care: openraft purges the log while a snapshot is being installed, a killed process leaves
//! writes and names that are not durable, and a leader offers a snapshot while another one waits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use minikv::fs::SimFs;
use minikv::fs::sim::CrashPlan;
use minikv_raft::store::{Layout, SnapshotDir};
use openraft::storage::{
    RaftLogReaderExt, RaftLogStorage, RaftLogStorageExt, RaftStateMachine, StorageHelper,
};
use openraft::{BasicNode, RaftSnapshotBuilder, SnapshotMeta, Vote};

use minikv_raft::kv::TypeConfig;

use crate::common::{LAYOUTS, Opened, entry, id, open};

const NODE: &str = "/node";

/// The state that a node tells openraft when it starts.
#[derive(Debug, PartialEq)]
struct Start {
    vote: Option<Vote<u64>>,
    /// The terms of the entries, by index.
    log: BTreeMap<u64, u64>,
    purged: Option<u64>,
    snapshot: Option<u64>,
}

/// Returns a node with some entries, and another one with a snapshot that is further.
async fn two_nodes(fs: &SimFs, layout: Layout) -> (Opened, Opened) {
    let other = open(Arc::new(fs.clone()), Path::new("/other"), layout).unwrap();
    other.2.clone().apply((0..60).map(|index| entry(1, index))).await.unwrap();
    other.2.clone().build_snapshot().await.unwrap();
    let mut node = open(Arc::new(fs.clone()), Path::new(NODE), layout).unwrap();
    node.1.save_vote(&Vote::new_committed(1, 1)).await.unwrap();
    node.1.blocking_append((0..10).map(|index| entry(1, index))).await.unwrap();
    node.0.log_durable().await.unwrap();
    node.2.apply((0..5).map(|index| entry(1, index))).await.unwrap();
    fs.sync_all();
    fs.record_history();
    (node, other)
}

/// Receives the snapshot of `other`.
async fn receive(node: &Opened, other: &Opened) -> (SnapshotMeta<u64, BasicNode>, SnapshotDir) {
    let snapshot = other.2.clone().get_current_snapshot().await.unwrap().unwrap();
    let (id, files) = (snapshot.meta.snapshot_id.clone(), snapshot.snapshot.files().unwrap());
    let mut at = node.0.offer_snapshot(&id, files.clone()).unwrap();
    while let Some(file) = files.get(at.file) {
        let mut chunk = vec![0; (file.bytes - at.offset) as usize];
        snapshot.snapshot.read_at(&file.name, &mut chunk, at.offset).unwrap();
        at = node.0.add_chunk(&id, at, &chunk).unwrap();
    }
    let received = node.0.finish_transfer(&snapshot.meta).unwrap();
    (snapshot.meta, received)
}

/// Opens the node, as openraft does, and returns what it finds. The node is not closed.
async fn start(fs: &SimFs, layout: Layout) -> Result<(Start, Opened), String> {
    let (store, mut log, mut machine) = open(Arc::new(fs.clone()), Path::new(NODE), layout)
        .map_err(|e| format!("does not open: {e}"))?;
    let mut helper = StorageHelper::<TypeConfig, _, _>::new(&mut log, &mut machine);
    helper.get_initial_state().await.map_err(|e| format!("openraft does not start: {e}"))?;
    let vote = log.read_vote().await.map_err(|e| e.to_string())?;
    let state = log.get_log_state().await.map_err(|e| e.to_string())?;
    let entries = log.get_log_entries(..).await.map_err(|e| e.to_string())?;
    let terms = entries.iter().map(|e| (e.log_id.index, e.log_id.leader_id.term)).collect();
    let purged = state.last_purged_log_id.map(|id| id.index);
    let snapshot = machine.get_current_snapshot().await.map_err(|e| e.to_string())?;
    let snapshot = snapshot.and_then(|snapshot| snapshot.meta.last_log_id).map(|id| id.index);
    Ok((Start { vote, log: terms, purged, snapshot }, (store, log, machine)))
}

/// openraft 0.9 asks for the installation of a snapshot and for the purge of the log at once, and
/// does not wait with the purge.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_the_purge_and_before_the_installation_keeps_the_node() {
    for layout in LAYOUTS {
        let fs = SimFs::new(21);
        let (mut node, other) = two_nodes(&fs, layout).await;
        let (meta, received) = receive(&node, &other).await;
        let before = fs.op_count();
        node.1.purge(id(1, 59)).await.unwrap();
        let purged = fs.op_count();
        node.2.install_snapshot(&meta, Box::new(received)).await.unwrap();
        let mut images = 0;
        for op in before..=fs.op_count() {
            for plan in [CrashPlan::process_kill(), CrashPlan::strict(), CrashPlan::random(op)] {
                let image = fs.crash_image(&plan.clone().at_op(op));
                let (found, opened) = start(&image, layout)
                    .await
                    .unwrap_or_else(|why| panic!("{layout:?}, {plan}, operation {op}: {why}"));
                assert_eq!(found.vote, Some(Vote::new_committed(1, 1)), "{layout:?}, {op}");
                if op >= purged {
                    let (applied, _) = opened.2.clone().applied_state().await.unwrap();
                    assert_eq!((applied, found.purged), (Some(id(1, 59)), Some(59)), "{op}");
                }
                images += 1;
            }
        }
        println!("{images} crashes between a purge and an installation, {layout:?}");
    }
}

/// openraft answers with the vote and the entries that it has read, without another write.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_of_power_takes_nothing_that_an_open_has_found_after_a_kill() {
    for layout in LAYOUTS {
        let fs = SimFs::new(22);
        let (mut node, other) = two_nodes(&fs, layout).await;
        let before = fs.op_count();
        node.1.save_vote(&Vote::new(2, 3)).await.unwrap();
        node.1.blocking_append([entry(2, 10)]).await.unwrap();
        node.0.log_durable().await.unwrap();
        let (meta, received) = receive(&node, &other).await;
        node.2.install_snapshot(&meta, Box::new(received)).await.unwrap();
        node.1.purge(id(1, 59)).await.unwrap();
        let mut images = 0;
        for op in before..=fs.op_count() {
            let killed = fs.crash_image(&CrashPlan::process_kill().at_op(op));
            killed.record_history();
            let place = format!("{layout:?}, killed at operation {op}");
            let first = killed.op_count();
            let (found, opened) = start(&killed, layout).await.expect(&place);
            let last = killed.op_count();
            std::mem::forget(opened);
            // Every loss of power after some kill, but not after each of them.
            for at in (first + op % 13..=last).step_by(13) {
                let image = killed.crash_image(&CrashPlan::random(at).at_op(at));
                let again = start(&image, layout).await;
                let (_, opened) = again.unwrap_or_else(|why| panic!("{place}, then {at}: {why}"));
                drop(opened);
                images += 1;
            }
            let image = killed.crash_image(&CrashPlan::strict().at_op(last));
            let (again, _opened) = start(&image, layout).await.expect(&place);
            assert_eq!(again, found, "{place}");
        }
        println!("{images} losses of power after a kill, {layout:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_offer_leaves_a_snapshot_that_waits_to_be_installed() {
    for layout in LAYOUTS {
        let fs = SimFs::new(23);
        let (mut node, mut other) = two_nodes(&fs, layout).await;
        let (meta, received) = receive(&node, &other).await;
        // The leader did not get the answer, and offers the same snapshot again.
        let (_, again) = receive(&node, &other).await;
        assert_eq!(again.path().unwrap(), received.path().unwrap());
        drop(again);
        other.2.apply((60..70).map(|index| entry(1, index))).await.unwrap();
        other.2.build_snapshot().await.unwrap();
        let newer = other.2.get_current_snapshot().await.unwrap().unwrap();
        let files = newer.snapshot.files().unwrap();
        node.0.offer_snapshot(&newer.meta.snapshot_id, files.clone()).unwrap();

        node.2.install_snapshot(&meta, Box::new(received)).await.unwrap();
        let (applied, _) = node.2.applied_state().await.unwrap();
        assert_eq!(applied, Some(id(1, 59)), "{layout:?}");
        let (meta, newer) = receive(&node, &other).await;
        node.2.install_snapshot(&meta, Box::new(newer)).await.unwrap();
        let (applied, _) = node.2.applied_state().await.unwrap();
        assert_eq!(applied, Some(id(1, 69)), "{layout:?}");

        // A snapshot that openraft does not want any more goes with the next offer.
        let (_, unwanted) = receive(&node, &other).await;
        let path = unwanted.path().unwrap().to_path_buf();
        drop(unwanted);
        node.0.offer_snapshot("another", files).unwrap();
        assert!(!minikv::fs::Fs::exists(&fs, &path).unwrap(), "{layout:?}");
    }
}
