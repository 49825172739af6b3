//! Clusters over slow links: each node has an address and a link of its own, in a network namespace
//! in which `tc` limits the traffic to each address. A leader must stay the leader, whatever it has
//! to send, and everything that it has to send must arrive.
//!
//! `MINIKV_RAFT_LINKS=1` also runs slower and faster links and more data.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minikv_raft::client::Client;
use minikv_raft::service::Read;

use crate::processes::{Cluster, client_of, wait_for};

/// Set in the process that runs in the namespace.
const INSIDE: &str = "MINIKV_RAFT_INSIDE_NAMESPACE";
const LARGEST_PUT_BYTES: usize = 3_900 << 10;

/// Limits the traffic to 127.0.0.11, .12 and .13 to `$1` Mbit/s each. The queue of each link holds
/// 1.5 MB, as that of a network card does.
const SETUP: &str = r#"
set -e
ip link set lo mtu 1500 up
tc qdisc add dev lo root handle 1: htb default 99 r2q 1000
for node in 1 2 3; do
  tc class add dev lo parent 1: classid 1:$node htb rate "$1"mbit
  tc qdisc add dev lo parent 1:$node bfifo limit 1500000
  tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.1$node/32 flowid 1:$node
done
shift
exec "$@"
"#;

/// Runs the test `name` again, in a namespace with links of `megabits` Mbit/s. Returns true in that
/// namespace, where the test has to do its work.
fn is_inside(name: &str, megabits: u32) -> bool {
    if let Some(inside) = std::env::var_os(INSIDE) {
        return *inside == *megabits.to_string();
    }
    let megabits = megabits.to_string();
    let tried = Command::new("unshare")
        .args(["--net", "sh", "-c", SETUP, "sh", &megabits, "true"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            println!("skipped: {name}: no namespace with slow links: {why}");
            return false;
        }
        Err(error) => {
            println!("skipped: {name}: no unshare: {error}");
            return false;
        }
    }
    let status = Command::new("unshare")
        .args(["--net", "sh", "-c", SETUP, "sh", &megabits])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, &megabits)
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{name} over links of {megabits} Mbit/s");
    false
}

async fn terms(cluster: &Cluster) -> BTreeSet<u64> {
    let mut terms = BTreeSet::new();
    for id in 1..=3 {
        if cluster.is_running(id)
            && let Some(status) = cluster.status(id).await
        {
            terms.insert(status.term);
        }
    }
    terms
}

/// Waits until all nodes have heard of the same leader.
async fn one_term(cluster: &Cluster) -> BTreeSet<u64> {
    let agree = |terms: &BTreeSet<u64>| terms.len() == 1 && !terms.contains(&0);
    wait_for(|| async { Some(terms(cluster).await).filter(agree) }).await.expect("one term")
}

async fn cluster(extra: &[&str]) -> Cluster {
    // A build without optimisation needs much of the processor for these amounts of data, and the
    // machine may be busy with other tests. Without heartbeats beside the entries, however, even
    // this time would be over before four of the largest values have passed a link of 10 Mbit/s.
    // Release builds are judged with the default timeout.
    let patient: &[&str] = match cfg!(debug_assertions) {
        true => &["--election-timeout", "4000"],
        false => &[],
    };
    let extra = [extra, patient].concat();
    let mut cluster = Cluster::without_nodes(&extra);
    cluster.has_own_hosts = true;
    cluster.init(3).await;
    cluster
}

/// Puts `count` values of `bytes` bytes, four at a time.
async fn fill(client: &Arc<Client>, count: usize, bytes: usize) {
    let mut puts = tokio::task::JoinSet::new();
    for n in 0..count {
        if puts.len() == 4 {
            puts.join_next().await.unwrap().unwrap();
        }
        let client = client.clone();
        puts.spawn(async move {
            // Data that does not compress.
            let mut state = n as u64 + 1;
            let value: Vec<u8> = (0..bytes)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
                    (state >> 56) as u8
                })
                .collect();
            client.put(format!("key/{n:05}"), value).await.unwrap();
        });
    }
    while let Some(done) = puts.join_next().await {
        done.unwrap();
    }
}

/// Lets a follower miss `count` values of `bytes` bytes, and waits until it has them.
async fn catches_up(name: &str, extra: &[&str], count: usize, bytes: usize) {
    let mut cluster = cluster(extra).await;
    let client = Arc::new(cluster.client(60));
    client.put("first", "1").await.unwrap();
    let leader = cluster.leader().await;
    let follower = cluster.others(leader)[0];
    let before = one_term(&cluster).await;
    cluster.kill(follower);
    let began = Instant::now();
    fill(&client, count, bytes).await;
    let last = client.put("last", "1").await.unwrap();
    let filled = began.elapsed();
    let during = terms(&cluster).await;

    cluster.run(follower);
    let began = Instant::now();
    let megabytes = count * bytes / 1_000_000;
    loop {
        let applied = cluster.status(follower).await.and_then(|status| status.applied);
        if applied.is_some_and(|applied| applied >= last) {
            break;
        }
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_secs(120),
            "{name}: {applied:?} of {last} after {waited:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (took, after) = (began.elapsed(), terms(&cluster).await);
    println!(
        "slow links, {name}: {megabytes} MB put in {:.1} s, caught up in {:.1} s, terms \
         {before:?}, {during:?}, {after:?}",
        filled.as_secs_f64(),
        took.as_secs_f64()
    );
    assert_eq!((&during, &after), (&before, &before), "{name}: the leader changed");
    let only =
        client_of(&[cluster.addresses()[follower as usize - 1].clone()], Duration::from_secs(9));
    let value = only.get(b"key/00000", Read::Stale).await.unwrap();
    assert_eq!(value.map(|value| value.len()), Some(bytes));
}

/// Puts four of the largest values at once.
async fn takes_the_largest_puts(name: &str) {
    let cluster = cluster(&[]).await;
    let client = Arc::new(cluster.client(20));
    client.put("first", "1").await.unwrap();
    let (before, began) = (one_term(&cluster).await, Instant::now());
    fill(&client, 4, LARGEST_PUT_BYTES).await;
    let (took, after) = (began.elapsed(), terms(&cluster).await);
    println!(
        "slow links, {name}: four puts of 3.9 MiB in {:.1} s, terms {before:?}, {after:?}",
        took.as_secs_f64()
    );
    assert_eq!(before, after, "{name}: the leader changed");
}

fn is_long() -> bool {
    std::env::var_os("MINIKV_RAFT_LINKS").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_catches_up_over_slow_links_and_the_leader_stays() {
    let name = "links::a_follower_catches_up_over_slow_links_and_the_leader_stays";
    if is_inside(name, 100) {
        catches_up("100 Mbit/s, log", &[], 40, 1_000_000).await;
    }
    if is_long() && is_inside(name, 400) {
        catches_up("400 Mbit/s, log", &[], 200, 1_000_000).await;
    }
    if is_long() && is_inside(name, 20) {
        catches_up("20 Mbit/s, log", &[], 2000, 10_000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_arrives_over_slow_links_and_the_leader_stays() {
    let name = "links::a_snapshot_arrives_over_slow_links_and_the_leader_stays";
    let small = ["--snapshot-every", "10", "--keep-entries", "5"];
    if is_inside(name, 100) {
        catches_up("100 Mbit/s, snapshot", &small, 30, 1_000_000).await;
    }
    if is_long() && is_inside(name, 20) {
        catches_up("20 Mbit/s, snapshot", &small, 40, 1_000_000).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_puts_succeed_over_slow_links_and_the_leader_stays() {
    let name = "links::the_largest_puts_succeed_over_slow_links_and_the_leader_stays";
    if is_inside(name, 100) {
        takes_the_largest_puts("100 Mbit/s").await;
    }
    if is_inside(name, 10) {
        takes_the_largest_puts("10 Mbit/s").await;
    }
    if is_long() && is_inside(name, 1000) {
        takes_the_largest_puts("1 Gbit/s").await;
    }
}
