//! What a bloom filter saves: the same lookups in the same data, with filters and without.
//! `cargo run --release --example filters`
//!
//! A get that finds nothing must look into every table whose range holds the key. With a filter
//! it learns from memory that a data block does not have the key, and leaves it unread.

use std::path::Path;
use std::sync::Arc;

use minikv::base::stats::{LevelTrace, ReadTrace};
use minikv::{BloomFilterPolicy, Db, FilterPolicy, Options, Result};

const ENTRIES: u32 = 50_000;
const LOOKUPS: u32 = 10_000;

fn load(dir: &Path, filter: Option<Arc<dyn FilterPolicy>>) -> Result<Db> {
    let options = Options::default().create_if_missing(true).filter_policy(filter);
    let db = Db::open(dir, options.write_buffer_bytes(512 << 10))?;
    for i in 0..ENTRIES {
        // Only even numbers, in a scattered order, so that every table spans all keys.
        let number = i.wrapping_mul(7919) % ENTRIES * 2;
        db.put(format!("key{number:08}"), format!("the value of {number}"))?;
    }
    db.flush()?;
    db.wait_idle()?;
    Ok(db)
}

/// Looks up even numbers, which are there, or odd ones, which are not.
fn look_up(db: &Db, odd: u32) -> Result<LevelTrace> {
    let mut sum = ReadTrace::default();
    for i in 0..LOOKUPS {
        let number = i.wrapping_mul(104_729) % ENTRIES * 2 + odd;
        let (value, trace) = db.get_traced(format!("key{number:08}"))?;
        assert_eq!(value.is_some(), odd == 0);
        sum.add(&trace);
    }
    Ok(sum.total())
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    let bloom = Arc::new(BloomFilterPolicy::new(10));
    let with = load(&home.path().join("with"), Some(bloom))?;
    let without = load(&home.path().join("without"), None)?;

    println!("{LOOKUPS} lookups among {ENTRIES} entries, 10 bits a key\n");
    println!(
        "{:9}{:9}{:>12}{:>14}{:>12}{:>16}",
        "keys", "filter", "data blocks", "filter checks", "negatives", "false positives"
    );
    for (odd, keys) in [(0, "present"), (1, "absent")] {
        for (db, filter) in [(&with, "bloom"), (&without, "none")] {
            let trace = look_up(db, odd)?;
            println!(
                "{keys:9}{filter:9}{:>12}{:>14}{:>12}{:>16}",
                trace.data_blocks(),
                trace.filter_checks,
                trace.filter_negatives,
                trace.filter_false_positives
            );
        }
    }
    Ok(())
}
