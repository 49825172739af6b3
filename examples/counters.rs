//! Counters that several threads increment: `cargo run --release --example counters`.
//!
//! A get and a put are two steps: two threads could read the same count, and one of the two
//! increments would be lost. `Db::update` is one step: if another write comes between its read and
//! its write, `Db::update` calls its closure again with the new count.

use minikv::{Db, Result};

const THREADS: u64 = 4;
const INCREMENTS: u64 = 5_000;

fn count(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

/// Adds `amount` to a counter. Returns the sum.
fn add(db: &Db, key: &str, amount: u64) -> Result<u64> {
    let add = |old: Option<&[u8]>| Some((count(old) + amount).to_le_bytes().to_vec());
    Ok(count(db.update(key, add)?.as_deref()))
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;
    std::thread::scope(|scope| {
        let increment = || {
            (0..INCREMENTS).try_for_each(|number| {
                add(&db, if number % 2 == 0 { "even" } else { "odd" }, 1).map(drop)
            })
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(increment)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for key in ["even", "odd"] {
        let sum = count(db.get(key)?.as_deref());
        println!("{key}: {sum}");
        assert_eq!(sum, THREADS * INCREMENTS / 2, "no increment is lost");
    }
    Ok(())
}
