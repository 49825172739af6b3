//! Runs clients while nodes are killed, paused and partitioned, and checks the results of the
//! clients for linearizability.
//!
//! The seed of a run determines the number of nodes, what each client does, and which faults occur.
//! `MINIKV_RAFT_SEEDS=7` runs one seed; `MINIKV_RAFT_SEEDS=0..100` runs one hundred seeds.
//! Processes and the network are not deterministic, so a seed repeats the plan of a run but not the
//! exact interleaving.

use std::time::Duration;

use minikv_raft::client::ClientError;
use minikv_raft::service::Read;

use crate::clocks::Clocks;
use crate::history::{History, Op};
use crate::load::Load;
use crate::processes::{Cluster, http, wait_for};
use crate::rng::{Rng, seeds};

/// Causes one fault, waits, and ends the fault. `members` lists the current nodes of the cluster.
/// At most one node is replaced in a run, so clients still know the addresses of the other nodes.
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
            cluster.cut_off(victim).await;
            // Waits long enough for the other nodes to elect another leader if the victim was the
            // leader.
            tokio::time::sleep(Duration::from_millis(1500) + pause).await;
            cluster.reconnect(victim).await;
            "partition"
        }
        3 => {
            // Kills all nodes at once, as when a machine that runs all of them loses power.
            for id in members.iter() {
                cluster.kill(*id);
            }
            for id in members.iter() {
                cluster.run(*id);
            }
            "kill -9 of all"
        }
        4 => {
            let mut any_set = false;
            for id in members.iter() {
                let hours = rng.next(9) as i64 - 4;
                any_set |= cluster.clocks.as_ref().is_some_and(|clocks| clocks.set(*id, hours));
            }
            tokio::time::sleep(pause).await;
            if any_set { "clocks set" } else { "no clock set" }
        }
        _ => {
            let (id, address) = cluster.add();
            let client = cluster.client(60);
            // Until nodes that were just started answer, such a change is refused.
            let said = |error: &ClientError| println!("replacement: {error}");
            let join = || async { client.join(id, &address).await.inspect_err(said).ok() };
            wait_for(join).await.expect("the new node joins");
            let leave = || async { client.leave(victim).await.inspect_err(said).ok() };
            wait_for(leave).await.expect("the other one leaves");
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
    // The nodes take snapshots often, so nodes that fell behind have to receive a snapshot.
    let extra = ["--layout", layout, "--snapshot-every", "60", "--keep-entries", "20"];
    let mut cluster = Cluster::without_nodes(&extra);
    cluster.clocks = Clocks::new(&cluster.path(""), &mut rng);
    cluster.init(nodes).await;
    let reads =
        [vec![Read::Linearizable], vec![Read::Lease], vec![Read::Linearizable, Read::Lease]];
    let load = Load::start(seed, cluster.addresses(), &reads);
    let (mut faults, mut members) = (Vec::new(), (1..=nodes).collect());
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        faults.push(fault(&mut cluster, &mut members, &mut rng).await);
    }
    cluster.leader().await;
    let is_enough = || async { (load.operations() > 300).then_some(()) };
    wait_for(is_enough).await.expect("300 operations");
    let checked = load.end().await;
    println!("seed {seed}: {nodes} nodes, layout {layout}, {checked}, {faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_beside_faults_are_linearizable() {
    for seed in seeds() {
        run(seed).await;
    }
}

/// Checks that the checker can fail: it must refuse a history that contains a stale read from a
/// node that was cut off.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_stale_reads_is_refused() {
    let cluster = Cluster::start(3, &[]).await;
    let (history, kv) = (History::new(), cluster.client(10));
    history.run(&kv, 0, 0, Op::Write(1), Read::Linearizable).await.unwrap();
    let leader = cluster.leader().await;
    let cut = if leader == 3 { 2 } else { 3 };
    let address = cluster.nodes[cut as usize - 1].address.clone();
    let has_first = || async {
        let path = "/v1/kv/register-0?read=stale";
        let (_, body) = http(&address, "GET", path, &[], b"").await.ok()?;
        (body == "1").then_some(())
    };
    wait_for(has_first).await.unwrap();
    cluster.cut_off(cut).await;
    history.run(&kv, 0, 0, Op::Write(2), Read::Linearizable).await.unwrap();
    assert_eq!(history.refused(), [0; 0]);

    let only = cluster.client_of(&[cut], Duration::from_secs(3));
    history.run(&only, 1, 0, Op::Read, Read::Stale).await.unwrap();
    assert_eq!(history.refused(), [0], "the checker accepted a stale read");
}

/// Checks that a leader that was cut off refuses reads, because its lease has expired, although it
/// still believes that it is the leader. Then makes the leader skip the check of its lease. The
/// leader must return a value that another leader has overwritten, and the checker must refuse the
/// history.
#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_leader_without_the_check_of_its_lease_is_refused() {
    let cluster = Cluster::start(3, &[]).await;
    let (history, kv) = (History::new(), cluster.client(20));
    history.run(&kv, 0, 0, Op::Write(1), Read::Linearizable).await.unwrap();
    let old = cluster.leader().await;
    let rest = cluster.client_of(&cluster.others(old), Duration::from_secs(10));

    cluster.cut_off(old).await;
    history.run(&rest, 0, 0, Op::Write(2), Read::Linearizable).await.unwrap();
    let status = cluster.status(old).await.unwrap();
    assert_eq!(status.role, "Leader", "it believes so still");
    let short = cluster.client_of(&[old], Duration::from_millis(600));
    for read in [Read::Lease, Read::Linearizable] {
        let refused = history.run(&short, 1, 0, Op::Read, read).await;
        assert!(refused.is_err(), "{read:?}: {refused:?}");
    }
    assert_eq!(history.refused(), [0; 0]);

    let (status, _) =
        http(&cluster.nodes[old as usize - 1].address, "POST", "/test/trust-lease", &[], b"")
            .await
            .unwrap();
    assert_eq!(status, 200);
    history.run(&short, 1, 0, Op::Read, Read::Lease).await.unwrap();
    assert_eq!(history.refused(), [0]);
}
