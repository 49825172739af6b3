//! Range deletes: removes old days of a log at once, together with their tables.
//!
//! ```text
//! cargo run --release --example delete_range
//! ```

use std::error::Error;
use std::time::Instant;

use minikv::{Db, Readable};

const DAYS: u32 = 30;
const LINES: u32 = 40_000;

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let db = Db::create(home.path().join("db"))?;
    for day in 1..=DAYS {
        for line in 0..LINES {
            db.put(format!("log/{day:02}/{line:06}"), format!("line {line} of day {day}"))?;
        }
    }
    db.compact_range(..)?;
    let before = db.snapshot();

    // The deletion is atomic: reads, and an open after a crash, show all of it or none of it.
    let began = Instant::now();
    let done = db.delete_range("log/01".."log/29")?;
    println!("{} tables dropped, {} keys deleted one by one", done.tables, done.keys);
    eprintln!("in {:.2?}", began.elapsed());

    assert_eq!(db.prefix("log/")?.count(), 2 * LINES as usize);
    // A snapshot keeps the tables that it shows, until it is dropped.
    assert!(before.get("log/05/000001")?.is_some());
    Ok(())
}
