//! A reader that follows a writer: `cargo run --example following`.
//!
//! The writer is usually another process. Here it is a thread, with a handle of its own.

use std::path::Path;
use std::thread;
use std::time::Duration;

use minikv::{Db, Options, Readable, Result, WriteBatch};

const ORDERS: u32 = 20;

/// Writes orders, and counts them in the same batch.
fn write_orders(dir: &Path) -> Result<()> {
    let db = Db::create(dir)?;
    for number in 1..=ORDERS {
        let mut batch = WriteBatch::new();
        batch.put(format!("order/{number:04}"), "one cup of tea");
        batch.put("orders", number.to_be_bytes());
        db.write(batch)?;
        thread::sleep(Duration::from_millis(5));
    }
    db.close()
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let dir = home.path().join("db");
    Db::create(&dir)?.close()?;
    let db = Db::open_read_only(&dir, Options::default())?;
    let writer = thread::spawn(move || write_orders(&dir));

    for refreshed in db.follow(Duration::from_millis(20)) {
        let sequence = refreshed?.sequence;
        // The snapshot shows the count and the orders at the same moment. It never shows part of a
        // batch.
        let now = db.snapshot();
        let count =
            now.get("orders")?.map_or(0, |count| u32::from_be_bytes(count[..].try_into().unwrap()));
        assert_eq!(now.prefix("order/")?.count(), count as usize);
        println!("{count} orders at sequence number {sequence}");
        if count == ORDERS {
            break;
        }
    }
    writer.join().expect("the writer ends")
}
