//! Counters for other programs: `cargo run --release --example metrics -- DIR FILE`.
//!
//! Fills the database DIR and looks up keys in it, until the program is interrupted. A thread
//! replaces FILE every half second with the database's counters in Prometheus's text format, which
//! can be read by `minikv top DIR --metrics FILE` and by collectors of Prometheus metrics.

use std::path::Path;
use std::time::Duration;
use std::{fs, io, thread};

use minikv::{Db, Result};

/// Replaces `file` as a whole, so that no reader sees a part of it.
fn export(db: &Db, file: &Path) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, db.stats().prometheus(&[("db", "example")]))?;
    fs::rename(&new, file)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(dir), Some(file)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: metrics DIR FILE [ROUNDS]");
        std::process::exit(2);
    };
    let rounds = arguments.next().and_then(|rounds| rounds.to_str()?.parse().ok());
    let db = Db::create(&dir)?;
    let exported = db.clone();
    thread::spawn(move || {
        loop {
            if let Err(error) = export(&exported, Path::new(&file)) {
                eprintln!("{}: {error}", Path::new(&file).display());
            }
            thread::sleep(Duration::from_millis(500));
        }
    });
    for round in 0..rounds.unwrap_or(u64::MAX) {
        for number in 0..10_000 {
            // Half of the keys that are looked up are absent.
            let key = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            db.put(key(round * 10_000 + number), [b'v'; 100])?;
            db.get(key(number * 7919 % (20_000 * (round + 1))))?;
        }
        println!("{} gets", db.stats().gets);
    }
    Ok(())
}
