//! Reads of many keys at once: the source of a figure in `docs/history/performance.md`.
//!
//! ```text
//! cargo bench --bench scans -- deleted    the first step of a cursor over a million deletes
//! ```

mod deleted;

use std::path::Path;
use std::time::{Duration, Instant};

use minikv::{Db, WriteBatch};
use minikv_instrument::random::Rng;

/// Number of entries in each database.
const ENTRIES: u64 = 2_000_000;
/// Length of a value, in bytes. A value can be compressed to half of this length.
const VALUE_BYTES: usize = 100;

fn main() {
    // `cargo bench` adds flags to the arguments, but `cargo test` does not.
    match std::env::args().nth(1).as_deref() {
        Some("deleted") => deleted::run(),
        _ => eprintln!("usage: cargo bench --bench scans -- deleted"),
    }
}

fn key(number: u64) -> [u8; 16] {
    format!("{number:016}").into_bytes().try_into().expect("16 digits")
}

/// Fills `value` with bytes that can be compressed to half of their size.
fn value(rng: &mut Rng, value: &mut Vec<u8>) {
    value.clear();
    while value.len() < VALUE_BYTES / 2 {
        value.extend_from_slice(&rng.next().to_le_bytes());
    }
    value.truncate(VALUE_BYTES / 2);
    value.extend_from_within(..);
}

/// Calls `add` for each number in a range, and writes the results in batches of a thousand.
fn write(db: &Db, numbers: std::ops::Range<u64>, mut add: impl FnMut(&mut WriteBatch, u64)) {
    let mut batch = WriteBatch::new();
    for number in numbers.clone() {
        add(&mut batch, number);
        if number % 1000 == 999 || number + 1 == numbers.end {
            db.write(std::mem::take(&mut batch)).expect("the disk has room");
        }
    }
}

/// Puts one entry for each number in a range.
fn fill(db: &Db, numbers: std::ops::Range<u64>) {
    let (mut rng, mut bytes) = (Rng::new(7), Vec::new());
    write(db, numbers, |batch, number| {
        value(&mut rng, &mut bytes);
        batch.put(key(number), &bytes);
    });
}

fn timed<R>(f: impl FnOnce() -> R) -> (Duration, R) {
    let began = Instant::now();
    let result = f();
    (began.elapsed(), result)
}

fn disk_mib(dir: &Path) -> f64 {
    let files = std::fs::read_dir(dir).expect("the directory is there");
    let bytes: u64 = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
    bytes as f64 / f64::from(1 << 20)
}
