//! Tests that nodes of different clusters do not mix, and that a member whose directory was emptied
//! is noticed.

use std::time::Duration;

use minikv_raft::client::ClientError;
use minikv_raft::service::Read;

use crate::processes::{Cluster, wait_for};

/// Waits until a node reports a refusal that contains all of `words`.
async fn wait_for_refusal(cluster: &Cluster, id: u64, words: &[&str]) {
    let is_refused = || async {
        let refused = cluster.status(id).await?.refused;
        let says = |text: &String| words.iter().all(|word| text.contains(word));
        refused.iter().any(says).then_some(())
    };
    let found = wait_for(is_refused).await;
    let status = cluster.status(id).await;
    assert!(found.is_some(), "node {id} reports nothing with {words:?}: {status:?}");
}

fn is_refused(result: &Result<impl Sized, ClientError>, words: &str) -> bool {
    matches!(result, Err(ClientError::Refused(409, what)) if what.contains(words))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_at_the_address_of_another_cluster_is_refused_by_both() {
    let (mut one, mut two) = (Cluster::start(3, &[]).await, Cluster::start(3, &[]).await);
    one.client(10).put("of", "one").await.unwrap();
    two.client(10).put("of", "two").await.unwrap();
    // A node that restarts without its cluster knows only what it has applied.
    let third = two.client_of(&[3], Duration::from_secs(5));
    let has_it = || async { third.get(b"of", Read::Stale).await.ok().flatten() };
    assert!(wait_for(has_it).await.is_some(), "node 3 lags");
    // Node 3 of the second cluster now runs at the address of node 3 of the first.
    one.kill(3);
    two.kill(3);
    two.nodes[2].address = one.nodes[2].address.clone();
    two.run(3);
    let (leader, own) = (one.leader().await, one.status(1).await.unwrap().cluster.unwrap());
    let other = two.status(1).await.unwrap().cluster.unwrap();
    assert_ne!(own, other);
    for n in 0..50 {
        one.client(10).put(format!("key/{n}"), "of one").await.unwrap();
    }
    wait_for_refusal(&one, leader, &["node 3", "cluster", &own, &other]).await;
    wait_for_refusal(&two, 3, &["cluster", &own, &other]).await;
    let stray = two.client_of(&[3], Duration::from_secs(5));
    assert_eq!(stray.range(b"key/", None, 100, Read::Stale).await.unwrap().0, []);
    assert_eq!(stray.get(b"of", Read::Stale).await.unwrap().as_deref(), Some(&b"two"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_another_cluster_cannot_join_or_be_taken_for_new() {
    let (one, mut two) = (Cluster::start(1, &[]).await, Cluster::start(2, &[]).await);
    let client = one.client(5);
    let joined = client.join(2, &two.nodes[1].address).await;
    assert!(is_refused(&joined, "belongs to the cluster"), "{joined:?}");
    let joined = client.join(3, &two.nodes[1].address).await;
    assert!(is_refused(&joined, "is node 2, not node 3"), "{joined:?}");
    assert_eq!(client.status().await.unwrap().nodes.len(), 1);
    // A new node cannot make a cluster with nodes of another one either.
    let (new, address) = two.add();
    let members = [(1, two.nodes[0].address.clone()), (new, address)];
    let made = two.client_of(&[new], Duration::from_secs(5)).init(&members).await;
    assert!(is_refused(&made, "belongs to the cluster"), "{made:?}");
    let status = two.status(1).await.unwrap();
    assert!(status.nodes.len() == 2 && two.status(new).await.unwrap().cluster.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_voter_does_not_vote_away_acknowledged_writes() {
    let mut cluster = Cluster::start(3, &[]).await;
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let (behind, emptied) = (others[0], others[1]);
    let client = cluster.client(10);
    client.put("a", "1").await.unwrap();
    cluster.kill(behind);
    client.put("acknowledged", "x").await.unwrap();
    cluster.kill(emptied);
    cluster.kill(leader);
    std::fs::remove_dir_all(cluster.dir(emptied)).unwrap();
    cluster.run(emptied);
    cluster.run(behind);
    // These two would be a majority, and would not know the write.
    wait_for_refusal(&cluster, behind, &["empty directory", "minikv-raft leave"]).await;
    wait_for_refusal(&cluster, emptied, &["empty directory", "minikv-raft join"]).await;
    let rest = cluster.client_of(&[behind, emptied], Duration::from_secs(2));
    let read = rest.get(b"acknowledged", Read::Linearizable).await;
    assert!(matches!(read, Err(ClientError::Deadline(_))), "{read:?}");

    cluster.run(leader);
    let read = client.get(b"acknowledged", Read::Linearizable).await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"x"[..]));
    // It comes back as the message says: it leaves, and joins again.
    let address = cluster.nodes[emptied as usize - 1].address.clone();
    let joined = client.join(emptied, &address).await;
    assert!(is_refused(&joined, "minikv-raft leave"), "{joined:?}");
    client.leave(emptied).await.unwrap();
    let status = cluster.client(20).join(emptied, &address).await.unwrap();
    assert_eq!(status.voters, [[1, 2, 3].into()]);
    let has_it = || async {
        let only = cluster.client_of(&[emptied], Duration::from_secs(1));
        only.get(b"acknowledged", Read::Stale).await.ok()?
    };
    assert_eq!(wait_for(has_it).await.as_deref(), Some(&b"x"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_an_older_version_gets_an_id_once() {
    let mut cluster = Cluster::start(3, &[]).await;
    cluster.client(10).put("a", "1").await.unwrap();
    for id in 1..=3 {
        cluster.kill(id);
        std::fs::remove_file(cluster.dir(id).join("CLUSTER")).unwrap();
    }
    // Two nodes serve without an id, and wait for the third.
    cluster.run(1);
    cluster.run(2);
    cluster.client(20).put("b", "2").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    for id in [1, 2] {
        assert_eq!(cluster.status(id).await.unwrap().cluster, None, "node {id}");
    }
    cluster.run(3);
    let ids = || async {
        let mut ids = Vec::new();
        for id in 1..=3 {
            ids.push(cluster.status(id).await?.cluster?);
        }
        Some(ids)
    };
    let made = wait_for(ids).await.expect("an id on every node");
    assert!(made.iter().all(|id| *id == made[0]), "{made:?}");
    cluster.client(10).put("c", "3").await.unwrap();
    for id in 1..=3 {
        cluster.kill(id);
        cluster.run(id);
    }
    cluster.client(20).put("d", "4").await.unwrap();
    let ids =
        || async { Some((cluster.status(1).await?.cluster, cluster.status(3).await?.cluster)) };
    let (first, third) = wait_for(ids).await.unwrap();
    assert!(first.as_ref() == Some(&made[0]) && third == first);
}
