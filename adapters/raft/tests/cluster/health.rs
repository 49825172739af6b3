//! Tests that the health check tells the truth.

use std::time::Duration;

use crate::processes::{Cluster, http, wait_for};

async fn health(cluster: &Cluster, id: u64) -> (u16, String) {
    let address = &cluster.nodes[id as usize - 1].address;
    http(address, "GET", "/health", &[], b"").await.unwrap_or_default()
}

async fn wait_for_health(cluster: &Cluster, id: u64, status: u16, words: &str) {
    let has = || async {
        let (got, text) = health(cluster, id).await;
        (got == status && text.contains(words)).then_some(())
    };
    let found = wait_for(has).await;
    assert!(found.is_some(), "node {id}, {status} {words}: {:?}", health(cluster, id).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_majority_is_not_healthy() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    for id in 1..=3 {
        wait_for_health(&cluster, id, 200, "ok").await;
    }
    let others = cluster.others(leader);
    cluster.kill(others[0]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    wait_for_health(&cluster, leader, 200, "ok").await;
    cluster.kill(others[1]);
    wait_for_health(&cluster, leader, 503, "majority").await;
    let address = &cluster.nodes[leader as usize - 1].address;
    let (_, metrics) = http(address, "GET", "/metrics", &[], b"").await.unwrap();
    assert!(metrics.contains("minikv_raft_has_leader 0\n"), "{metrics}");
    assert!(metrics.contains("minikv_raft_is_leader 0\n"), "{metrics}");
    cluster.run(others[0]);
    wait_for_health(&cluster, others[0], 200, "ok").await;

    // A follower does not hear from its leader.
    let leader = cluster.leader().await;
    cluster.set_stopped(leader, true);
    let rest = if leader == others[0] { cluster.others(others[0]) } else { vec![others[0]] };
    let follower = rest.into_iter().find(|id| cluster.is_running(*id)).unwrap();
    wait_for_health(&cluster, follower, 503, "").await;
    cluster.set_stopped(leader, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_leader_and_a_new_node_are_not_healthy() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    // The leader agrees to a change once it has heard of every node.
    for node in 1..=3 {
        wait_for_health(&cluster, node, 200, "").await;
    }
    cluster.client(20).leave(leader).await.unwrap();
    wait_for_health(&cluster, leader, 503, "was removed").await;
    let status = cluster.status(leader).await.unwrap();
    assert!(status.role == "Removed" && status.leader.is_none(), "{status:?}");
    let (new, _) = cluster.add();
    wait_for_health(&cluster, new, 503, "no cluster").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_raft_has_panicked_ends() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let address = cluster.nodes[leader as usize - 1].address.clone();
    let _ = http(&address, "POST", "/test/panic", &[], b"").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(cluster.has_ended(leader), "{:?}", health(&cluster, leader).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_directory_was_removed_says_so_and_makes_no_other() {
    let mut cluster = Cluster::start(3, &[]).await;
    cluster.client(10).put("a", "1").await.unwrap();
    let leader = cluster.leader().await;
    let (gone, emptied) = (cluster.others(leader)[0], cluster.others(leader)[1]);
    std::fs::remove_dir_all(cluster.dir(gone)).unwrap();
    wait_for_health(&cluster, gone, 503, "LIVE is missing").await;
    let address = cluster.nodes[gone as usize - 1].address.clone();
    let _ = http(&address, "POST", "/v1/cluster/snapshot", &[], b"").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!cluster.dir(gone).exists(), "the node has made a part of its directory again");

    // A directory of which only a part is left.
    cluster.kill(emptied);
    std::fs::remove_file(cluster.dir(emptied).join("LIVE")).unwrap();
    cluster.run(emptied);
    let has_ended = wait_for(|| std::future::ready(cluster.has_ended(emptied).then_some(()))).await;
    assert!(has_ended.is_some(), "a node without LIVE runs");
}
