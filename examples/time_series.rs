//! Measurements over time: `cargo run --release --example time_series`.
//!
//! A key is the name of a series, a zero byte, and the time in big-endian milliseconds, so that the
//! measurements of a series are together and in order.

use std::ops::Range;

use minikv::{Compression, Db, Options, Readable, Result, WriteBatch};

const SERIES: [&str; 3] = ["temperature/attic", "temperature/cellar", "wind"];
const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;
const DAYS: u64 = 30;

fn key(series: &str, millis: u64) -> Vec<u8> {
    [series.as_bytes(), &[0], &millis.to_be_bytes()].concat()
}

fn time(key: &[u8]) -> u64 {
    u64::from_be_bytes(*key.last_chunk().expect("a key ends with the time"))
}

fn value(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// Returns the mean of each `step` milliseconds of a series that has measurements.
fn means(db: &Db, series: &str, times: Range<u64>, step: u64) -> Result<Vec<(u64, f64)>> {
    let mut means: Vec<(u64, f64)> = Vec::new();
    let (mut sum, mut count) = (0.0, 0.0);
    for entry in db.range(key(series, times.start)..key(series, times.end)) {
        let (key, bytes) = entry?;
        let start = time(&key) / step * step;
        if means.last().is_none_or(|(last, _)| *last != start) {
            (sum, count) = (0.0, 0.0);
            means.push((start, 0.0));
        }
        (sum, count) = (sum + value(&bytes), count + 1.0);
        means.last_mut().expect("pushed").1 = sum / count;
    }
    Ok(means)
}

/// Returns the latest measurement of a series, and its time.
fn latest(db: &Db, series: &str) -> Result<Option<(u64, f64)>> {
    let last = db.range(key(series, 0)..=key(series, u64::MAX)).next_back().transpose()?;
    Ok(last.map(|(key, bytes)| (time(&key), value(&bytes))))
}

fn main() -> Result<()> {
    let home = tempfile::tempdir().expect("a temporary directory");
    // Many small entries, mostly scanned: larger buffers and blocks. Small tables, so that more of
    // them lie within what is deleted.
    let options = Options::default()
        .create_if_missing(true)
        .compression(Compression::Snappy)
        .write_buffer_bytes(16 << 20)
        .block_bytes(16 << 10)
        .max_file_bytes(64 << 10);
    let db = Db::open(home.path().join("db"), options)?;

    // One batch a minute: the measurements of a minute are kept together or not at all.
    for minute in 0..DAYS * 24 * 60 {
        let mut batch = WriteBatch::new();
        for (series, offset) in SERIES.iter().zip(0u32..) {
            let value = f64::from(offset) + (minute % 1440) as f64 / 144.0;
            batch.put(key(series, minute * MINUTE), value.to_le_bytes());
        }
        db.write(batch)?;
    }

    println!("wind on day 20, every four hours:");
    for (start, mean) in means(&db, "wind", 20 * DAY..21 * DAY, 4 * 60 * MINUTE)? {
        println!("  {:02}:00 {mean:5.2}", start % DAY / MINUTE / 60);
    }
    let (when, value) = latest(&db, "temperature/attic")?.expect("there is one");
    println!(
        "the attic had {value:.2} degrees in minute {} of day {}",
        when % DAY / MINUTE,
        DAYS - 1
    );

    // Keeps ten days. Whole tables are dropped, and what is left is deleted key by key. A snapshot
    // that exists keeps showing everything.
    let before = db.snapshot();
    db.compact_range(..)?;
    for series in SERIES {
        let done = db.delete_range(key(series, 0)..key(series, (DAYS - 10) * DAY))?;
        println!("{series}: {} tables dropped, {} keys deleted", done.tables, done.keys);
    }
    let left = SERIES.len() as u64 * 10 * DAY / MINUTE;
    assert_eq!((db.count(..)?, before.count(..)?), (left, left * DAYS / 10));
    Ok(())
}
