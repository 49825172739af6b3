//! Runs clients while faults occur, and checks that their histories are linearizable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minikv_raft::client::Client;
use minikv_raft::service::Read;
use tokio::task::JoinHandle;

use crate::history::{History, Op, Register, Ret};
use crate::lists::{APPENDERS, Lists, appender, check};
use crate::processes::client_of;
use crate::rng::Rng;

// The checker takes too long for histories with many concurrent operations. There are therefore
// many registers, and clients pause between operations.
const REGISTERS: usize = 12;
const REGISTERS_OF_READERS: u64 = 2;
const CLIENTS: usize = 6;
/// Number of clients that only read. They stay with a leader that is cut off, whereas a failed
/// write would make them try another node.
const READERS: usize = 3;

/// The running clients of registers and of lists.
pub struct Load {
    seed: u64,
    registers: Arc<History<Register>>,
    lists: Arc<History<Lists>>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the clients. Each client knows the nodes in a different order. Each item of `reads`
    /// lists the kinds of reads that a client makes; clients take the items in turn.
    pub fn start(seed: u64, addresses: Vec<String>, reads: &[Vec<Read>]) -> Load {
        let (registers, lists) = (Arc::new(History::new()), Arc::new(History::new()));
        let over = Arc::new(AtomicBool::new(false));
        let known = |number: usize| {
            let mut addresses = addresses.clone();
            let first = number % addresses.len();
            addresses.rotate_left(first);
            addresses
        };
        let mut clients = Vec::new();
        for number in 0..CLIENTS + READERS {
            let (history, over) = (registers.clone(), over.clone());
            let reads = reads[number % reads.len()].clone();
            clients.push(tokio::spawn(client(number, seed, known(number), history, over, reads)));
        }
        for number in 0..APPENDERS {
            let (history, over) = (lists.clone(), over.clone());
            clients.push(tokio::spawn(appender(number, seed, known(number), history, over)));
        }
        Load { seed, registers, lists, over, clients }
    }

    /// Returns the number of operations on registers recorded so far.
    pub fn operations(&self) -> usize {
        self.registers.events.lock().unwrap().len()
    }

    /// Reads each register once.
    pub async fn read_all(&self, kv: &Client) {
        for key in 0..REGISTERS {
            let number = CLIENTS + READERS;
            self.registers.run(kv, number, key, Op::Read, Read::Linearizable).await.unwrap();
        }
    }

    /// Stops the clients and asserts that their histories are linearizable. Returns a summary of
    /// the histories.
    pub async fn end(self) -> String {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        let (seed, refused) = (self.seed, self.registers.refused());
        assert!(refused.is_empty(), "seed {seed}: not linearizable: registers {refused:?}");
        let operations = self.registers.events.lock().unwrap().len();
        assert!(operations > 100, "seed {seed}: only {operations} operations");
        format!("{operations} operations, {} on lists", check(&self.lists, seed))
    }
}

/// Runs the operations of one client until `over` is set.
async fn client(
    number: usize,
    seed: u64,
    addresses: Vec<String>,
    history: Arc<History<Register>>,
    over: Arc<AtomicBool>,
    reads: Vec<Read>,
) {
    let mut rng = Rng(seed.wrapping_mul(1000).wrapping_add(number as u64));
    let kv = client_of(&addresses, Duration::from_secs(3));
    // For each register, the value that this client expects it to have.
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
                    Some((_, Ret::Value(value))) => value,
                    _ => believed[key],
                }
            }
        };
        let longest = if is_reader { 80 } else { 30 };
        tokio::time::sleep(Duration::from_millis(rng.next(longest))).await;
    }
}
