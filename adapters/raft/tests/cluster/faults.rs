//! Clients beside kills, pauses and partitions, and what they saw checked for linearizability.
//!
//! A run is made from its seed: the number of nodes, what each client does, and which faults come.
//! `MINIKV_RAFT_SEEDS=7` runs one, `MINIKV_RAFT_SEEDS=0..100` a hundred; processes and the network
//! have a will of their own, so that a seed repeats the plan and not every interleaving.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minikv_raft::service::Read;

use crate::clocks::Clocks;
use crate::history::{History, Op, Register};
use crate::lists::{self, APPENDERS, appender};
use crate::processes::{Cluster, http};

// Histories of many operations at once take the checker too long: so many registers, and pauses.
pub const REGISTERS: usize = 12;
const REGISTERS_OF_READERS: u64 = 2;
pub const CLIENTS: usize = 6;
/// Clients that only read, and so stay with a leader that is cut off: a write would tell them.
pub const READERS: usize = 3;

/// A small generator, so that a seed means the same everywhere.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self, below: u64) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

pub fn seeds() -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("MINIKV_RAFT_SEEDS") else { return 0..3 };
    match seeds.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => seeds.parse().unwrap()..seeds.parse::<u64>().unwrap() + 1,
    }
}

/// Operations of one client until `over`.
pub async fn client(
    number: usize,
    seed: u64,
    addresses: Vec<String>,
    history: Arc<History<Register>>,
    over: Arc<AtomicBool>,
    reads: Vec<Read>,
) {
    let mut rng = Rng(seed.wrapping_mul(1000).wrapping_add(number as u64));
    let trust = minikv_raft::service::tls::Trust::default();
    let kv = minikv_raft::client::Client::new(&addresses, &trust, Duration::from_secs(3)).unwrap();
    // The value that this client believes a register to have.
    let (mut believed, mut fresh) = ([0; REGISTERS], 0);
    while !over.load(Ordering::Relaxed) {
        let is_reader = number >= CLIENTS;
        let keys = if is_reader { REGISTERS_OF_READERS } else { REGISTERS as u64 };
        let key = rng.next(keys) as usize;
        fresh += 1;
        let value = (number as u64 + 1) * 1_000_000 + fresh;
        let op = match rng.next(10) {
            _ if is_reader => Op::Read,
            0..4 => Op::Read,
            4..7 => Op::Write(value),
            _ => Op::CompareAndSet(believed[key], value),
        };
        let read = reads[rng.next(reads.len() as u64) as usize];
        let done = history.run(&kv, number, key, op.clone(), read).await;
        believed[key] = match (&op, &done) {
            (Op::Write(value) | Op::CompareAndSet(_, value), Ok(())) => *value,
            _ => {
                let events = history.events.lock().unwrap();
                let seen = events.iter().rev().find(|event| event.key == key);
                match seen.and_then(|event| event.returned.clone()) {
                    Some((_, crate::history::Ret::Value(value))) => value,
                    _ => believed[key],
                }
            }
        };
        let longest = if is_reader { 80 } else { 30 };
        tokio::time::sleep(Duration::from_millis(rng.next(longest))).await;
    }
}

/// One fault, from its start to its end. `members` are the nodes of the cluster; one is replaced
/// once at most, so that clients know one that is left.
async fn fault(cluster: &mut Cluster, members: &mut Vec<u64>, rng: &mut Rng) -> &'static str {
    let pause = Duration::from_millis(200 + rng.next(1500));
    let leader = cluster.leader().await;
    let any = members[rng.next(members.len() as u64) as usize];
    let victim = if rng.next(2) == 0 { leader } else { any };
    let is_first = members.len() == cluster.nodes.len();
    match rng.next(if is_first { 6 } else { 5 }) {
        0 => {
            cluster.kill(victim);
            tokio::time::sleep(pause).await;
            cluster.run(victim);
            "kill -9"
        }
        1 => {
            cluster.set_stopped(victim, true);
            tokio::time::sleep(pause).await;
            cluster.set_stopped(victim, false);
            "pause"
        }
        2 => {
            let others: Vec<u64> = members.iter().copied().filter(|id| *id != victim).collect();
            cluster.ignore(victim, &others).await;
            // Long enough for another leader beside this one.
            tokio::time::sleep(Duration::from_millis(1500) + pause).await;
            cluster.ignore(victim, &[]).await;
            "partition"
        }
        3 => {
            // All at once, as when the power of a machine goes that has all of them.
            for id in members.iter() {
                cluster.kill(*id);
            }
            for id in members.iter() {
                cluster.run(*id);
            }
            "kill -9 of all"
        }
        4 => {
            let mut set =
                |id: &u64| cluster.clocks.as_ref().is_some_and(|clocks| clocks.set(*id, rng));
            let count = members.iter().filter(|id| set(id)).count();
            tokio::time::sleep(pause).await;
            if count > 0 { "clocks set" } else { "no clock set" }
        }
        _ => {
            let (id, address) = cluster.add();
            let client = cluster.client(60);
            client.join(id, &address).await.unwrap();
            client.leave(victim).await.unwrap();
            cluster.kill(victim);
            members.retain(|id| *id != victim);
            members.push(id);
            "replacement"
        }
    }
}

async fn run(seed: u64) {
    let mut rng = Rng(seed);
    let nodes = if rng.next(3) == 0 { 5 } else { 3 };
    let layout = if rng.next(2) == 0 { "one" } else { "two" };
    // Snapshots often, so that nodes that were away get them.
    let extra = ["--layout", layout, "--snapshot-every", "60", "--keep-entries", "20"];
    let mut cluster = Cluster::without_nodes(&extra);
    cluster.clocks = Clocks::new(&cluster.path(""), &mut rng);
    cluster.init(nodes).await;
    let (history, over) = (Arc::new(History::new()), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS + READERS)
        .map(|number| {
            let (history, over) = (history.clone(), over.clone());
            let mut addresses = cluster.addresses();
            let first = number % addresses.len();
            addresses.rotate_left(first);
            let reads = match number % 3 {
                0 => vec![Read::Linearizable],
                1 => vec![Read::Lease],
                _ => vec![Read::Linearizable, Read::Lease],
            };
            tokio::spawn(client(number, seed, addresses, history, over, reads))
        })
        .collect();
    let lists = Arc::new(History::new());
    let appenders = (0..APPENDERS).map(|number| {
        tokio::spawn(appender(number, seed, cluster.addresses(), lists.clone(), over.clone()))
    });
    let clients: Vec<_> = clients.into_iter().chain(appenders).collect();
    let (mut faults, mut members) = (Vec::new(), (1..=nodes).collect());
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        faults.push(fault(&mut cluster, &mut members, &mut rng).await);
    }
    cluster.leader().await;
    let is_enough = || async { (history.events.lock().unwrap().len() > 300).then_some(()) };
    crate::processes::wait_for(is_enough).await.expect("300 operations");
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let events = history.events.lock().unwrap().len();
    let checked = Instant::now();
    let refused = history.refused();
    let appends = lists::check(&lists, seed);
    let took = checked.elapsed().as_millis();
    println!(
        "seed {seed}: {nodes} nodes, layout {layout}, {events} operations, {appends} on lists, \
         checked in {took} ms, {faults:?}"
    );
    assert!(refused.is_empty(), "seed {seed}: not linearizable: registers {refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_beside_faults_are_linearizable() {
    for seed in seeds() {
        run(seed).await;
    }
}

/// The checker sees what it is there for: with reads of whatever a cut-off node has, the history
/// is refused.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_stale_reads_is_refused() {
    let cluster = Cluster::start(3, &[]).await;
    let (history, kv) = (History::new(), cluster.client(10));
    history.run(&kv, 0, 0, Op::Write(1), Read::Linearizable).await.unwrap();
    let leader = cluster.leader().await;
    let cut = if leader == 3 { 2 } else { 3 };
    let others: Vec<u64> = (1..=3).filter(|id| *id != cut).collect();
    let address = cluster.nodes[cut as usize - 1].address.clone();
    let has_first = || async {
        let path = "/v1/kv/register-0?read=stale";
        let (_, body) = http(&address, "GET", path, &[], b"").await.ok()?;
        (body == "1").then_some(())
    };
    crate::processes::wait_for(has_first).await.unwrap();
    cluster.ignore(cut, &others).await;
    history.run(&kv, 0, 0, Op::Write(2), Read::Linearizable).await.unwrap();
    assert_eq!(history.refused(), [0; 0]);

    let trust = minikv_raft::service::tls::Trust::default();
    let only =
        minikv_raft::client::Client::new(&[address], &trust, Duration::from_secs(3)).unwrap();
    history.run(&only, 1, 0, Op::Read, Read::Stale).await.unwrap();
    assert_eq!(history.refused(), [0], "the checker accepted a stale read");
}

/// A leader that is cut off does not know it. With its lease it refuses to read; without the check
/// of the lease it answers what another leader has overwritten, and the history is refused.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_leader_without_the_check_of_its_lease_is_refused() {
    let cluster = Cluster::start(3, &[]).await;
    let (history, kv) = (History::new(), cluster.client(20));
    history.run(&kv, 0, 0, Op::Write(1), Read::Linearizable).await.unwrap();
    let old = cluster.leader().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    let address_of = |id: u64| cluster.nodes[id as usize - 1].address.clone();
    let trust = minikv_raft::service::tls::Trust::default();
    let client = |addresses: &[String]| {
        minikv_raft::client::Client::new(addresses, &trust, Duration::from_secs(10)).unwrap()
    };
    let rest: Vec<String> = others.iter().copied().map(address_of).collect();
    let (rest, only) = (client(&rest), [address_of(old)]);

    cluster.ignore(old, &others).await;
    history.run(&rest, 0, 0, Op::Write(2), Read::Linearizable).await.unwrap();
    let status = cluster.status(old).await.unwrap();
    assert_eq!(status.role, "Leader", "it believes so still");
    let short =
        minikv_raft::client::Client::new(&only, &trust, Duration::from_millis(600)).unwrap();
    for read in [Read::Lease, Read::Linearizable] {
        let refused = history.run(&short, 1, 0, Op::Read, read).await;
        assert!(refused.is_err(), "{read:?}: {refused:?}");
    }
    assert_eq!(history.refused(), [0; 0]);

    let (status, _) = http(&only[0], "POST", "/test/trust-lease", &[], b"").await.unwrap();
    assert_eq!(status, 200);
    history.run(&short, 1, 0, Op::Read, Read::Lease).await.unwrap();
    assert_eq!(history.refused(), [0]);
}
