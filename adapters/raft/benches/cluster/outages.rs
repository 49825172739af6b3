//! The cost of losing a node: the time without a leader, and the time that a restarted node takes
//! to catch up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{Args, Cluster, home, key};

/// Size of each value that is written while a node is down, in bytes.
const VALUE_BYTES: u64 = 10_000;
const WRITERS: usize = 32;

/// Measures the time from each kill of a leader to the next acknowledged put.
pub async fn failovers<C: Cluster>(name: &str, args: &Args) {
    let home = home(args);
    let cluster = C::start(name, 3, home.path()).await;
    let mut gaps = Vec::new();
    let mut state = 1;
    for _ in 0..args.kills {
        for _ in 0..50 {
            cluster.put(0, key(&mut state), vec![b'v'; 100]).await.expect("a put");
        }
        let node = cluster.kill_leader().await;
        let killed = Instant::now();
        while cluster.put(0, key(&mut state), vec![b'v'; 100]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(killed.elapsed() < Duration::from_secs(60), "no leader");
        }
        gaps.push(killed.elapsed().as_millis());
        cluster.restart(node);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    gaps.sort_unstable();
    println!("failover, 3 nodes, {name:<8} ms from the kill to the next put: {gaps:?}");
}

/// Measures the time that one node of three takes after a restart to apply everything that it
/// missed.
pub async fn catch_up<C: Cluster>(name: &str, args: &Args) {
    let home = home(args);
    let cluster = Arc::new(C::start(name, 3, home.path()).await);
    let node = cluster.kill_follower().await;
    let puts = args.catch_up * (1 << 20) / VALUE_BYTES / WRITERS as u64;
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                let mut state = writer as u64 + 1;
                for _ in 0..puts {
                    // The values are random, so that they do not compress.
                    let value = (0..VALUE_BYTES / 16 + 1).flat_map(|_| key(&mut state)).collect();
                    cluster.put(writer, key(&mut state), value).await.expect("a put");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let wrote = start.elapsed();
    let mut last = None;
    for other in (0..3).filter(|other| *other != node) {
        last = last.max(cluster.applied(other).await);
    }
    let last = last.expect("the index of the last entry");
    let start = Instant::now();
    cluster.restart(node);
    while cluster.applied(node).await.is_none_or(|applied| applied < last) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(start.elapsed() < Duration::from_secs(600), "{name}: the node does not catch up");
    }
    println!(
        "catch-up, 3 nodes, {name:<8} {} MiB written in {:.1} s, caught up in {:.1} s",
        args.catch_up,
        wrote.as_secs_f64(),
        start.elapsed().as_secs_f64(),
    );
}
