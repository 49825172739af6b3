//! Tests a node whose wall clock is set while the node runs.

use std::time::SystemTime;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::clocks::{Clocks, HOUR};
use crate::processes::{Cluster, wait_for};
use crate::rng::Rng;

/// Returns the time of a node's wall clock, from the `Date` header of a response.
async fn date(address: &str) -> Option<SystemTime> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = "GET /v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let date = answer.lines().find_map(|line| line.strip_prefix("date: "));
    Some(httpdate::parse_http_date(date.expect("a date")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_the_time_that_its_clock_is_set_to() {
    let mut cluster = Cluster::without_nodes(&[]);
    let Some(mut clocks) = Clocks::new(&cluster.path(""), &mut Rng(1)) else {
        println!("skipped: libfaketime is not installed");
        return;
    };
    clocks.speeds = [100; 6];
    cluster.clocks = Some(clocks);
    cluster.init(1).await;
    let hours_ahead = async || {
        let ahead = date(&cluster.nodes[0].address).await?.duration_since(SystemTime::now());
        Some((ahead.map_or(0.0, |ahead| ahead.as_secs_f64()) / HOUR as f64).round())
    };
    assert_eq!(hours_ahead().await, Some(0.0));
    assert!(cluster.clocks.as_ref().unwrap().set(1, 3));
    let is_ahead = async || (hours_ahead().await? == 3.0).then_some(());
    wait_for(is_ahead).await.expect("three hours");
}
