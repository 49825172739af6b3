//! Scans a prefix, a range, and the last few keys of a prefix, and moves a cursor both ways:
//! `cargo run --example prefix_scan`.

use minikv::{Db, Readable, Result};

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let db = Db::create(home.path().join("db"))?;
    for day in 1..=28 {
        db.put(format!("temperature/2024-02-{day:02}"), format!("{}", day % 10))?;
        db.put(format!("wind/2024-02-{day:02}"), format!("{}", day % 7))?;
    }

    println!("temperatures: {}", db.prefix("temperature/")?.count());

    println!("the second week:");
    for entry in db.range("temperature/2024-02-08".."temperature/2024-02-15") {
        let (key, value) = entry?;
        println!("  {} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }

    println!("the last three winds, newest first:");
    for entry in db.prefix("wind/")?.rev().take(3) {
        let (key, value) = entry?;
        println!("  {} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
    }

    // A cursor lends its key and value, and moves both ways. Each move returns whether it reached
    // an entry; if it did not, `key` panics.
    let mut cursor = db.cursor()?;
    if cursor.seek("temperature/2024-02-20")? && cursor.prev()? {
        println!("before the 20th comes {}", String::from_utf8_lossy(cursor.key()));
    }
    Ok(())
}
