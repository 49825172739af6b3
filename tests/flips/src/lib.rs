//! The phases in whose middle bits are flipped, and the databases that they work on.

mod c_api;
mod engine;
mod kind;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use minikv_support::rng::Rng;

pub use engine::Engine;
pub use kind::{ENGINES, Kind};

/// Number of entries of a database.
const ENTRIES: u64 = 4000;

/// Number of entries in each table that a phase begins with. LevelDB and RocksDB begin on their own
/// to compact four tables.
const TABLE_ENTRIES: u64 = ENTRIES / 3 + 1;

/// The entries that are put, in this order. A phase finds it made, so that flips hit the database.
static PUTS: LazyLock<Vec<(Vec<u8>, Vec<u8>)>> =
    LazyLock::new(|| (0..ENTRIES).map(entry).collect());

/// The entries that a database has after every put.
static EXPECTED: LazyLock<BTreeMap<&[u8], &[u8]>> =
    LazyLock::new(|| PUTS.iter().map(|(key, value)| (&key[..], &value[..])).collect());

/// Work that a process does while one of its registers is changed; for `Memory`, after an entry in
/// its memory was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Put,
    Flush,
    Compact,
    Get,
    Memory,
}

pub const PHASES: [Phase; 5] =
    [Phase::Put, Phase::Flush, Phase::Compact, Phase::Get, Phase::Memory];

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Put => "put",
            Phase::Flush => "flush",
            Phase::Compact => "compact",
            Phase::Get => "get",
            Phase::Memory => "memory",
        }
    }

    /// Makes the files of the database that the phase begins with. They are the same for each flip.
    pub fn prepare(self, kind: Kind, dir: &Path) -> Result<(), String> {
        let mut db = kind.open(dir, false)?;
        if matches!(self, Phase::Compact | Phase::Get) {
            for (number, (key, value)) in (0..).zip(&*PUTS) {
                db.put(key, value)?;
                // Several tables, which overlap.
                if number % TABLE_ENTRIES == TABLE_ENTRIES - 1 || number == ENTRIES - 1 {
                    db.settle()?;
                    db.close()?;
                    db = kind.open(dir, false)?;
                }
            }
        }
        db.close()
    }

    /// Does what comes before the phase in the same process.
    pub fn begin(self, db: &dyn Engine) -> Result<(), String> {
        LazyLock::force(&PUTS);
        match self {
            // LevelDB and RocksDB make a table of a log when they open it.
            Phase::Flush | Phase::Memory => put_all(db),
            _ => Ok(()),
        }
    }

    /// Does the work. Returns an error where the database gives one (`Err`), or where it gives
    /// another value than was put (`Ok(Err)`).
    pub fn work(self, db: &dyn Engine) -> Result<Result<(), String>, String> {
        match self {
            Phase::Put => put_all(db)?,
            Phase::Flush | Phase::Memory => db.flush()?,
            Phase::Compact => db.compact()?,
            Phase::Get => {
                for (key, value) in PUTS.iter().skip(PUTS.len() / 2) {
                    if db.get(key)?.as_deref() != Some(&value[..]) {
                        return Ok(Err(format!("another value of {}", key.escape_ascii())));
                    }
                }
            }
        }
        Ok(Ok(()))
    }
}

/// Returns one of the entries that are put.
pub fn any_entry(rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    entry(rng.below(ENTRIES as usize) as u64)
}

/// Returns an entry. Every key is put twice, the second time with another value.
fn entry(number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng::new(number);
    let key = format!("{:016}", number % (ENTRIES / 2) * 7919 % 1_000_003).into_bytes();
    let mut value = rng.bytes(50);
    value.resize(100, b'-');
    (key, value)
}

fn put_all(db: &dyn Engine) -> Result<(), String> {
    PUTS.iter().try_for_each(|(key, value)| db.put(key, value))
}

/// Puts the last entry once more, which changes nothing. A database that keeps an error of its
/// background for the next write tells it.
pub(crate) fn put_again(db: &dyn Engine) -> Result<(), String> {
    PUTS.last().map_or(Ok(()), |(key, value)| db.put(key, value))
}

/// Checks that a database has exactly the entries that were put.
///
/// # Errors
/// What the database says of damage (`Ok(Err)`), or what is wrong although it says nothing.
pub fn check(kind: Kind, dir: &Path) -> Result<Result<(), String>, String> {
    let db = match kind.open(dir, true) {
        Ok(db) => db,
        Err(told) => return Ok(Err(told)),
    };
    let mut expected = EXPECTED.iter();
    let mut wrong = None;
    let told = db.each(&mut |key, value| {
        if expected.next() == Some((&key, &value)) {
            return true;
        }
        wrong = Some(format!("another entry at {}", key.escape_ascii()));
        false
    });
    match (wrong, told, expected.next()) {
        (Some(wrong), ..) => Err(wrong),
        (None, Err(told), _) => Ok(Err(told)),
        (None, Ok(()), Some((key, _))) => Err(format!("{} is missing", key.escape_ascii())),
        (None, Ok(()), None) => Ok(Ok(())),
    }
}
