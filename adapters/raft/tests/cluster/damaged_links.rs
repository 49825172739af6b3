//! Clusters whose links damage messages: a proxy before each node flips bits in what other nodes
//! send to it, and in what it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use minikv_raft::service::Read;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::processes::{Cluster, client_of, wait_for};
use crate::rng::Rng;

/// One of so many parts is damaged.
const PARTS: u64 = 30;
/// More bits than these must be flipped, which takes longer on a busy machine.
const FLIPS: u64 = 20;
const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Damage {
    is_on: AtomicBool,
    flips: AtomicU64,
}

/// Starts a proxy before the node at `to`, and returns the address of the proxy.
async fn proxy(to: String, seed: u64, damage: Arc<Damage>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rng = Arc::new(Mutex::new(Rng(seed)));
    tokio::spawn(async move {
        loop {
            let Ok((from, _)) = listener.accept().await else { return };
            let Ok(to) = TcpStream::connect(&to).await else { continue };
            let _ = (from.set_nodelay(true), to.set_nodelay(true));
            tokio::spawn(pass(from, to, rng.clone(), damage.clone()));
        }
    });
    address
}

async fn pass(mut from: TcpStream, to: TcpStream, rng: Arc<Mutex<Rng>>, damage: Arc<Damage>) {
    let mut first = vec![0; 65536];
    let Ok(read) = from.read(&mut first).await else { return };
    first.truncate(read);
    // Clients follow redirects to the proxies, too.
    let is_of_node = [&b"GET /raft/"[..], b"POST /raft/"].iter().any(|of| first.starts_with(of));
    let (from_read, from_write) = from.into_split();
    let (to_read, mut to_write) = to.into_split();
    if to_write.write_all(&first).await.is_err() {
        return;
    }
    let damage = is_of_node.then_some(damage);
    tokio::select! {
        () = pump(from_read, to_write, &rng, damage.clone(), 0) => {}
        // The answer to the first request is left alone: it may open a stream.
        () = pump(to_read, from_write, &rng, damage, 1) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    rng: &Mutex<Rng>,
    damage: Option<Arc<Damage>>,
    good_parts: u64,
) {
    let (mut buffer, mut parts) = (vec![0; 65536], 0);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        parts += 1;
        let mut rng = rng.lock().await;
        if let Some(damage) = &damage
            && parts > good_parts
            && damage.is_on.load(Ordering::Relaxed)
            && rng.next(PARTS) == 0
        {
            buffer[rng.next(read as u64) as usize] ^= 1 << rng.next(8);
            damage.flips.fetch_add(1, Ordering::Relaxed);
        }
        drop(rng);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_damaged_on_the_way_do_no_harm() {
    let mut cluster = Cluster::without_nodes(&[]);
    let damage = Arc::new(Damage::default());
    let mut members = Vec::new();
    for seed in 1..=3 {
        let (id, address) = cluster.add();
        members.push((id, proxy(address, seed, damage.clone()).await));
    }
    cluster.client(10).init(&members).await.unwrap();
    cluster.leader().await;
    let client = cluster.client(30);
    client.put("first", "1").await.unwrap();

    damage.is_on.store(true, Ordering::Relaxed);
    let (began, mut count) = (Instant::now(), 0);
    let flips = || damage.flips.load(Ordering::Relaxed);
    let limit = || if flips() > FLIPS { SHORTEST } else { LONGEST };
    while began.elapsed() < limit() {
        let puts = (count..count + 8).map(|n| client.put(key(n), value(n)));
        for put in futures_util::future::join_all(puts).await {
            put.unwrap();
        }
        count += 8;
        assert!((1..=3).all(|id| !cluster.has_ended(id)), "a node has ended");
    }
    damage.is_on.store(false, Ordering::Relaxed);
    let flips = flips();
    println!("damaged links: {flips} flipped bits beside {count} puts");
    assert!(flips > FLIPS, "{flips} flipped bits");

    client.put("last", "1").await.unwrap();
    for node in &cluster.nodes {
        let only = client_of(std::slice::from_ref(&node.address), Duration::from_secs(9));
        let has_last = || async { only.get(b"last", Read::Stale).await.ok().flatten() };
        assert!(wait_for(has_last).await.is_some(), "node {} lags", node.id);
        for n in 0..count {
            let found = only.get(key(n).as_bytes(), Read::Stale).await.unwrap();
            assert!(found.as_deref() == Some(value(n).as_bytes()), "node {}, {}", node.id, key(n));
        }
    }
}

fn key(n: u64) -> String {
    format!("key/{n:06}")
}

fn value(n: u64) -> String {
    format!("value {n} ").repeat(150)
}
