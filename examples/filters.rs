//! Runs the same lookups in the same tables with and without bloom filters, to show the reads that
//! the filters save: `cargo run --release --example filters`.
//!
//! A get of an absent key must search every table whose range includes the key. If the filter in
//! memory says that the key is not in the data block, the block is not read.
//!
//! The columns, summed over all lookups:
//! - *data blocks*: blocks read, from the cache or from a file; filters exist to save these reads;
//! - *filter checks*: filters queried, one for each table whose range includes the key;
//! - *negatives*: filters that said "not here", which is always right;
//! - *false positives*: filters that said "maybe" about a block that does not have the key.

use minikv::stats::LevelTrace;
use minikv::{Db, Options, ReadOptions, ReadTrace, Readable, Result};

const ENTRIES: u32 = 50_000;
const LOOKUPS: u32 = 10_000;

/// Looks up even numbers, which are present, or odd numbers, which are absent. Returns the counters
/// of these lookups.
fn look_up(db: &Db, options: &ReadOptions, odd: u32) -> Result<LevelTrace> {
    let mut sum = ReadTrace::default();
    for i in 0..LOOKUPS {
        let number = i.wrapping_mul(104_729) % ENTRIES * 2 + odd;
        let (value, trace) = db.reading(*options).get_traced(format!("key{number:08}"))?;
        assert_eq!(value.is_some(), odd == 0);
        sum.add(&trace);
    }
    Ok(sum.total())
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let options = Options::default().create_if_missing(true).write_buffer_bytes(512 << 10);
    let db = Db::open(home.path().join("db"), options)?;
    for i in 0..ENTRIES {
        // Put only even numbers, in a scattered order, so that every table spans nearly all keys.
        let number = i.wrapping_mul(7919) % ENTRIES * 2;
        db.put(format!("key{number:08}"), format!("the value of {number}"))?;
    }
    db.flush()?;
    db.wait_idle()?;

    println!("{LOOKUPS} lookups among {ENTRIES} entries, 10 bits a key\n");
    println!(
        "{:9}{:9}{:>12}{:>15}{:>11}{:>17}",
        "keys", "filters", "data blocks", "filter checks", "negatives", "false positives"
    );
    for (odd, keys) in [(0, "present"), (1, "absent")] {
        // Both rounds use the same database, because two databases would be compacted differently.
        for (used, filters) in [(true, "used"), (false, "ignored")] {
            let trace = look_up(&db, &ReadOptions::default().use_filter(used), odd)?;
            println!(
                "{keys:9}{filters:9}{:>12}{:>15}{:>11}{:>17}",
                trace.data_blocks(),
                trace.filter_checks,
                trace.filter_negatives,
                trace.filter_false_positives
            );
        }
    }
    Ok(())
}
