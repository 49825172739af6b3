//! Tests of clients, and of nodes, that hold connections without using them.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::processes::Cluster;

/// Begins requests at a node and does not finish them: heads, and bodies.
async fn half_sent(address: &str, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for n in 0..count {
        let Ok(mut stream) = TcpStream::connect(address).await else { continue };
        let start = match n % 2 {
            0 => "GET /v1/status HTTP/1.1\r\nhost: local".to_string(),
            _ => "PUT /v1/kv/x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nx".into(),
        };
        // The node may already have closed the connection.
        let _ = stream.write_all(start.as_bytes()).await;
        streams.push(stream);
    }
    streams
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_idle_requests_do_not_stop_writes() {
    let mut cluster = Cluster::without_nodes(&[]);
    cluster.descriptors = Some(200);
    cluster.init(3).await;
    cluster.client(10).put("a", "1").await.unwrap();
    let mut held = Vec::new();
    for node in &cluster.nodes {
        held.push(half_sent(&node.address, 240).await);
    }
    let term = cluster.status(1).await.expect("a status").term;
    let start = Instant::now();
    for n in 0..20 {
        // Each client opens connections of its own.
        cluster.client(5).put(format!("held/{n}"), "x").await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(cluster.status(1).await.expect("a status").term, term, "the leader changed");
    // Nodes that start again reach the others, whose connections are taken.
    let leader = cluster.leader().await;
    cluster.kill(leader);
    cluster.run(leader);
    cluster.client(20).put("after", "x").await.unwrap();
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let cluster = Cluster::start(1, &[]).await;
    let mut streams = half_sent(&cluster.nodes[0].address, 1).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(20), streams[0].read_to_end(&mut rest));
    let _ = end.await.expect("the node closes the connection");
}

/// A node that has vanished does not close its connections.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_on_which_nothing_arrives_is_closed() {
    let cluster = Cluster::start(1, &[]).await;
    let address = &cluster.nodes[0].address;
    let id = cluster.status(1).await.unwrap().cluster.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /raft/1/stream HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\n\
         upgrade: minikv-raft-3\r\nraft-version: 2\r\nraft-from: 2\r\nraft-cluster: {id}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(end.is_ok(), "the node keeps the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_after_a_pause_that_ends_connections() {
    let cluster = Cluster::start(3, &[]).await;
    let client = cluster.client(10);
    client.put("a", "1").await.unwrap();
    let term = cluster.status(1).await.expect("a status").term;
    tokio::time::sleep(Duration::from_secs(18)).await;
    client.put("a", "2").await.unwrap();
    assert_eq!(cluster.status(1).await.expect("a status").term, term, "the leader changed");
}
