//! Tests of nodes that lose power. The files of the nodes are on simulated disks, which lose
//! unsynced data.
//!
//! The nodes run in this process and speak HTTP. Each disk has its own speed, so some nodes have
//! entries long before others. Some disks fail. After a node has lost power, it sends no more
//! messages, and its disk loses a random part of the unsynced data.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use minikv::fs::SimFs;
use minikv::fs::sim::{CrashPlan, Fault, OpKind};
use minikv_raft::client::Client;
use minikv_raft::service::{Listening, Node, NodeOptions, Read};
use tokio::runtime::Runtime;

use crate::load::Load;
use crate::processes::{client_of, free_port, http, wait_for};
use crate::rng::{Rng, seeds};

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    node: NodeOptions,
}

struct Machine {
    options: NodeOptions,
    disk: SimFs,
    /// Duration of a sync of the disk, in milliseconds.
    sync: Arc<AtomicU64>,
    /// Duration of a read from a table of the log, in milliseconds.
    read: Arc<AtomicU64>,
    running: Option<(Runtime, Arc<Node>)>,
}

impl Machine {
    fn new(id: u64, layout: &str, sync: u64) -> Machine {
        let address = format!("127.0.0.1:{}", free_port());
        let id = id.to_string();
        let arguments = ["node", "--id", &id, "--listen", &address, "--dir", "/node"];
        let others = ["--layout", layout, "--snapshot-every", "60", "--keep-entries", "20"];
        let options = Options::parse_from(arguments.into_iter().chain(others)).node;
        let (disk, sync) = (SimFs::new(1), Arc::new(AtomicU64::new(sync)));
        Machine { options, disk, sync, read: Arc::default(), running: None }
    }

    fn address(&self) -> String {
        self.options.listen.to_string()
    }

    async fn start(&mut self) {
        let (sync, read) = (self.sync.clone(), self.read.clone());
        self.disk.set_hook(move |operation| {
            let is_of_log = || operation.path.starts_with("/node/log");
            if matches!(operation.kind, OpKind::Read) && is_of_log() {
                std::thread::sleep(Duration::from_millis(read.load(Ordering::Relaxed)));
            }
            if matches!(operation.kind, OpKind::Sync) {
                // In short steps, so that a sync that hangs can be continued.
                let began = Instant::now();
                let left = || {
                    Duration::from_millis(sync.load(Ordering::Relaxed)).checked_sub(began.elapsed())
                };
                while let Some(left) = left() {
                    std::thread::sleep(left.min(Duration::from_millis(50)));
                }
            }
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let (options, disk) = (self.options.clone(), Arc::new(self.disk.clone()));
        let node = runtime.spawn(async move { Node::start_on(&options, disk).await.unwrap() });
        let node = node.await.unwrap();
        let (serving, options) = (node.clone(), self.options.clone());
        runtime.spawn(async move {
            // The port may still be in use until the old node, which lost power, has shut down: for
            // five seconds, and longer on a busy machine. This task ends with its node.
            loop {
                let stop = std::future::pending();
                if let Ok(listening) = Listening::bind(&options).await {
                    let Err(_) = serving.clone().serve(listening, stop).await else { return };
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        self.running = Some((runtime, node));
    }

    fn lose_power(&mut self, seed: u64) {
        let Some((runtime, node)) = self.running.take() else { return };
        node.faults().lose_power();
        // The disk must not crash before the node has stopped sending, because everything that the
        // node sends must already be durable.
        self.disk = self.disk.crash_image(&CrashPlan::random(seed));
        drop(node);
        // A separate thread waits for the shutdown, because this thread runs tasks of another
        // runtime.
        std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5)));
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.lose_power(0);
    }
}

struct Site {
    machines: Vec<Machine>,
}

impl Site {
    async fn start(nodes: u64, layout: &str, rng: &mut Rng) -> Site {
        Site::start_with(nodes, layout, rng, 600).await
    }

    async fn start_with(nodes: u64, layout: &str, rng: &mut Rng, election_timeout: u64) -> Site {
        let mut machines = Vec::new();
        for id in 1..=nodes {
            let mut machine = Machine::new(id, layout, 1 + rng.next(12));
            machine.options.election_timeout = election_timeout;
            machine.start().await;
            machines.push(machine);
        }
        let site = Site { machines };
        let members: Vec<(u64, String)> = (1..).zip(site.addresses()).collect();
        site.client(20).init(&members).await.unwrap();
        site
    }

    fn addresses(&self) -> Vec<String> {
        self.machines.iter().map(Machine::address).collect()
    }

    fn client(&self, seconds: u64) -> Client {
        client_of(&self.addresses(), Duration::from_secs(seconds))
    }

    fn ignore(&self, victim: usize, others: BTreeSet<u64>) {
        if let Some((_, node)) = &self.machines[victim].running {
            node.faults().ignore(others);
        }
    }

    async fn fault(&mut self, rng: &mut Rng) -> &'static str {
        let pause = Duration::from_millis(200 + rng.next(1500));
        let nodes = self.machines.len();
        let victim = rng.next(nodes as u64) as usize;
        match rng.next(6) {
            0 => {
                self.machines[victim].lose_power(rng.next(1 << 32));
                tokio::time::sleep(pause).await;
                self.machines[victim].start().await;
                "power of one"
            }
            1 => {
                let machine = &self.machines[victim];
                let usual = machine.sync.swap(150 + rng.next(400), Ordering::Relaxed);
                tokio::time::sleep(pause).await;
                machine.sync.store(usual, Ordering::Relaxed);
                "slow disk"
            }
            2 => {
                let others = (1..=nodes as u64).filter(|id| *id != victim as u64 + 1).collect();
                self.ignore(victim, others);
                tokio::time::sleep(Duration::from_millis(1000) + pause).await;
                self.ignore(victim, BTreeSet::new());
                "partition"
            }
            3 => {
                self.lose_all_power(rng, victim, pause).await;
                "power of all"
            }
            4 => {
                // The node finds that it cannot write to its disk, and stops. Then the node loses
                // power.
                let machine = &mut self.machines[victim];
                machine.disk.inject(disk_error(rng));
                tokio::time::sleep(pause).await;
                machine.lose_power(rng.next(1 << 32));
                machine.disk.clear_faults();
                machine.start().await;
                "disk error"
            }
            _ => {
                // The disk of the victim is faster, so the victim has entries long before the other
                // nodes. After the power failure, the victim starts last.
                let sync = |machine: &Machine, ms| machine.sync.swap(ms, Ordering::Relaxed);
                let slow = |(at, machine)| sync(machine, if at == victim { 1 } else { 250 });
                let usual: Vec<u64> = self.machines.iter().enumerate().map(slow).collect();
                tokio::time::sleep(Duration::from_millis(600 + rng.next(200))).await;
                self.lose_all_power(rng, victim, pause).await;
                for (machine, ms) in self.machines.iter().zip(usual) {
                    sync(machine, ms);
                }
                "power of all, the fastest comes back last"
            }
        }
    }

    /// Makes all nodes lose power, and restarts them. The node `late` starts only after the other
    /// nodes have run for a while.
    async fn lose_all_power(&mut self, rng: &mut Rng, late: usize, pause: Duration) {
        let nodes = self.machines.len();
        let first = rng.next(nodes as u64) as usize;
        for at in 0..nodes {
            self.machines[(first + at) % nodes].lose_power(rng.next(1 << 32));
        }
        for at in (0..nodes).filter(|at| *at != late) {
            self.machines[at].sync.store(1 + rng.next(12), Ordering::Relaxed);
            self.machines[at].start().await;
        }
        tokio::time::sleep(Duration::from_millis(1000) + pause).await;
        self.machines[late].start().await;
    }

    /// Compares the contents of the nodes after all nodes have applied all entries.
    async fn compare(&self) {
        self.client(30).put("end", "").await.unwrap();
        let mut first = None;
        for address in self.addresses() {
            let kv = client_of(&[address], Duration::from_secs(30));
            let has_end = || async { kv.get(b"end", Read::Stale).await.ok().flatten() };
            wait_for(has_end).await.expect("the last write on every node");
            let (entries, more) = kv.range(b"", None, 10_000, Read::Stale).await.unwrap();
            assert!(!more);
            assert_eq!(first.get_or_insert_with(|| entries.clone()), &entries);
        }
    }
}

/// Returns a disk fault that makes one of the next operations fail.
fn disk_error(rng: &mut Rng) -> Fault {
    let fault = match rng.next(4) {
        0 => Fault::lost_sync(),
        1 => Fault::io_error().on(&[OpKind::Sync]),
        2 => Fault::torn_write(20),
        _ => Fault::no_space().on(&[OpKind::Write, OpKind::Create]).sticky(),
    };
    fault.nth(1 + rng.next(40))
}

/// Counts panics of openraft's tasks, but not of tests, whose threads have their names. openraft
/// panics when a log has lost entries.
fn count_panics() -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let (counted, usual) = (count.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        let is_test = std::thread::current().name().is_some_and(|name| name.contains("::"));
        counted.fetch_add(u64::from(!is_test), Ordering::Relaxed);
        usual(panic);
    }));
    count
}

async fn run(seed: u64) {
    let mut rng = Rng(seed ^ 0x9077);
    let nodes = if rng.next(3) == 0 { 5 } else { 3 };
    let layout = if rng.next(2) == 0 { "one" } else { "two" };
    let mut site = Site::start(nodes, layout, &mut rng).await;
    let reads = [vec![Read::Linearizable], vec![Read::Lease]];
    let load = Load::start(seed, site.addresses(), &reads);
    let mut faults = Vec::new();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300 + rng.next(300))).await;
        faults.push(site.fault(&mut rng).await);
    }
    // If the nodes have lost data, these reads make the check of the histories fail.
    load.read_all(&site.client(30)).await;
    let checked = load.end().await;
    site.compare().await;
    println!("power, seed {seed}: {nodes} nodes, layout {layout}, {checked}, {faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_beside_losses_of_power_are_linearizable() {
    let panics = count_panics();
    for seed in seeds() {
        run(seed).await;
        assert_eq!(panics.load(Ordering::Relaxed), 0, "seed {seed}: a panic");
    }
}

/// A leader that is cut off has writes in flight. They are lost when it follows the next leader by
/// a snapshot, and must not stand in the way of its next lead.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_behind_by_a_snapshot_takes_writes_when_it_leads_again() {
    let site = Site::start(3, "two", &mut Rng(4)).await;
    let client = site.client(20);
    client.put("before", "1").await.unwrap();
    let leader = || async { client.status().await.ok()?.leader };
    let old = wait_for(leader).await.unwrap();
    let cut_off = |id: u64, yes: bool| {
        let others = (1..=3).filter(|other| yes && *other != id).collect();
        site.ignore(id as usize - 1, others);
    };
    let address = site.machines[old as usize - 1].address();
    let at_old = || client_of(std::slice::from_ref(&address), Duration::from_secs(5));
    let status = || async { at_old().status().await.ok() };

    cut_off(old, true);
    // One after the other, so that each is an entry of its own.
    let mut lost = Vec::new();
    for key in ["a", "b", "c"] {
        let client = at_old();
        lost.push(tokio::spawn(async move { client.put(key, "lost").await }));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for write in lost {
        assert!(write.await.unwrap().is_err(), "a write without a majority");
    }
    let others = site.addresses().into_iter().filter(|other| *other != address);
    let rest = client_of(&others.collect::<Vec<_>>(), Duration::from_secs(20));
    for n in 0..200 {
        rest.put(format!("key/{n}"), "1").await.unwrap();
    }
    cut_off(old, false);
    let caught_up = || async { status().await.filter(|status| status.snapshot > Some(100)) };
    wait_for(caught_up).await.expect("a snapshot for the old leader");

    // Whoever else leads is cut off, until the old leader leads again.
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(120), "the old leader does not lead again");
        match status().await.and_then(|status| status.leader) {
            Some(leader) if leader == old => break,
            Some(other) => {
                cut_off(other, true);
                tokio::time::sleep(Duration::from_millis(1500)).await;
                cut_off(other, false);
            }
            None => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    at_old().put("after", "1").await.expect("a write in the second lead");
    site.compare().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_disk_hangs_says_so_and_is_replaced() {
    let site = Site::start(3, "two", &mut Rng(1)).await;
    site.client(20).put("before", "1").await.unwrap();
    let leader_of = |status: minikv_raft::service::Status| status.leader;
    let leader = || async { site.client(5).status().await.ok().and_then(leader_of) };
    let hung = wait_for(leader).await.unwrap();
    let machine = &site.machines[hung as usize - 1];
    let usual = machine.sync.swap(60_000, Ordering::Relaxed);

    // With the default election timeout of 600 ms, the leader gives up after 3.6 s.
    let began = Instant::now();
    site.client(25).put("during", "2").await.expect("another leader takes the write");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let health = || async {
        let (status, text) = http(&machine.address(), "GET", "/health", &[], b"").await.ok()?;
        (status == 503 && text.contains("has not synced the log")).then_some(())
    };
    assert!(wait_for(health).await.is_some(), "/health does not name the disk");

    machine.sync.store(usual, Ordering::Relaxed);
    site.compare().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_reads_its_log_slowly_stays_the_leader() {
    // Patient, because a build without optimisation is slow with these amounts of data.
    let mut site = Site::start_with(3, "two", &mut Rng(2), 1500).await;
    let client = site.client(20);
    client.put("before", "1").await.unwrap();
    let leader = || async { client.status().await.ok()?.leader };
    let first = wait_for(leader).await.unwrap();
    let away = site.machines.iter().position(|machine| machine.options.id != first).unwrap();
    site.machines[away].lose_power(1);
    // More than the leader keeps in memory, and no reason for a snapshot.
    let mut rng = Rng(3);
    for n in 0..24 {
        let value: Vec<u8> = (0..1_000_000).map(|_| rng.next(256) as u8).collect();
        client.put(format!("key/{n}"), value).await.unwrap();
    }
    // Reading some entries takes longer than the election timeout, and less than six of them, after
    // which the leader would give up.
    let leader = wait_for(leader).await.unwrap();
    let before = client.status().await.unwrap().term;
    let read = site.machines[leader as usize - 1].read.clone();
    read.store(200, Ordering::Relaxed);
    site.machines[away].start().await;
    let only = client_of(&[site.machines[away].address()], Duration::from_secs(2));
    let has_all = || async { only.get(b"key/23", Read::Stale).await.ok().flatten() };
    assert!(wait_for(has_all).await.is_some(), "the node does not catch up");
    read.store(0, Ordering::Relaxed);
    assert_eq!(client.status().await.unwrap().term, before, "the leader was overthrown");
}
