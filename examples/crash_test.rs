//! Tests what a program promises, by simulating a power loss after every disk operation:
//! `cargo run --release --example crash_test`.
//!
//! `SimFs` is a disk in memory that knows which data a power loss would leave. The program under
//! test keeps an inbox: it writes each order and the count of orders in one batch, and syncs the
//! batch before it answers "accepted".

use minikv::fs::SimFs;
use minikv::fs::sim::CrashPlan;
use minikv::{Db, Options, Readable, Result, WriteBatch, WriteOptions};

const ORDERS: u32 = 20;

fn open(disk: &SimFs) -> Result<Db> {
    let options = Options::default().create_if_missing(true).fs(disk.clone());
    Db::open("/inbox", options)
}

fn accept(db: &Db, number: u32) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(format!("order/{number:04}"), "an apple");
    batch.put("count", (number + 1).to_le_bytes());
    db.writing(WriteOptions::default().sync(true)).write(batch)
}

fn main() -> Result<()> {
    let disk = SimFs::new(1);
    disk.record_history();
    let db = open(&disk)?;
    let mut accepted_at = Vec::new();
    for number in 0..ORDERS {
        accept(&db, number)?;
        accepted_at.push(disk.op_count());
        if number % 8 == 7 {
            db.flush()?;
        }
    }
    db.close()?;

    let mut crashes = 0;
    for operation in accepted_at[0]..=disk.op_count() {
        for seed in 0..5 {
            let plan = CrashPlan::random(seed).at_op(operation);
            let db = open(&disk.crash_image(&plan))?;
            let orders = db.prefix("order/")?.count();
            let count = db.get("count")?.expect("one was accepted before");
            assert_eq!(count[..], (orders as u32).to_le_bytes(), "{plan}: a batch in part");
            let accepted = accepted_at.iter().filter(|&&at| at <= operation).count();
            assert!(orders >= accepted, "{plan}: {accepted} accepted, {orders} there");
            crashes += 1;
        }
    }
    println!("{crashes} crashes, and every accepted order was there after each");
    Ok(())
}
