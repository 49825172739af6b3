//! Tests of what bounds the memory and the disk of a node.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::processes::{Cluster, http, wait_for};

/// Returns the resident memory of a process, in bytes.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// A leader that is cut off collects requests whose clients give up.
#[tokio::test(flavor = "multi_thread")]
async fn abandoned_writes_give_their_memory_back() {
    let cluster = Cluster::start(3, &[]).await;
    cluster.client(10).put("a", "1").await.unwrap();
    let leader = cluster.leader().await;
    cluster.cut_off(leader).await;
    let (process, address) = (cluster.process(leader), &cluster.nodes[leader as usize - 1].address);
    let before = memory(process);
    let value = vec![b'x'; 512 << 10];
    for _ in 0..12 {
        let puts = (0..32).map(|_| {
            let put = http(address, "PUT", "/v1/kv/a", &[], &value);
            tokio::time::timeout(Duration::from_millis(700), put)
        });
        futures_util::future::join_all(puts).await;
    }
    let after = memory(process);
    println!("384 abandoned puts of 512 KiB: {} MiB, then {} MiB", before >> 20, after >> 20);
    assert!(after < before + (100 << 20), "{} MiB, then {} MiB", before >> 20, after >> 20);
    cluster.reconnect(leader).await;
    cluster.client(20).put("a", "2").await.unwrap();
}

fn disk(dir: &Path) -> u64 {
    let mut bytes = 0;
    for file in fs::read_dir(dir).unwrap() {
        // Files come and go meanwhile.
        let Ok(file) = file else { continue };
        let Ok(data) = file.metadata() else { continue };
        bytes += if data.is_dir() { disk(&file.path()) } else { data.len() };
    }
    bytes
}

/// Overwrites of one key with large values, which are few entries.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_purged_by_bytes() {
    let limits = ["--snapshot-bytes", "8000000", "--keep-bytes", "4000000"];
    let cluster = Cluster::start(1, &limits).await;
    let client = cluster.client(20);
    for n in 0..80u8 {
        let value: Vec<u8> =
            (0..1_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8 ^ n).collect();
        client.put("a", value).await.unwrap();
    }
    let purged = || async {
        let status = cluster.status(1).await?;
        (status.last_log? - status.purged? <= 30).then_some(())
    };
    wait_for(purged).await.expect("a purged log");
    let log = || async { Some(()).filter(|()| disk(&cluster.dir(1).join("log")) < 50_000_000) };
    wait_for(log).await.expect("a log of less than 50 MB on the disk after 80 MB of writes");
}
