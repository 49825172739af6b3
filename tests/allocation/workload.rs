//! The workload of the child process, and the check of the directory that it leaves.
//!
//! Puts are numbered from 1 and go to [`KEYS`] keys in turn, so that a directory tells which put
//! was the last, and whether all before it are there.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use minikv::{Db, Options, Result, WriteOptions};

/// Number of keys. Every later put overwrites an earlier one.
const KEYS: u64 = 24;

/// Number of puts of the whole workload.
pub const PUTS: u64 = 120;

/// A deliberate mistake of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// None.
    None,
    /// Each put is acknowledged before it is written.
    EarlyAck,
}

fn options() -> Options {
    // Background work is done by the writer's thread, so that every run makes the same allocations.
    Options::default().create_if_missing(true).inline_background(Some(1))
}

/// Runs the workload in the directory `dir`: puts, every fourth of them synced, flushes, an
/// iterator, a compaction, and a recovery. Tells each put, once it is acknowledged, by a line
/// `acked <n>`.
pub fn run(dir: &Path, mistake: Mistake) -> Result<()> {
    let mut db = Db::open(dir, options())?;
    for number in 1..=PUTS {
        if mistake == Mistake::EarlyAck {
            tell(number);
        }
        let options = WriteOptions::default().sync(number % 4 == 0);
        db.writing(options).put(key_of(number), value_of(number))?;
        if mistake == Mistake::None {
            tell(number);
        }
        match number {
            30 | 60 => db.flush()?,
            70 => {
                for entry in db.iter() {
                    entry?;
                }
                db.get(key_of(number))?;
            }
            80 => db.compact_range(..)?,
            100 => {
                // The next open replays the log.
                drop(db);
                db = Db::open(dir, self::options())?;
            }
            _ => {}
        }
    }
    db.close()
}

/// Writes to the pipe without an allocation: the formatted line goes into a buffer that was
/// allocated before the workload.
fn tell(number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "acked {number}").and_then(|()| out.flush()).expect("the parent reads");
}

fn key_of(number: u64) -> String {
    format!("key {:02}", number % KEYS)
}

fn value_of(number: u64) -> String {
    format!("{number}:{}", "v".repeat(number as usize * 7 % 90))
}

/// Checks the directory of a workload whose last acknowledged put was number `acked`: everything up
/// to it is there, and at most the next put besides; the files are sound, and the database goes on.
pub fn check(dir: &Path, acked: u64) -> std::result::Result<(), String> {
    let failed = |what: &str, error: minikv::Error| format!("{what}: {error}");
    let db = Db::open(dir, options()).map_err(|error| failed("open", error))?;
    if !db.recovery().lost.is_empty() {
        return Err(format!("lost: {:?}", db.recovery()));
    }
    let mut found = BTreeMap::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| failed("iterate", error))?;
        found.insert(text(&key)?, text(&value)?);
    }
    let number_of = |value: &String| value.split(':').next().and_then(|n| n.parse::<u64>().ok());
    let last = found.values().filter_map(number_of).max().unwrap_or(0);
    if last != acked && last != acked + 1 {
        return Err(format!("the last put is {last}, but {acked} was acknowledged"));
    }
    let first = last.saturating_sub(KEYS - 1).max(1);
    let expected: BTreeMap<_, _> = (first..=last).map(|n| (key_of(n), value_of(n))).collect();
    if found != expected {
        return Err(format!("{found:?} instead of {expected:?}"));
    }
    db.put("more", "").map_err(|error| failed("put", error))?;
    db.compact_range(..).map_err(|error| failed("compact", error))?;
    db.close().map_err(|error| failed("close", error))?;
    let report = minikv::verify(dir, &options()).map_err(|error| failed("verify", error))?;
    if report.is_sound() { Ok(()) } else { Err(format!("{report:?}")) }
}

fn text(bytes: &[u8]) -> std::result::Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())
}
