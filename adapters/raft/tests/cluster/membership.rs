//! Tests that a change of the membership does not leave a cluster without a live majority.

use std::time::{Duration, Instant};

use minikv_raft::client::ClientError;

use crate::processes::{Cluster, http, wait_for};

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_leaves_no_live_majority_is_refused() {
    let mut cluster = Cluster::start(3, &[]).await;
    let client = cluster.client(20);
    client.put("a", "1").await.unwrap();
    let leader = cluster.leader().await;
    let others = cluster.others(leader);
    let (down, up) = (others[0], others[1]);
    cluster.kill(down);
    for id in [up, leader] {
        let refused = client.leave(id).await;
        let says = |what: &str| what.contains(&format!("start node {down} first"));
        let is_refused = matches!(&refused, Err(ClientError::Refused(409, what)) if says(what));
        assert!(is_refused, "{refused:?}");
    }
    client.put("a", "2").await.unwrap();
    assert_eq!(client.status().await.unwrap().voters, [[1, 2, 3].into()]);
    // The page of the cluster shows which node is down.
    let address = &cluster.nodes[up as usize - 1].address;
    let (_, page) = http(address, "GET", "/", &[], b"").await.unwrap();
    let row = page.split("<tr>").find(|row| row.starts_with(&format!("<td>{down}</td>")));
    assert!(row.is_some_and(|row| row.contains("down")), "{page}");
    // The node that is down may leave.
    client.leave(down).await.unwrap();
    client.put("a", "3").await.unwrap();
    let refused = client.join(down, &cluster.nodes[up as usize - 1].address).await;
    assert!(matches!(refused, Err(ClientError::Refused(409, _))), "{refused:?}");
    assert_eq!(client.status().await.unwrap().nodes.len(), 2);
    client.leave(up).await.unwrap();
    let refused = client.leave(leader).await;
    let says = |what: &str| what.contains("no voter");
    assert!(matches!(&refused, Err(ClientError::Refused(409, what)) if says(what)), "{refused:?}");
}

/// The leader loses its connections after it has begun to remove the other node, and the client
/// gives up. Afterwards, the cluster must not stay between the two configurations.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_left_half_done_is_completed() {
    let cluster = Cluster::start(2, &[]).await;
    let leader = cluster.leader().await;
    let client = cluster.client_of(&[leader], Duration::from_secs(1));
    client.put("a", "1").await.unwrap();
    cluster.cut_off(leader).await;
    let left = client.leave(cluster.others(leader)[0]).await;
    assert!(left.is_err(), "{left:?}");
    cluster.reconnect(leader).await;
    let is_complete = || async {
        let voters = cluster.status(leader).await?.voters;
        (voters == [[leader].into()]).then_some(())
    };
    assert!(wait_for(is_complete).await.is_some(), "{:?}", cluster.status(leader).await);
    cluster.client(10).put("a", "2").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_of_a_node_that_does_not_answer_ends_and_says_so() {
    let cluster = Cluster::start(1, &[]).await;
    let (client, began) = (cluster.client(60), Instant::now());
    let joined = client.join(9, "127.0.0.1:1").await;
    let says = |what: &str| what.contains("node 9 at 127.0.0.1:1 has not answered for 15 s");
    assert!(matches!(&joined, Err(ClientError::Refused(502, what)) if says(what)), "{joined:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(client.status().await.unwrap().voters, [[1].into()]);
}
