//! Tests of nodes that join, leave, fall behind, or are restored from a backup.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use minikv_raft::client::{Client, ClientError};
use minikv_raft::service::Read;

use crate::processes::{Cluster, PROGRAM, client_of, wait_for};

/// Puts `count` entries, which are enough for several snapshots, so that the first log entries are
/// purged.
async fn fill(client: &Client, count: usize) {
    for n in 0..count {
        client.put(format!("key/{n:05}"), format!("value {n}")).await.unwrap();
    }
}

async fn has_caught_up(cluster: &Cluster, id: u64, index: u64) {
    let applied = || async {
        let applied = cluster.status(id).await?.applied?;
        (applied >= index).then_some(())
    };
    wait_for(applied).await.unwrap_or_else(|| panic!("node {id} does not reach entry {index}"));
}

const SMALL: [&str; 4] = ["--snapshot-every", "100", "--keep-entries", "10"];

async fn grows_and_shrinks(layout: &str) {
    let mut extra = SMALL.to_vec();
    extra.extend(["--layout", layout]);
    let mut cluster = Cluster::start(3, &extra).await;
    let client = cluster.client(20);
    fill(&client, 400).await;
    let leader = cluster.leader().await;
    let purged = || async { cluster.status(leader).await?.purged };
    assert!(wait_for(purged).await.unwrap() > 50, "nothing was purged");

    for _ in 0..2 {
        let (id, address) = cluster.add();
        client.join(id, &address).await.unwrap();
        let last = client.put("last", id.to_string()).await.unwrap();
        has_caught_up(&cluster, id, last).await;
        let only = client_of(&[address], Duration::from_secs(5));
        let (entries, _) = only.range(b"key/", None, 1000, Read::Stale).await.unwrap();
        assert_eq!(entries.len(), 400, "node {id}");
    }
    let status = client.status().await.unwrap();
    assert_eq!(status.nodes.len(), 5);

    // The test kills a node, and restarts it after the log entries that it needs have been purged.
    let away = if cluster.leader().await == 5 { 4 } else { 5 };
    cluster.kill(away);
    fill(&client, 300).await;
    cluster.run(away);
    let last = client.put("last", "again").await.unwrap();
    has_caught_up(&cluster, away, last).await;

    client.leave(away).await.unwrap();
    cluster.kill(away);
    let leader = cluster.leader().await;
    client.leave(leader).await.unwrap();
    cluster.kill(leader);
    client.put("last", "of three").await.unwrap();
    let status = client.status().await.unwrap();
    assert_eq!(status.nodes.len(), 3, "{status:?}");
    let (entries, _) = client.range(b"key/", None, 1000, Read::Linearizable).await.unwrap();
    assert_eq!(entries.len(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_and_shrinks_by_snapshots_with_two_databases() {
    grows_and_shrinks("two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_grows_and_shrinks_by_snapshots_with_one_database() {
    grows_and_shrinks("one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_becomes_a_new_cluster() {
    let cluster = Cluster::start(3, &SMALL).await;
    fill(&cluster.client(20), 150).await;
    let to = cluster.path("backup");
    let nodes = cluster.addresses().join(",");
    let run = |home: &Path, args: &[&str]| {
        let output = Command::new(PROGRAM).args(args).current_dir(home).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {words}");
    };
    run(&cluster.path(""), &["backup", "--nodes", &nodes, "backup"]);
    let layouts = ["one", "two"];
    for layout in layouts {
        let mut restored = Cluster::without_nodes(&SMALL);
        // The test starts a node only to reserve a directory and an address, which the restored
        // node then uses.
        let (id, address) = restored.add();
        restored.kill(id);
        let dir = restored.dir(id);
        let _ = std::fs::remove_dir_all(&dir);
        // The test passes relative paths, as a user would type them.
        let (home, dir) = (dir.parent().unwrap(), dir.file_name().unwrap().to_str().unwrap());
        let node = ["--dir", dir, "--id", "1", "--advertise", &address, "--layout", layout];
        run(home, &[&["restore", to.to_str().unwrap()], &node[..]].concat());
        restored.run(id);
        restored.leader().await;
        let (second, address) = restored.add();
        let client = restored.client(20);
        client.join(second, &address).await.unwrap();
        let last = client.put("after", "restore").await.unwrap();
        has_caught_up(&restored, second, last).await;
        for node in [id, second] {
            let only = restored.client_of(&[node], Duration::from_secs(5));
            let (entries, _) = only.range(b"key/", None, 1000, Read::Stale).await.unwrap();
            assert_eq!(entries.len(), 150, "node {node}, layout {layout}");
        }
    }
}

/// Checks that an unreachable node does not become a voter. Such a voter would raise the quorum
/// without helping to reach it, so a cluster of one node would no longer accept writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_reached_does_not_become_a_voter() {
    let mut cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(3);
    client.put("a", "1").await.unwrap();
    let (id, address) = cluster.add();
    cluster.kill(id);
    let joined = client.join(id, &address).await;
    assert!(matches!(joined, Err(ClientError::Deadline(_))), "{joined:?}");
    client.put("a", "2").await.unwrap();
    let status = client.status().await.unwrap();
    assert_eq!(status.voters, [[1].into()]);

    cluster.run(id);
    let joined = client.join(id, &address).await.unwrap();
    assert_eq!(joined.voters, [[1, 2].into()]);
    client.put("a", "3").await.unwrap();
}
