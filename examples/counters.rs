//! Counters that several threads increment: `cargo run --release --example counters`.
//!
//! A get and a put are two steps. Without a mutex, two threads could read the same count, and one
//! of the two increments would be lost. Each group of keys has a mutex of its own, so that threads
//! rarely wait for others that increment different counters.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use minikv::{Db, Options, Result};

const THREADS: u64 = 4;
const INCREMENTS: u64 = 5_000;

struct Counters {
    db: Db,
    hasher: RandomState,
    locks: [Mutex<()>; 16],
}

impl Counters {
    fn add(&self, key: &str, amount: u64) -> Result<u64> {
        let lock = &self.locks[self.hasher.hash_one(key) as usize % self.locks.len()];
        let _held = lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let sum = self.get(key)? + amount;
        self.db.put(key, sum.to_le_bytes())?;
        Ok(sum)
    }

    fn get(&self, key: &str) -> Result<u64> {
        let value = self.db.get(key)?;
        Ok(value.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("8 bytes"))))
    }
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(home.path().join("db"), Options::default().create_if_missing(true))?;
    let counters = Counters { db, hasher: RandomState::new(), locks: Default::default() };
    std::thread::scope(|scope| {
        let count = || {
            (0..INCREMENTS).try_for_each(|number| {
                counters.add(if number % 2 == 0 { "even" } else { "odd" }, 1).map(drop)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for key in ["even", "odd"] {
        let count = counters.get(key)?;
        println!("{key}: {count}");
        assert_eq!(count, THREADS * INCREMENTS / 2, "no increment is lost");
    }
    Ok(())
}
