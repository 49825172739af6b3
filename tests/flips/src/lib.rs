//! The phases in whose middle bits are flipped, and the databases that they work on.

use std::path::Path;

use minikv::{Compression, Db, Filters, Options, Result};
use minikv_support::rng::Rng;

/// Number of entries of a database.
const ENTRIES: u64 = 4000;

/// Work that a process does while one of its registers is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Put,
    Flush,
    Compact,
    Get,
}

pub const PHASES: [Phase; 4] = [Phase::Put, Phase::Flush, Phase::Compact, Phase::Get];

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Put => "put",
            Phase::Flush => "flush",
            Phase::Compact => "compact",
            Phase::Get => "get",
        }
    }

    /// Makes the database that the phase begins with.
    pub fn prepare(self, dir: &Path) -> Result<()> {
        let db = Db::open(dir, options())?;
        let first = if self == Phase::Put { ENTRIES } else { 0 };
        for number in first..ENTRIES {
            put(&db, number)?;
            // Several tables, which overlap.
            if self != Phase::Flush && number % 500 == 499 {
                db.flush()?;
            }
        }
        db.close()
    }

    /// Does the work. Returns an error where the database gives one, or where it gives another
    /// value than was put.
    pub fn work(self, db: &Db) -> Result<std::result::Result<(), String>> {
        match self {
            Phase::Put => (0..ENTRIES).try_for_each(|number| put(db, number))?,
            Phase::Flush => db.flush()?,
            Phase::Compact => db.compact_range(..)?,
            Phase::Get => {
                for (key, value) in (ENTRIES / 2..ENTRIES).map(entry) {
                    if db.get(&key)?.as_deref() != Some(&value[..]) {
                        return Ok(Err(format!("another value of {}", key.escape_ascii())));
                    }
                }
            }
        }
        Ok(Ok(()))
    }
}

/// Returns options with which all work is done by the thread that asks for it.
pub fn options() -> Options {
    Options::default()
        .create_if_missing(true)
        .filters(Filters::Block(10))
        .compression(Compression::Snappy)
        .inline_background(Some(1))
}

/// Returns an entry. Every key is put twice, the second time with another value.
pub fn entry(number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng::new(number);
    let key = format!("{:016}", number % (ENTRIES / 2) * 7919 % 1_000_003).into_bytes();
    let mut value = rng.bytes(50);
    value.resize(100, b'-');
    (key, value)
}

fn put(db: &Db, number: u64) -> Result<()> {
    let (key, value) = entry(number);
    db.put(key, value)
}

/// Checks that a database has exactly the entries of [`Phase::prepare`], or of [`Phase::work`].
///
/// # Errors
/// What the database says of damage (`Ok(Err)`), or what is wrong although it says nothing.
pub fn check(dir: &Path) -> std::result::Result<std::result::Result<(), String>, String> {
    let told = |error: minikv::Error| error.to_string();
    let db = match Db::open(dir, options().paranoid_checks(true)) {
        Ok(db) => db,
        Err(error) => return Ok(Err(told(error))),
    };
    let expected: std::collections::BTreeMap<_, _> = (0..ENTRIES).map(entry).collect();
    let mut expected = expected.into_iter();
    for found in db.iter() {
        let (key, value) = match found {
            Ok(found) => found,
            Err(error) => return Ok(Err(told(error))),
        };
        if expected.next() != Some((key.to_vec(), value.to_vec())) {
            return Err(format!("another entry at {}", key.escape_ascii()));
        }
    }
    match expected.next() {
        Some((key, _)) => Err(format!("{} is missing", key.escape_ascii())),
        None => Ok(Ok(())),
    }
}
