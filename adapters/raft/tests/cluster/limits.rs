//! Tests of what bounds the memory and the disk of a node.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use minikv_raft::client::{Client, ClientError};
use minikv_raft::command::Op;
use minikv_raft::service::Read;

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

/// Returns the keys with a prefix, read one by one.
async fn keys(client: &Client, prefix: &[u8]) -> Vec<Bytes> {
    let mut keys = Vec::new();
    loop {
        let after = keys.last().map(|last: &Bytes| &last[..]);
        let page = client.range(prefix, after, 1, Read::Linearizable).await;
        let (entries, more) = page.unwrap();
        keys.extend(entries.into_iter().map(|(key, _)| key));
        if !more {
            return keys;
        }
    }
}

/// In a request, a byte of a key takes up to three bytes, and a URI has a limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_can_be_put_can_be_read_passed_and_deleted() {
    let cluster = Cluster::start(1, &[]).await;
    let client = cluster.client(20);
    let long = vec![0xfe; 21_666];
    let next = [&long[..21_000], b"\xff"].concat();
    let all = [vec![b'k'; 32 << 10], long.clone(), next, vec![0xff]];
    for key in &all {
        client.put(key.clone(), "1").await.unwrap();
        assert!(client.get(key, Read::Linearizable).await.unwrap().is_some());
    }
    assert_eq!(keys(&client, b"").await, all);
    for prefix in [&long[..1], &long[..10], &long[..20_000]] {
        assert_eq!(keys(&client, prefix).await, all[1..3], "{} bytes", prefix.len());
    }
    for key in &all {
        client.delete(key.clone()).await.unwrap();
    }
    assert!(keys(&client, b"").await.is_empty());

    let op = |value: Option<Bytes>| Op { key: vec![0xfe; 21_667].into(), value };
    let (put, delete) = (op(Some(Bytes::from("1"))), op(None));
    for refused in [
        client.put(put.key.clone(), "1").await.map(drop),
        client.write(Vec::new(), vec![put.clone()]).await.map(drop),
        client.compare_and_set(put.key.clone(), None, put.value.clone()).await.map(drop),
    ] {
        assert!(matches!(refused, Err(ClientError::Refused(413, _))), "{refused:?}");
    }
    // Earlier versions took such keys.
    client.write(Vec::new(), vec![delete]).await.unwrap();

    let began = Instant::now();
    let key = vec![0xfe; 32 << 10];
    let each = |_| ControlFlow::Continue(());
    for refused in [
        client.put(key.clone(), "1").await.map(drop),
        client.get(&key, Read::Linearizable).await.map(drop),
        client.delete(key.clone()).await.map(drop),
        client.range(b"", Some(&key), 1, Read::Linearizable).await.map(drop),
        client.watch(&key, "0".parse().ok(), each).await,
    ] {
        assert!(matches!(refused, Err(ClientError::Invalid(_))), "{refused:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "they were tried again and again");
}

/// The entry of the request is larger than all entries that the node keeps in memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_twenty_mebibytes_is_put_and_read() {
    let mut cluster = Cluster::start(1, &["--max-request-bytes", "67108864"]).await;
    let client = cluster.client(20);
    let value = vec![b'x'; 20 << 20];
    for key in ["a", "b"] {
        let put = client.put(key, value.clone());
        let written = tokio::time::timeout(Duration::from_secs(60), put).await;
        assert!(!cluster.has_ended(1), "the node has ended");
        written.expect("an answer").unwrap();
        let read = client.get(key.as_bytes(), Read::Linearizable).await.unwrap();
        assert!(read.as_deref() == Some(&value[..]), "{key}");
    }
}
