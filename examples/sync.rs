//! Durability for the price of one sync: many writes, then one sync for all of them.
//!
//! ```text
//! cargo run --release --example sync
//! ```

use std::error::Error;

use minikv::{Db, WriteOptions};

const THREADS: u32 = 4;
const ORDERS: u32 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let db = Db::create(home.path().join("db"))?;

    // Each of these puts is durable when it returns, and costs a sync.
    let synced = WriteOptions::default().sync(true);
    (0..10).try_for_each(|i| db.writing(synced).put(format!("slow{i}"), ""))?;
    let slow = db.stats().wal_syncs;

    // Each of these puts survives the end of the process. It survives a power loss only after its
    // thread has synced. Threads that wait for a sync share the next sync.
    std::thread::scope(|scope| {
        let take = |thread: u32| -> minikv::Result<()> {
            for i in 0..ORDERS {
                db.put(format!("order {thread}-{i}"), "book")?;
                if i % 100 == 99 {
                    db.sync()?;
                }
            }
            Ok(())
        };
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || take(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let fast = db.stats().wal_syncs - slow;
    println!("10 durable puts: {slow} syncs; {} durable puts: {fast} syncs", THREADS * ORDERS);
    assert!(fast <= u64::from(THREADS * ORDERS / 100));
    Ok(())
}
